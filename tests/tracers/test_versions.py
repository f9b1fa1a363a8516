"""The rows against releases: what a release has is hooked, and what it lacks is told for exactly the points that lose by it."""

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from tracers.around import Recorder
from tracers.guard import Guard
from tracers.install import Installer, rows
from tracers.ledger import ABSENT, CHANGED, INSTALLED, MISSING, Ledger
from tracers.point import Point, Target
from tracers.points import ALL
from tracers.record import Queue

RELEASES = {
    "0.5.14": {"sglang": "0.5.14", "mooncake": "0.3.11.post1"},
    "0.5.23": {"sglang": "0.5.23", "mooncake": "0.3.13.post1"},
    "unknown": {"sglang": "0.9.2", "mooncake": "0.9.0"},
}
CASES = [
    pytest.param(release, point, target, id=f"{release}-{point.id}-{target.qualname}")
    for release, versions in RELEASES.items()
    for point in ALL
    if point.rungs
    for _, target, _ in rows(point, versions)
]
"""Every target of every row that a rung needs."""


def made(targets: Iterable[Target], parameters: dict[Target, tuple[str, ...]] | None = None) -> dict[str, ModuleType]:
    """Modules that have TARGETS with the parameters that their rows expect, or with those of PARAMETERS."""
    modules: dict[str, ModuleType] = {}
    for target in targets:
        module = modules.setdefault(target.module, ModuleType(target.module))
        names = (parameters or {}).get(target, target.params or ("self",))
        *path, name = target.qualname.split(".")
        owner: Any = module
        for part in path:
            if not hasattr(owner, part):
                setattr(owner, part, type(part, (), {}))
            owner = getattr(owner, part)
        scope: dict[str, Any] = {}
        exec(f"def {name}({', '.join(names)}, *rest, **more): return ({', '.join(names)})", scope)
        setattr(owner, name, classmethod(scope[name]) if names[0] == "cls" else scope[name])
    return modules


def landed(versions: dict[str, str], modules: dict[str, ModuleType], tree: str = "UnifiedRadixCache") -> Ledger:
    """What the ledger says once MODULES have been imported into a process of these versions."""
    recorder = Recorder(Queue(10, 10), Guard())
    ledger = Ledger(recorder)
    installer = Installer(ALL, recorder, ledger, versions)
    # Another test of this process may have imported the real ones.
    elsewhere = {name: module for name, module in sys.modules.items() if name not in installer.modules}
    with mock.patch.dict(sys.modules, elsewhere, clear=True):
        installer.on()
    try:
        for module in modules.values():
            installer.arrived(module)
    finally:
        installer.off()
    ledger.tree = tree
    return ledger


def of_release(release: str) -> Iterator[Target]:
    """Every target that the rows know for RELEASE."""
    for point in ALL:
        yield from (target for _, target, _ in rows(point, RELEASES[release]))


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_as_its_rows_describe_it_misses_nothing(release: str) -> None:
    """Where every target of the release is there, every point is installed."""
    ledger = landed(RELEASES[release], made(of_release(release)))
    assert (ledger.ids(MISSING), ledger.ids(CHANGED), ledger.ids("waiting")) == ([], [], [])


@pytest.mark.parametrize(("release", "point", "target"), CASES)
def test_a_target_that_is_gone_is_told_for_its_points_alone(release: str, point: Point, target: Target) -> None:
    """Without one target, the points that hook it are missing, and no other."""
    ledger = landed(RELEASES[release], made(each for each in of_release(release) if each.path != target.path))
    whose = {other.id for other in ALL if any(each.path == target.path for _, each, _ in rows(other, RELEASES[release]))}
    assert point.id in whose
    expected = sorted(whose) if not dead(target) else []
    if target.module not in {each.module for each in of_release(release) if each.path != target.path}:
        # Nothing else is hooked in that module: it looks as if it were never imported.
        assert ledger.ids("waiting") == sorted(whose)
    else:
        assert ledger.ids(MISSING) == expected


@pytest.mark.parametrize(("release", "point", "target"), [case for case in CASES if case.values[2].params])
def test_a_target_with_other_parameters_is_told_for_its_points_alone(release: str, point: Point, target: Target) -> None:
    """With another signature, the points that hook the target are changed, and no other."""
    other = ("self", "something", "else_")
    ledger = landed(RELEASES[release], made(of_release(release), {each: other for each in of_release(release) if each.path == target.path}))
    relies = {
        row.id for row in ALL for _, each, _ in rows(row, RELEASES[release]) if each.path == target.path and each.params[: len(other)] != other[: len(each.params)]
    }
    assert ledger.ids(CHANGED) == (sorted(relies) if not dead(target) else [])
    assert point.id in relies or len(target.params) == 1


def dead(target: Target) -> bool:
    """Whether TARGET belongs to a tree that a process with the unified tree does not use."""
    return target.qualname.startswith(("HiRadixCache.", "RadixCache."))


def test_a_tree_that_is_not_in_use_is_not_missed() -> None:
    """In a process with HiRadixCache, what the unified tree lacks is no loss; with the unified tree it is."""
    gone = "UnifiedRadixCache.prefetch_from_storage"
    modules = made(target for target in of_release("0.5.14") if target.qualname != gone)
    assert landed(RELEASES["0.5.14"], modules, "HiRadixCache").ids(MISSING) == []
    assert landed(RELEASES["0.5.14"], modules).ids(MISSING) == ["prefetch.enqueue"]


@pytest.mark.parametrize("shape", ["0.5.14", "0.5.23"])
def test_between_two_surveyed_releases_either_shape_is_found(shape: str) -> None:
    """A release that nobody surveyed may look like the one before or like the one after: no point of its shape that a rung needs is missed."""
    between = {"sglang": "0.5.19", "mooncake": "0.3.12"}
    ledger = landed(between, made(of_release(shape)))
    have = {point.id for point in ALL if point.rungs and rows(point, RELEASES[shape])}
    assert set(ledger.ids(INSTALLED)) >= have
    assert not have & {*ledger.ids(MISSING), *ledger.ids(CHANGED)}


def test_between_two_surveyed_releases_the_tree_in_use_must_have_a_shape() -> None:
    """Where both trees are there and the one in use has a shape that no row knows, its points are missing, whatever the other has."""
    between = {"sglang": "0.5.19", "mooncake": "0.3.12"}
    odd = "UnifiedRadixCache.prefetch_from_storage"
    targets = [target for target in of_release("0.5.14") if target.qualname != odd]
    ledger = landed(between, made([*targets, Target(f"sglang.srt.mem_cache.unified_radix_cache:{odd}", ("self", "req_id", "last_host_node_id"))]))
    assert "prefetch.enqueue" in ledger.ids(MISSING)
    ledger.tree = "HiRadixCache"
    assert "prefetch.enqueue" not in ledger.ids(MISSING)


def test_between_two_surveyed_releases_a_point_of_no_shape_is_missing() -> None:
    """Where neither shape of a target is there, the point is missing, not merely absent."""
    between = {"sglang": "0.5.19", "mooncake": "0.3.12"}
    targets = [target for target in of_release("0.5.23") if not target.qualname.endswith("._execute_kv_backup")]
    ledger = landed(between, made([*targets, Target("sglang.srt.mem_cache.hiradix_cache:HiRadixCache.match", ("self",))]))
    assert ledger.state("write.backup", "sglang.srt.mem_cache.unified_radix_cache:UnifiedRadixCache._execute_kv_backup") == ABSENT
    assert "write.backup" in ledger.ids(MISSING)
