"""What is wrong with an engine itself, on recordings made by hand."""

from pathlib import Path
from typing import Any

import pytest
from stories import Serving, Story

from tracers import vocabulary as v


def began(story: Story) -> Serving:
    """An engine that asks for a backend and has not come to it."""
    return story.engine(backend=False)


@pytest.mark.parametrize(
    ("spans", "code", "args"),
    [
        ([(v.BACKEND_CREATE, {v.ERROR_TEXT: "Unknown storage backend 'x'", v.BACKEND: "x"}, True)], "HC-A01", {"backend": "x"}),
        (
            [(v.STORE_SETUP, {v.CODE: -900, v.MASTER: "store:1"}, False), (v.BACKEND_CREATE, {v.BACKEND: "mooncake"}, True)],
            "HC-A03",
            {"code": -900, "name": "RPC_FAIL", "master": "store:1"},
        ),
        (
            [(v.BACKEND_CREATE, {v.BACKEND: "mooncake", v.ERROR_TEXT: "MooncakeStore with standalone_storage=True requires an allocator"}, True)],
            "HC-A06",
            {},
        ),
        (
            [(v.STORE_SETUP, {v.CODE: 0}, False), (v.BACKEND_WARMUP, {}, True), (v.BACKEND_CREATE, {v.BACKEND: "mooncake"}, True)],
            "HC-A07",
            {"step": "the warm-up put"},
        ),
    ],
)
def test_a_backend_that_cannot_serve(tmp_path: Path, spans: list[tuple[str, dict[str, Any], bool]], code: str, args: dict[str, Any]) -> None:
    """The step that failed first is the cause; the backend does not exist, and that is an error."""
    story = Story()
    engine = began(story)
    for name, told, failed in spans:
        engine.span(name, error=failed, attributes={v.OUTCOME: "failed" if failed else "ok", **told})
    engine.span(v.ENGINE, error=True, attributes={v.OUTCOME: "failed"})
    judged = story.judged(tmp_path)
    first = judged.findings[0]
    assert (first.code, first.level, first.certain) == (code, "error", True)
    assert {name: first.args[name] for name in args} == args
    assert next(iter(judged.world.engines.values())).backend_state()[0] == "no"


def test_an_attach_that_was_refused_while_the_backend_serves(tmp_path: Path) -> None:
    """The old backend goes on: a warning with the engine's own reason."""
    story = Story()
    told = {v.OUTCOME: "declined", v.BACKEND: "file", v.MESSAGE: "Detach first.", v.REASON: "A11"}
    story.engine().span(v.BACKEND_ATTACH_ASKED, attributes=told)
    first = story.judged(tmp_path).findings[0]
    assert (first.code, first.level, first.args["reason"]) == ("HC-A11", "warning", "Detach first.")


def test_a_segment_divided_by_the_ranks(tmp_path: Path) -> None:
    """A put failed for space, and this rank owns half of what was asked for."""
    story = Story()
    engine = story.engine(config={v.SEGMENT_SIZE: 1 << 30}, setup={v.SEGMENT_SIZE: 1 << 29})
    engine.request("writes", 8, bad_put=dict.fromkeys(range(4, 16), -200))
    found = {each.code: each for each in story.judged(tmp_path).findings}
    assert (found["HC-A10"].args["bytes_per_rank"], found["HC-A10"].args["bytes_asked"]) == (1 << 29, 1 << 30)
    assert found["HC-W13"].args["name"] == "NO_AVAILABLE_HANDLE"


def test_settings_that_an_attach_changed_count_from_then_on(tmp_path: Path) -> None:
    """write_through when the first came, write_back when the second did: only the second is not written by its policy."""
    story = Story()
    engine = story.engine().request("first", 8)
    engine.span(v.BACKEND_ATTACH_ASKED, attributes={v.OUTCOME: "ok", v.BACKEND: "mooncake", v.WRITE_POLICY: "write_back", v.WRITE_THRESHOLD: 2})
    engine.request("second", 8, writes=False)
    found = story.judged(tmp_path).findings
    assert [(each.code, each.rids, each.args["tokens"]) for each in found] == [("HC-W01", ["second"], 128)]


@pytest.mark.parametrize("code", ["HC-W09", "HC-W10"])
def test_a_write_that_reaches_no_store(tmp_path: Path, code: str) -> None:
    """On the host, and not queued; or queued without page keys, and acknowledged all the same."""
    story = Story()
    engine = story.engine().request("late", 8, writes=False)
    engine.span(v.WRITE_ENQUEUE, rid="late", attributes={v.OUTCOME: "ok", v.OPERATION: 9, v.PAGES: 0, v.REASON: code[3:]})
    assert [each.code for each in story.judged(tmp_path).findings] == [code]


def test_a_lookup_thread_that_died_is_why_later_requests_are_not_looked_up(tmp_path: Path) -> None:
    """The request that it died of, and one that came before the next flush; after the flush the thread is a new one."""
    story = Story()
    engine = story.engine().request("writes", 8)
    engine.request("dies", 8, prompt="writes", lookup_error="OSError")
    engine.span(v.PREFETCH_THREAD, error=True, thread=("prefetch_thread_func", 7), attributes={v.OUTCOME: "failed", v.ERROR: "OSError", v.ERROR_TEXT: "gone"})
    engine.request("later", 8, prompt="writes", lookup=False)
    engine.span(v.RESET, attributes={v.OUTCOME: "ok", v.IN_FLIGHT: 0})
    engine.request("after", 8, prompt="writes", hit=8)
    found = story.judged(tmp_path)
    first = found.findings[0]
    assert (first.code, first.certain, first.rids) == ("HC-R10", True, ["dies", "later"])
    assert (first.args["exception"], first.args["message"]) == ("OSError", "gone")


def test_a_backup_thread_that_died_names_who_waits_behind_it(tmp_path: Path) -> None:
    """The write that it died of and the next one; nothing of them is in the store, and a later asker learns why."""
    story = Story()
    engine = story.engine().request("dies", 8, store_error="OSError")
    engine.span(v.WRITE_THREAD, error=True, thread=("backup_thread_func", 9), attributes={v.OUTCOME: "failed", v.ERROR: "OSError", v.QUEUE: 2})
    engine.request("waits", 8, writes=False)
    told = {v.OUTCOME: "ok", v.OPERATION: 50, v.PAGES: 8, v.QUEUE: 3, v.PAGE_KEYS: "".join(engine.keys("waits", 8))}
    engine.span(v.WRITE_ENQUEUE, rid="waits", attributes=told)
    first = story.judged(tmp_path).findings[0]
    assert (first.code, first.level, first.args["queued"], first.rids) == ("HC-W17", "error", 3, ["dies", "waits"])
