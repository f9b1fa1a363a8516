"""The live summary, and the last words of `trace`."""

from pathlib import Path

from hicachectl.recorder.interpreter import Plugin
from hicachectl.recorder.session import Outcome
from hicachectl.recorder.summary import Summary
from hicachectl.views import live

SUMMARY = Summary(
    engines={"h:1:2"}, spans=77, queued=5, requests=4, device=592, host=16, storage=1184, computed=612,
    pages_written=37, pages_read=74, findings={"warning": 2, "error": 1},
)  # fmt: skip


def test_without_a_terminal_the_summary_is_one_line() -> None:
    """Requests, tokens by tier, pages moved, findings, and that it is so far."""
    (line,) = live.lines(SUMMARY, None)
    assert line == (
        "hicachectl: so far 4 requests (1 waiting); tokens reused: device 592, host 16, storage 1184; computed 612;"
        " pages written 37, read 74; findings: 1 error, 2 warning"
    )


def test_on_a_terminal_no_line_is_wider_than_it() -> None:
    """A line that wraps would scroll the footer away."""
    for width in (20, 80, 200):
        lines = live.lines(SUMMARY, width)
        assert len(lines) == 2
        assert max(map(len, lines)) < width


def test_the_ending_names_the_command_that_reads_the_recording() -> None:
    """Without RUN where it is the newest under home, with it otherwise."""
    outcome = Outcome(0, Path("/home/run"), SUMMARY, 2, Plugin.present)
    text = live.ending(outcome, Path("/home/run"))
    assert "hicachectl: stopped 2 processes that the command had left behind\n" in text
    assert "hicachectl: recorded 4 requests, 77 spans of 1 engine processes in /home/run\n" in text
    assert text.endswith("hicachectl: read it with: hicachectl explain\n")
    assert live.ending(outcome, None).endswith("hicachectl explain /home/run\n")


def test_an_empty_recording_is_said_with_what_is_known() -> None:
    """Whether the plugin was there decides what to look at."""
    for state, said in ((Plugin.present, "did it start an engine?"), (Plugin.unknown, "could not be told")):
        assert said in live.ending(Outcome(0, Path("/r"), Summary(), 0, state), None)


def test_the_ending_says_what_did_not_reach_the_collector() -> None:
    """A sum over processes, and that the recording has it; nothing where all arrived."""
    lossy = Summary(engines={"h:1:2"}, unsent={"h:1:2": 3, "h:2:2": 4})
    assert "hicachectl: 7 spans did not reach the collector; the recording has them\n" in live.ending(Outcome(0, Path("/r"), lossy, 0, Plugin.present), None)
    assert "collector" not in live.ending(Outcome(0, Path("/r"), SUMMARY, 0, Plugin.present), None)
