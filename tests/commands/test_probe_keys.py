"""`hicachectl probe-keys` as a user runs it, without a store or with one that is made up of fixed answers."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import invoke
import pytest

from hicachectl.keys.page import page_keys

sys.path.append(str(Path(__file__).parents[1] / "mooncake"))
answering = importlib.import_module("answering")
METRICS_0_3_11 = importlib.import_module("mooncake_answers").METRICS_0_3_11

TOKENS = list(range(100, 180))
GIVEN = ("--tokens", ",".join(map(str, TOKENS)), "--page-size", "16")
PAGES = page_keys(TOKENS, 16, sglang="0.5.14")
KEYS = [f"{page}_0_{part}" for page in PAGES for part in "kv"]
OLD_HEALTH = b'{"status":"ok","service_ready":true,"role":"leader","ha_state":"serving"}'
NEW_HEALTH = b'{"status":"ok","service_ready":true,"role":"leader","ha_state":"serving","leader_address":""}'


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    """No store is configured by the environment, and the release does not hang on what is installed."""
    for name in (
        "MOONCAKE_MASTER",
        "MOONCAKE_CLIENT",
        "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
        "MOONCAKE_MASTER_METRICS_PORT",
    ):
        monkeypatch.delenv(name, raising=False)


def run(*words: str, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command for SGLang 0.5.14 and expect its exit code."""
    done = invoke.hicachectl("probe-keys", *words, stdin=stdin)
    assert done.returncode == code, done.stderr
    return done


def document(*words: str, stdin: bytes = b"") -> dict:
    """The JSON document of a run."""
    return json.loads(run(*words, "--sglang", "0.5.14", "-o", "json", stdin=stdin).stdout)


def old_store(there: list[str]) -> dict[str, tuple[int, bytes]]:
    """What a master before 0.3.12 that holds THERE answers."""
    return {
        "/health": (200, OLD_HEALTH),
        "/metrics": (200, METRICS_0_3_11),
        "/get_all_keys": (200, "".join(f"{key}\n" for key in there).encode()),
    }


def new_store(there: list[str], asked: list[str]) -> dict[str, tuple[int, bytes]]:
    """What a master since 0.3.12 that holds THERE answers to a look-up for ASKED."""
    rows = {
        key: {"ok": True, "values": []} if key in there else {"ok": False, "error": "OBJECT_NOT_FOUND"} for key in asked
    }
    return {
        "/health": (200, NEW_HEALTH),
        "/metrics": (200, METRICS_0_3_11),
        "/batch_query_keys": (200, json.dumps({"success": True, "data": rows}).encode()),
        "/get_all_keys": (200, "".join(f"{key}\n" for key in there).encode()),
    }


def test_a_time_out_without_end_is_usage():
    """A time that no call of the system takes is refused as usage, before anybody is asked."""
    assert "86400" in run(*GIVEN, "--master", "127.0.0.1:1", "--timeout", "inf", code=2).stderr


def test_help_has_an_example():
    """The help shows how it is used."""
    assert "Example:" in run("--help").stdout


def test_no_store_prints_keys_and_asks_nobody():
    """With --no-store every full page has its keys, and everything that a store would have to say is null."""
    found = document(*GIVEN, "--no-store", "--tp-size", "2")
    assert found["schema"] == "hicachectl/probe-keys/1"
    assert [page["page_key"] for page in found["pages"]] == PAGES
    assert found["pages"][0]["objects"][3] == {
        "key": f"{PAGES[0]}_1_v",
        "tp_rank": 1,
        "pp_rank": 0,
        "part": "v",
        "component": None,
        "present": None,
        "code": None,
    }
    nothing = ("contiguous_pages", "first_gap", "unreachable_pages", "engine_would", "fits_instead", "store")
    assert {name: found[name] for name in nothing} == dict.fromkeys(nothing)
    assert {page["complete"] for page in found["pages"]} == {None}


def test_no_store_needs_neither_torch_nor_mooncake():
    """Printing keys loads none of the packages of the serving environment."""
    words = ["probe-keys", *GIVEN, "--no-store"]
    script = (
        f"import sys; sys.argv = ['hicachectl', *{words!r}]\n"
        "from hicachectl.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'torch', 'sglang', 'mooncake', 'numpy', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], env=invoke.environment(), capture_output=True, check=False)
    assert done.returncode == 0
    assert PAGES[0].encode() in done.stdout


def test_tokens_come_from_a_file_and_from_standard_input(tmp_path: Path):
    """A file and `-` are read like numbers on the command line."""
    text = " ".join(map(str, TOKENS))
    (tmp_path / "prompt.txt").write_text(text)
    shape = ("--page-size", "16", "--no-store")
    from_file = document("--tokens", str(tmp_path / "prompt.txt"), *shape)
    assert from_file["pages"] == document(*GIVEN, "--no-store")["pages"]
    assert document("--tokens", "-", *shape, stdin=text.encode())["pages"] == from_file["pages"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "exactly one of"),
        ((*GIVEN, "--decode", "x"), 2, "exactly one of"),
        (("--text", "hello"), 2, "--tokenizer"),
        (("--run", "somewhere"), 2, "--request"),
        ((*GIVEN, "--pools", "colour", "--no-store"), 2, "is no pool"),
        ((*GIVEN, "--kind", "gqa"), 2, "gqa"),
        ((*GIVEN, "--tp-size", "2", "--tp-lcm-size", "3", "--no-store"), 2, "no multiple"),
        ((*GIVEN, "--sglang", "0.4.0", "--no-store"), 2, "0.5.14 and later"),
        ((*GIVEN,), 3, "MOONCAKE_MASTER"),
        ((*GIVEN, "--master", "127.0.0.1:1", "--admin", "127.0.0.1:1", "--lookup", "listing"), 3, "cannot reach"),
        (("--tokens", "1,x", "--no-store"), 4, "'x'"),
        (("--tokens", "/no/such/file", "--no-store"), 3, "there is no file /no/such/file"),
        (("--tokens", "prompt.txt", "--no-store"), 3, "there is no file prompt.txt"),
        (("--tokens", "/dev/zero", "--no-store"), 3, "there is no file /dev/zero"),
        (("--text", "x", "--tokenizer", __file__, "--no-store"), 4, "holds no tokenizer that can be read"),
        ((*GIVEN, "--extra-config", "@/dev/zero", "--no-store"), 4, "is a device"),
        ((*GIVEN, "--master", "127.0.0.1:1", "--admin", "9" * 5000, "--lookup", "listing"), 4, "is not the URL of an admin port"),
        (("--tokens", "1,-2", "--no-store"), 4, "-2 is no token id"),
        (("--decode", "no\x1b[31mkey"), 4, "is no key of SGLang's"),
        (("--request", "r", "--run", "/nonexistent/run"), 3, "/nonexistent/run"),
        (("--request", "r", "--page-size", "32"), 2, "another shape needs the tokens"),
    ],
)
def test_what_cannot_be_done_ends_with_its_code_and_one_line(words: tuple[str, ...], code: int, said: str):
    """Each wrong use ends with the contract's exit code, says why on stderr in words that cannot move the cursor, and prints no data."""
    done = run(*words, code=code)
    assert said in done.stderr
    assert done.stdout == ""
    assert "\x1b" not in done.stderr


def test_a_store_before_0_3_12_is_listed_without_a_lease():
    """Presence, hit, gap and what lies behind it come from the list of keys, and nothing was done to the store."""
    there = [key for key in KEYS if key not in {KEYS[5], KEYS[6]}]
    with answering.server(old_store(there)) as url:
        found = document(*GIVEN, "--master", "127.0.0.1:1", "--admin", url, "--prefetch-threshold", "16")
    present = [each["present"] for page in found["pages"] for each in page["objects"]]
    assert present == [key in there for key in KEYS]
    assert [page["complete"] for page in found["pages"]] == [True, True, False, False, True]
    assert (found["contiguous_pages"], found["unreachable_pages"]) == (2, 1)
    assert found["first_gap"] == {"page": 2, "key": KEYS[5], "code": None}
    assert found["engine_would"]["prefetch"] is True
    # 80 tokens: the last one is not looked up, so the fifth page is not asked for, and nothing behind the gap is complete.
    assert (found["engine_would"]["tokens"], found["engine_would"]["code"]) == (32, None)
    assert found["side_effects"] == []
    assert found["store"]["lookup"] == "listing"


def test_a_store_since_0_3_12_is_queried_without_a_lease():
    """The read-only query of the newer release is used, and below the threshold nothing would be fetched."""
    there = KEYS[:4]
    with answering.server(new_store(there, KEYS)) as url:
        found = document(*GIVEN, "--master", "127.0.0.1:1", "--admin", url)
    assert (found["contiguous_pages"], found["store"]["lookup"], found["side_effects"]) == (2, "query", [])
    assert found["engine_would"]["code"] == "HC-R04"


def test_a_master_of_another_release_than_the_client_is_remarked(tmp_path: Path):
    """Keys that are there are of no use to engines whose client the master does not understand; a master of the client's release gets no remark."""
    for client, store, other in (("0.3.11.post1", new_store([], KEYS), "0.3.12 or later"), ("0.3.13.post1", old_store([]), "before 0.3.12"), ("0.3.11.post1", old_store([]), "")):
        site = tmp_path / f"{client}-{other}" / "mooncake_transfer_engine-1.dist-info"
        site.mkdir(parents=True)
        (site / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mooncake-transfer-engine\nVersion: {client}\n")
        with answering.server(store) as url:
            words = ("probe-keys", *GIVEN, "--sglang", "0.5.14", "--master", "127.0.0.1:1", "--admin", url, "-o", "json")
            found = json.loads(invoke.hicachectl(*words, env={"PYTHONPATH": f"{site.parent}{os.pathsep}{invoke.ROOT}"}).stdout)
        said = [remark for remark in found["remarks"] if "-900" in remark]
        assert [f"one of {other}, and the Mooncake client here is {client}" in remark for remark in said] == [True] * bool(other)


@pytest.mark.parametrize(("sglang", "guessed"), [("9.9.9", True), ("0.5.24", True), ("0.5.23", False), ("0.5.23.post1", False), ("0.5.14", False)])
def test_rules_of_a_release_that_nobody_has_read_are_told_to_be_a_guess(sglang: str, guessed: bool):
    """The newest known rules are taken, and a line on stderr says so; none where the rules are known."""
    done = run(*GIVEN, "--no-store", "--sglang", sglang)
    assert (f"the key rules of SGLang {sglang} are not known: those of 0.5.23" in done.stderr) == guessed
    assert done.stderr.count("\n") == guessed


def test_the_older_query_is_refused_because_it_leaves_traces():
    """--lookup query on an older master ends with the ways that there are."""
    with answering.server(old_store([])) as url:
        done = run(*GIVEN, "--master", "127.0.0.1:1", "--admin", url, "--lookup", "query", code=2)
    assert "--lookup listing or client" in done.stderr


def test_why_names_the_shape_that_fits():
    """Where nothing matches, the document names the shape under which objects of these tokens exist."""
    other = page_keys(TOKENS, 32, sglang="0.5.14")
    there = [f"blue_{page}_{rank}_{part}" for page in other for rank in (0, 1) for part in "kv"]
    with answering.server(old_store(there)) as url:
        found = document(*GIVEN, "--master", "127.0.0.1:1", "--admin", url, "--why")
    assert found["fits_instead"]["changes"] == {"page_size": 32, "tp_size": 2, "prefix": "blue"}
    assert found["fits_instead"]["why"].startswith("objects of these tokens exist under page size 32")
    assert found["contiguous_pages"] == 0


def test_why_says_so_where_nothing_fits():
    """A store without any object of these tokens fits no shape, and a remark says it."""
    with answering.server(old_store([])) as url:
        found = document(*GIVEN, "--master", "127.0.0.1:1", "--admin", url, "--why")
    assert found["fits_instead"] is None
    assert any("no neighbouring shape" in line for line in found["remarks"])


def test_missing_pages_are_an_answer():
    """Nothing of the prompt in the store is exit 0."""
    with answering.server(old_store([])) as url:
        assert "fetch nothing" in run(*GIVEN, "--master", "127.0.0.1:1", "--admin", url).stdout


def test_the_map_is_read_at_a_glance():
    """The whole text for a reader: shape, map, hit, cut, what lies behind, what the engine would do."""
    there = [key for key in KEYS if key != KEYS[5]]
    with answering.server(old_store(there)) as url:
        words = (*GIVEN, "--sglang", "0.5.14", "--master", "127.0.0.1:1", "--admin", url, "--prefetch-threshold", "16")
        shown = run(*words).stdout
    assert shown == (
        "shape   SGLang 0.5.14, mha, page size 16, tp 1\n"
        "prompt  80 tokens: 5 full pages, 10 objects\n"
        f"store   127.0.0.1:1 (asked by listing at {url})\n"
        "\n"
        "   0\n"
        "k  ■■□□□\n"
        "v  ■■·□□\n"
        "   ■ there   □ there, behind the cut   · missing\n"
        "\n"
        "contiguous hit    2 of 5 pages, 32 tokens\n"
        f"cut by            page 2, v (missing): {KEYS[5]}\n"
        "unreachable       2 complete pages behind the cut\n"
        "the engine would  fetch 32 tokens (HC-R13): the look-up for 4 pages finds 2, that is 32 tokens, at or above the threshold of 16;"
        " the engine waits for them at most 2 s (policy timeout)\n"
        "\n"
        "remarks\n"
        "  the master lists an object from the start of its put on: one whose put has not ended counts as present\n"
    )


def test_a_dead_store_is_told_within_the_time_out():
    """Nobody at the master's address is exit 3, well before the client library's own 90 s."""
    began = time.monotonic()
    done = run(*GIVEN, "--master", "127.0.0.1:1", "--admin", "127.0.0.1:1", "--timeout", "2", code=3)
    assert time.monotonic() - began < 20
    assert "127.0.0.1:1" in done.stderr


def test_the_shape_is_read_from_a_server():
    """--server gives version, sizes, tag, names and policy; an option overrides it."""
    info = {
        "version": "0.5.14",
        "page_size": 16,
        "tp_size": 4,
        "dp_size": 2,
        "enable_dp_attention": True,
        "pp_size": 1,
        "served_model_name": "m",
        "speculative_algorithm": None,
        "hicache_storage_backend": "mooncake",
        "enable_hierarchical_cache": True,
        "hicache_storage_prefetch_policy": "wait_complete",
        "hicache_storage_backend_extra_config": '{"extra_backend_tag": "blue", "prefetch_threshold": 32}',
    }
    answers = {
        "/get_server_info": (200, json.dumps(info).encode()),
        "/model_info": (200, b'{"architectures": ["DeepseekV3ForCausalLM"]}'),
    }
    with answering.server(answers) as url, answering.server(old_store([])) as admin:
        words = ("--tokens", GIVEN[1], "--server", url, "--master", "127.0.0.1:1", "--admin", admin)
        found, overridden = (
            json.loads(run(*words, *more, "-o", "json").stdout) for more in ((), ("--kind", "mha", "--tag", "red"))
        )
    assert {name: found["shape"][name] for name in ("sglang", "page_size", "tp_size", "kind", "tag")} == {
        "sglang": "0.5.14",
        "page_size": 16,
        "tp_size": 2,
        "kind": "mla",
        "tag": "blue",
    }
    assert found["first_gap"]["key"] == f"blue_{PAGES[0]}__k"
    assert "threshold of 32" in found["engine_would"]["why"]
    assert overridden["first_gap"]["key"] == f"red_{PAGES[0]}_0_k"


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        ({}, 4, "is it an SGLang server?"),
        ({"/server_info": (200, b"<html>")}, 4, "did not answer JSON"),
        ({"/server_info": (401, b"")}, 3, "SGLANG_API_KEY"),
        ({"/server_info": (500, b"oops")}, 3, "HTTP 500"),
        ({"/server_info": (200, b'{"version": "0.5.14"}')}, 4, "page_size"),
    ],
)
def test_what_is_no_server_is_told(answers: dict[str, tuple[int, bytes]], code: int, said: str):
    """A server that is none of SGLang's, wants a key, or does not say what keys depend on ends with the reason."""
    with answering.server(answers) as url:
        assert said in run("--tokens", "1", "--server", url, "--no-store", code=code).stderr


def test_a_key_is_decoded():
    """--decode tells page, part, rank and prefix, in every reading, as a table and as a document."""
    key = f"blue_{PAGES[0]}_3_k"
    (found,) = json.loads(run("--decode", key, "-o", "json").stdout)["decoded"]
    assert (found["what"], found["page_key"], found["prefix"]) == ("object", PAGES[0], "blue")
    assert [(each["kind"], each["tp_rank"], each["pp_rank"]) for each in found["readings"]] == [
        ("mha", 3, None),
        ("mla", None, 3),
    ]
    assert "tp rank 3" in run("--decode", key).stdout


def test_a_key_that_begins_with_a_dash_is_decoded():
    """A model that is a path gives keys that begin with a dash; they are no options."""
    assert "an object of one page" in run("--decode", f"-root-model_{PAGES[0]}__k").stdout


@pytest.mark.parametrize("name", ["model", "model/tokenizer.json"])
def test_a_text_is_tokenized(tmp_path: Path, name: str):
    """--text with a tokenizer gives the tokenizer's ids; without a package for it, exit 3 says which one is needed."""
    vocabulary = {"[UNK]": 0, "hello": 1, "world": 2}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "model" / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    words = (
        "--text",
        "hello world world",
        "--tokenizer",
        str(tmp_path / name),
        "--page-size",
        "1",
        "--no-store",
        "-o",
        "json",
    )
    done = invoke.hicachectl("probe-keys", *words, timeout=120)
    if done.returncode == 3:
        assert "transformers or tokenizers" in done.stderr
        return
    assert [page["page_key"] for page in invoke.document(done)["pages"]] == page_keys([1, 2, 2], 1, sglang="0.5.14")


def test_the_extra_configuration_gives_tag_and_threshold():
    """Tag and threshold of the engine's extra configuration count, whichever source names the store."""
    extra = '{"extra_backend_tag": "green", "prefetch_threshold": 48}'
    with answering.server(old_store([])) as url:
        found = document(*GIVEN, "--extra-config", extra, "--master", "127.0.0.1:1", "--admin", url)
    assert found["shape"]["tag"] == "green"
    assert "threshold of 48" in found["engine_would"]["why"]
