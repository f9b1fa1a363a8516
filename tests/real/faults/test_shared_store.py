"""Two engines on one store: what one wrote and the other asks for, under the same keys and under others."""

from pathlib import Path

import faults_bench as bench
import pytest
from faults_bench import Judged, explain
from faults_prompts import PROMPTS
from faults_releases import expected
from faults_shared import Runs
from installed import only
from test_one_engine import lost

from hicachectl.keys.shape import Shape

# An engine for each setting or fault: more than the fifteen minutes of `make test` have room for.
pytestmark = [pytest.mark.real, pytest.mark.slow]


def judged(runs: Runs, other: str, rid: str) -> tuple[Judged, dict, dict]:
    """The verdict on a request of another engine beside the first: all of it, the request's row, its first finding."""
    found = explain(*runs.of("first", other), request=rid)
    return found, found.request(rid, runs.engines[other]), found.findings(rid)[0] if found.findings(rid) else {}


def test_every_account_adds_up_and_equals_the_engines_own_count(runs: Runs) -> None:
    """All requests of all engines: reused tokens are the cached tokens that the engine returned."""
    for engine in runs.engines.values():
        found = explain(engine.run)
        assert found.document["complete"], found.document["incomplete"]
        for rid, answer in engine.answers.items():
            if answer["cached_tokens"] is not None:
                found.request(rid, engine)


def test_a_hundred_mixed_prompts_over_two_engines_are_healthy(runs: Runs) -> None:
    """Nothing above info, and every account exact."""
    found = explain(runs.snapshots["first"], runs.snapshots["second"])
    assert [each for each in found.document["findings"] if each["level"] != "info" and any(rid.startswith("mix") for rid in each["rids"])] == []
    mixed = [each for each in found.document["requests"] if each["rid"].startswith("mix")]
    assert len(mixed) == 100
    for each in mixed:
        found.request(each["rid"], runs.engines["first" if each["rid"].startswith("mix1") else "second"])
    assert sum(each["tokens"]["reused"]["storage"] for each in mixed) > 0


def test_f02_another_engine_reuses(runs: Runs) -> None:
    """An empty engine gets everything from the store, and the writer is named."""
    found, row, _ = judged(runs, "second", "f02-other")
    assert found.findings("f02-other") == []
    assert [each for each in explain(runs.snapshots["second"]).document["findings"] if each["level"] != "info"] == []
    assert row["ladder"]["prefix_reused"] == "yes"
    assert row["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 592}
    first = found.document["engines"][0]["engine"]
    assert row["writers"] == [{"engine": first, "rid": "f02-writes", "tokens": 592}]
    assert row["engine"] != first


def test_f16_computes_and_writes_what_is_there(runs: Runs) -> None:
    """A short prompt is not looked up: R04 for the lookup, W12 for the write that moved nothing."""
    found, row, first = judged(runs, "second", "f16-short")
    assert (first["code"], first["args"]["tokens"]) == ("HC-R04", 192)
    assert [each["code"] for each in found.findings("f16-short")] == ["HC-R04", "HC-W12"]
    written = found.findings("f16-short")[1]
    assert (written["level"], written["args"]["objects"], written["args"]["bytes"]) == ("info", 24, 0)
    assert row["ladder"]["found"] == "not_asked"
    assert lost(row) == {"HC-R04": 192}


def test_f17_another_page_size(runs: Runs) -> None:
    """The same prompt under other page keys: K01, both keys side by side."""
    _, row, first = judged(runs, "wide", "f17-wide")
    assert (first["code"], first["certain"]) == ("HC-K01", True)
    assert (first["args"]["ours"], first["args"]["theirs"]) == (32, 16)
    narrow, wide = bench.pages(PROMPTS["f17"]), bench.pages(PROMPTS["f17"], page=32)
    assert first["args"]["asked_page_key"] == wide[0]
    assert first["args"]["written_page_key"] in (narrow[0], narrow[1])
    assert first["args"]["writer"] != row["engine"]
    assert lost(row) == {"HC-K01": 576}


def test_f21_settings_from_the_environment_are_ignored(runs: Runs) -> None:
    """extra_config names the store: what the user set besides is said with the value in use; what the lab set is not."""
    first = explain(*runs.of("wide")).code("HC-A02")
    assert (first["level"], first["args"]["source"]) == ("warning", "extra_config")
    assert first["args"]["settings"] == ["MOONCAKE_DEVICE=mlx5_9 (in use: )"]


def test_f33_rdma_without_a_device_runs_on_tcp(runs: Runs) -> None:
    """Setup succeeds, everything works over TCP, and that is said."""
    if any(Path("/sys/class/infiniband").glob("*")):
        pytest.skip("this machine has an RDMA device")
    found = explain(*runs.of("wide"))
    first = found.code("HC-A101")
    assert (first["level"], first["certain"]) == ("warning", True)
    assert (first["args"]["asked"], first["args"]["in_use"], first["args"]["devices"]) == ("rdma", "tcp", 0)
    assert found.document["engines"][0]["backend"]["transport"] == {"asked": "rdma", "in_use": "tcp"}
    assert found.request("f33-again", runs.engines["wide"])["tokens"]["reused"]["storage"] == 384
    assert "HC-A05" not in [each["code"] for each in found.document["findings"]]


def test_f18_another_tag(runs: Runs) -> None:
    """The same page keys behind a tag: K03 names the tag, although the engine had none before it attached anew."""
    _, row, first = judged(runs, "float", "f18-tagged")
    assert (first["code"], first["certain"]) == ("HC-K03", True)
    assert (first["args"]["ours"], first["args"]["theirs"]) == ("team-b", "none")
    asked, written = (Shape(sglang=bench.RELEASE, model_name=runs.engines[name].model, tag=tag).prefix for name, tag in (("float", "team-b"), ("first", None)))
    assert (first["args"]["asked_prefix"], first["args"]["written_prefix"]) == (asked, written)
    assert lost(row) == {"HC-K03": 384}
    assert row["ladder"]["found"] == "no"


def test_a_prefill_of_chunks(runs: Runs) -> None:
    """The rest of a prompt is computed in chunks of 128: G04 with their number, and the account is that of the first."""
    _, row, first = judged(runs, "wide", "g04-longer")
    assert (first["code"], first["level"], first["args"]["chunks"]) == ("HC-G04", "info", 4)
    assert row["tokens"]["reused"] == {"device": 0, "host": 0, "storage": 320}


def test_a_request_that_is_aborted_between_its_chunks(runs: Runs) -> None:
    """Its chunks stay in the tree and are not written: W03 with their tokens."""
    only("0.5.14")
    found = explain(*runs.of("wide"), request="w03-cut")
    row, first = found.request("w03-cut"), found.first("w03-cut")
    assert (first["code"], first["level"], first["certain"]) == ("HC-W03", "warning", True)
    assert first["args"]["tokens"] == first["args"]["inserts"] * 128
    assert row["ladder"]["written"] == "no"


def test_keys_after_an_attach_name_a_suffix(runs: Runs) -> None:
    """What was in the tree before the attach has no keys, so what follows it is written as if it began there: K10."""
    only("0.5.14")
    _, row, first = judged(runs, "float", "k10-after")
    assert (first["code"], first["level"], first["certain"]) == ("HC-K10", "error", True)
    assert first["args"]["pages"] == 12
    assert first["args"]["first"] == bench.pages(PROMPTS["k10"][400:])[0]
    assert row["ladder"]["written"] == "no"


def test_an_extra_key_is_not_in_the_page_key(runs: Runs) -> None:
    """0.5.14 reads what a plain request wrote (K12), publishes it where the asking one does not look (R27), and a plain one meets it there (G08)."""
    only("0.5.14")
    found, row, first = judged(runs, "second", "k12-adapter")
    assert (first["code"], first["level"], first["certain"]) == ("HC-R27", "error", True)
    assert (first["args"]["tokens"], first["args"]["extra_key"]) == (384, "number 1")
    assert lost(row) == {"HC-R27": 384}
    shared = found.code("HC-K12")
    assert (shared["level"], shared["args"]["namespaces"], shared["args"]["objects"], shared["rids"]) == ("error", 2, 48, ["k12-adapter"])
    found, row, first = judged(runs, "second", "k12-plain")
    assert (first["code"], first["level"], first["args"]["tokens"], first["args"]["fetched_for"]) == ("HC-G08", "info", 384, "k12-adapter")
    assert row["tokens"]["reused"]["host"] == 384


def test_f24_group_semantics(runs: Runs) -> None:
    """Asked of a Mooncake that does not know them: said, as an info; one that does is used, and nothing is said."""
    found = explain(*runs.of("second"))
    told = [each for each in found.document["findings"] if each["code"] == "HC-A09"]
    assert [each["code"] for each in told] == ([expected("F24", "code")] if expected("F24", "code") else [])
    for each in told:
        assert each["level"] == "info"
        assert each["args"]["mooncake"] == found.document["engines"][0]["mooncake"]


def test_f25_attach_with_other_settings(runs: Runs) -> None:
    """The engine answers with success, and the new settings are not in force."""
    found = explain(*runs.of("second"))
    first = found.code("HC-A12")
    assert (first["level"], first["args"]["backend"]) == ("warning", "mooncake")
    assert first["args"]["ignored"] == "prefetch_threshold"
    assert "policies updated" in first["args"]["answer"]


def test_an_attach_of_another_backend_is_refused(runs: Runs) -> None:
    """The backend in use serves on: a warning with the engine's own reason."""
    first = explain(*runs.of("second")).code("HC-A11")
    assert (first["level"], first["args"]["backend"]) == ("warning", "file")
    assert "Detach first" in first["args"]["reason"]


def test_f26_clear_leaves_leased_objects(runs: Runs) -> None:
    """The engine answers with success: what was there before, and what still is."""
    found = explain(*runs.of("second"))
    first = found.code("HC-E08")
    assert first["level"] == "warning"
    assert (first["args"]["before"], first["args"]["left"]) == (runs.facts["before"], runs.facts["after"])
    assert 0 < first["args"]["left"] < first["args"]["before"]


def test_f31_the_store_forgot(runs: Runs) -> None:
    """A master that was restarted knows nothing: written by this run, no eviction counted; that the first lookup failed as well follows from it."""
    found, row, first = judged(runs, "second", "f31-again")
    assert (first["code"], first["certain"]) == ("HC-E101", True)
    assert (first["args"]["objects"], first["args"]["evictions"]) == (74, 0)
    assert [each["code"] for each in found.findings("f31-again") if each["code"] == "HC-R101"] == []
    assert row["ladder"]["found"] == "no"
    assert lost(row) == {"HC-E101": 592}


def test_f32_a_smaller_object_is_read_as_a_success(runs: Runs) -> None:
    """Half of each page comes, the engine reuses it: K11 with both sizes, and the type that differs."""
    _, row, first = judged(runs, "float", "f32-smaller")
    assert (first["code"], first["level"], first["certain"]) == ("HC-K11", "error", True)
    assert (first["args"]["object_bytes"], first["args"]["page_bytes"]) == (8192, 16384)
    assert first["args"]["refused"] is False
    assert "dtype" in first["args"]["field"]
    assert row["ladder"]["transfer_done"] == "no"


def test_f32_a_larger_object_is_refused(runs: Runs) -> None:
    """Nothing comes: K11 with both sizes, the failed read folded under it."""
    found = explain(*runs.of("float", "second"), request="f32-larger")
    first = found.first("f32-larger")
    assert (first["code"], first["certain"], first["folded"]) == ("HC-K11", True, ["HC-R15"])
    assert (first["args"]["object_bytes"], first["args"]["page_bytes"], first["args"]["refused"]) == (16384, 8192, True)
    assert found.request("f32-larger", runs.engines["second"])["ladder"]["transfer_done"] == "no"


def test_f28_the_backup_thread_died(runs: Runs) -> None:
    """The exception, and how many operations wait behind it for ever, where the thread died of it."""
    found = explain(*runs.of("second"), request="f28-")
    first = found.document["findings"][0]
    assert (first["code"], first["level"], first["certain"]) == ("HC-W17", "error", True)
    assert "no more pages" in first["args"]["message"]
    assert (first["args"]["queued"] >= 1) is expected("F28", "queued")
    assert {"f28-first", *(["f28-next"] if expected("F28", "queued") else [])} == set(first["rids"])
    assert found.request("f28-first")["ladder"]["written"] == "no"
    assert found.request("f28-next")["ladder"]["written"] == expected("F28", "next")


def test_f29_the_prefetch_thread_died(runs: Runs) -> None:
    """The request that met the exception, and, where the thread died of it, the one that came after it."""
    found = explain(runs.snapshots["f29"], request="f29-")
    first, code = found.document["findings"][0], expected("F29", "code")
    assert (first["code"], first["level"], first["certain"]) == (code, "error", True)
    assert "RuntimeError" in (first["args"].get("exception"), first["args"].get("name"))
    for rid, cost in (("f29-again", {code: 384}), ("f29-later", expected("F29", "next"))):
        row = found.request(rid, runs.engines["second"])
        assert lost(row) == cost
        assert (row["ladder"]["found"], row["ladder"]["transfer_done"]) == ("yes", "no" if cost else "yes")
        assert not cost or found.first(rid)["code"] == code


def test_the_lookup_thread_died(runs: Runs) -> None:
    """An exception in the lookup: nothing was found, and that is no miss."""
    found = explain(runs.snapshots["f29"], request="lookup-again")
    row, first = found.request("lookup-again", runs.engines["second"]), found.first("lookup-again")
    assert (first["code"], first["level"], first["certain"]) == ("HC-R10", "error", True)
    assert "no answer" in first["args"]["message"]
    assert lost(row) == {"HC-R10": 384}
    assert row["ladder"]["found"] == "no"
