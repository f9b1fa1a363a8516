"""`hicachectl points` from outside."""

from pathlib import Path

from invoke import document, hicachectl
from recordings import Recording

from tracers import vocabulary as v
from tracers.points import ALL


def test_every_hook_point_is_listed() -> None:
    """The table has a row for each, the document all that a row holds."""
    table = hicachectl("points")
    assert table.returncode == 0
    assert [line.split()[0] for line in table.stdout.splitlines()[1:]] == [point.id for point in ALL]
    told = document(hicachectl("points", "-o", "json"))
    assert told["schema"] == "hicachectl/points/1"
    assert [point["id"] for point in told["points"]] == [point.id for point in ALL]
    assert told["run"] is None
    assert all(point["reads"] and point["targets"] for point in told["points"])


def test_with_a_recording_it_says_what_each_process_saw(tmp_path: Path) -> None:
    """Calls, spans and faults by process, and what this version lacks."""
    made = Recording()
    engine = made.engine()
    engine.span(v.FLUSH, 1)
    engine.point("evict.flush", calls=1, spans=1).point("prefetch.gate", "missing", detail="Scheduler has no _prefetch")
    run = made.write(tmp_path / "run")
    table = hicachectl("points", str(run))
    first, second = (line.split() for line in table.stdout.splitlines()[1:])
    assert first[:2] == ["missing", "prefetch.gate"]
    assert first[-1] == "_prefetch"
    assert second[:6] == ["installed", "evict.flush", "1", "1", "0", "host-a:101"]
    told = document(hicachectl("points", str(run), "-o", "json"))
    (process,) = told["processes"]
    assert (process["installed"], process["missing"], process["written"]) == (1, ["prefetch.gate"], 1)
    assert told["run"] == str(run)


def test_a_recording_that_is_not_there_is_3() -> None:
    """One sentence that names the place."""
    done = hicachectl("points", "/no/run")
    assert (done.returncode, "/no/run" in done.stderr) == (3, True)
