"""`hicachectl runs` from outside."""

import os
import time
from pathlib import Path

import pytest
from invoke import document, hicachectl
from recordings import Recording

from tracers import vocabulary as v


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home folder with two recordings."""
    for name, requests in (("20251124T160000.000Z", 3), ("20251125T160000.000Z", 1)):
        made = Recording()
        engines = [made.engine(pid=1), made.engine(pid=2, tp_rank=1)]
        for engine in engines:
            engine.span(v.ENGINE_START, 0)
            for number in range(requests):
                engine.span(v.REQUEST_QUEUED, 10 + number, rid=f"r{number}", attributes={v.PROMPT_TOKENS: 100})
            engine.span(v.REQUEST_QUEUED, 20, rid="r0", attributes={v.PROMPT_TOKENS: 100, v.RETRACTED: True})
            engine.span(v.REQUEST_QUEUED, 21, rid=f"{v.HEALTH_RID_PREFIX}_1")
        made.engine(pid=3, scheduler=False).span(v.WARMUP, 30, 40)
        engines[0].span(v.REQUEST_QUEUED, 35, rid="warm", attributes={v.PROMPT_TOKENS: 4})
        made.write(tmp_path / "home" / name, command=["python", "serve.py", "--port", "1"])
    return {"HICACHECTL_HOME": str(tmp_path / "home")}


def test_recordings_are_listed_with_what_they_hold(env: dict[str, str]) -> None:
    """Requests count once over ranks, without retractions, health checks and warm-up; the newest is last."""
    lines = hicachectl("runs", env=env).stdout.splitlines()
    first, second = lines[1].split(), lines[2].split()
    assert first[0] == "20251124T160000.000Z"
    assert second[-8:] == ["0.5.14", "0.3.11.post1", "1", "yes", "python", "serve.py", "--port", "1"]
    told = document(hicachectl("runs", "-o", "json", env=env))
    assert told["schema"] == "hicachectl/runs/1"
    assert [run["requests"] for run in told["runs"]] == [3, 1]
    assert told["runs"][0]["run"] == f"{env['HICACHECTL_HOME']}/20251124T160000.000Z"
    assert told["bytes"] == sum(run["bytes"] for run in told["runs"])


def test_a_recording_is_deleted_by_name(env: dict[str, str]) -> None:
    """The named one goes; what is no recording is refused with 3."""
    told = document(hicachectl("runs", "--delete", "20251124T160000.000Z", "-o", "json", env=env))
    assert [run["name"] for run in told["runs"]] == ["20251125T160000.000Z"]
    assert told["removed"] == [f"{env['HICACHECTL_HOME']}/20251124T160000.000Z"]
    done = hicachectl("runs", "--delete", "20251124T160000.000Z", env=env)
    assert (done.returncode, "20251124T160000.000Z" in done.stderr) == (3, True)


def test_all_but_the_newest_are_removed(env: dict[str, str]) -> None:
    """--keep 1 leaves one, and says on stderr what went."""
    done = hicachectl("runs", "--keep", "1", env=env)
    assert done.stderr == f"removed {env['HICACHECTL_HOME']}/20251124T160000.000Z\n"
    assert len(done.stdout.splitlines()) == 2


def test_a_recording_in_use_is_not_removed(env: dict[str, str]) -> None:
    """A living process writes it: 2, and it stays."""
    folder = Path(env["HICACHECTL_HOME"]) / "20251126T160000.000Z"
    made = Recording(epoch_ms=int(time.time() * 1000) + 1000)
    made.engine(pid=os.getpid(), host=os.uname().nodename).ledger(closed=False).span(v.FLUSH, 1)
    made.write(folder)
    done = hicachectl("runs", "--delete", folder.name, env=env)
    assert (done.returncode, folder.exists()) == (2, True)
    assert "running" in hicachectl("runs", env=env).stdout.splitlines()[-1]


def test_a_broken_recording_is_listed_as_unreadable(env: dict[str, str]) -> None:
    """One bad recording does not hide the others."""
    folder = Path(env["HICACHECTL_HOME"]) / "20251126T160000.000Z"
    folder.mkdir()
    (folder / "spans-h-1-2.jsonl").write_text("nonsense\n")
    done = hicachectl("runs", env=env)
    assert done.returncode == 0
    assert "unreadable" in done.stdout.splitlines()[-1].split()


def test_without_recordings_the_table_is_empty(tmp_path: Path) -> None:
    """Nothing on stdout, the way to make one on stderr, and 0."""
    done = hicachectl("runs", env={"HICACHECTL_HOME": str(tmp_path / "none")})
    assert (done.returncode, done.stdout) == (0, "")
    assert "hicachectl trace" in done.stderr
