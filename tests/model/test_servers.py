"""Which processes are ranks of one server."""

from pathlib import Path

from recordings import Engine, Recording

from hicachectl.model.engines import engines
from hicachectl.store import read
from tracers import vocabulary as v


def built(recording: Recording, pid: int, start: float, **told: int) -> Engine:
    """A scheduler of parent 7 with its ranks and sizes."""
    engine = recording.engine(pid=pid, tp_rank=told.get("tp_rank", 0)).ledger(ppid=7)
    keys = {"tp_rank": v.TP_RANK, "tp_size": v.TP_SIZE, "pp_rank": v.PP_RANK, "pp_size": v.PP_SIZE, "dp_rank": v.DP_RANK}
    engine.span(v.ENGINE_START, start, start, attributes={keys[name]: value for name, value in told.items()})
    return engine


def families(recording: Recording, folder: Path) -> list[int]:
    """Number of processes of each server."""
    found = [engine.family for engine in engines(read([recording.write(folder / "run")])).values()]
    return sorted(found.count(name) for name in set(found))


def test_engines_that_one_script_starts_after_each_other_are_servers_of_their_own(tmp_path: Path) -> None:
    """Two single-rank schedulers of one parent are not ranks of one another."""
    recording = Recording()
    built(recording, 1, 0, tp_rank=0, tp_size=1)
    built(recording, 2, 10, tp_rank=0, tp_size=1)
    assert families(recording, tmp_path) == [1, 1]


def test_ranks_of_one_replica_are_one_server_and_a_second_replica_is_another(tmp_path: Path) -> None:
    """Two ranks each, for two data-parallel replicas of one parent."""
    recording = Recording()
    for dp_rank in (0, 1):
        for tp_rank in (0, 1):
            built(recording, 10 * dp_rank + tp_rank + 1, 0, tp_rank=tp_rank, tp_size=2, dp_rank=dp_rank)
    assert families(recording, tmp_path) == [2, 2]


def test_a_two_rank_server_that_is_started_again_is_a_new_one(tmp_path: Path) -> None:
    """The third scheduler with rank 0 begins the second server."""
    recording = Recording()
    for pid, tp_rank in enumerate((0, 1, 0, 1), 1):
        built(recording, pid, pid, tp_rank=tp_rank, tp_size=2)
    assert families(recording, tmp_path) == [2, 2]
