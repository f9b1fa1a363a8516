"""Every check of `doctor`, in the order in which a start would meet what they check."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hicachectl.checks import (
    backend,
    command_line,
    configuration,
    groups,
    head_split,
    huge_pages,
    layout,
    libraries,
    master,
    memlock,
    plugin,
    prefetch,
    rdma,
    segment,
    setup_arguments,
    standalone,
    transfer_engine,
    versions,
)
from hicachectl.checks.result import Result
from hicachectl.checks.scene import Scene


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, and what looks."""

    name: str
    look: Callable[[Scene], Iterable[Result]]


CHECKS: tuple[Check, ...] = (
    Check("versions", versions.look),
    Check("libraries", libraries.look),
    Check("command line", command_line.look),
    Check("backend", backend.look),
    Check("configuration", configuration.look),
    Check("layout", layout.look),
    Check("transfer engine", transfer_engine.look),
    Check("group semantics", groups.look),
    Check("setup arguments", setup_arguments.look),
    Check("head split", head_split.look),
    Check("prefetch", prefetch.look),
    Check("segment", segment.look),
    Check("rdma", rdma.look),
    Check("memlock", memlock.look),
    Check("huge pages", huge_pages.look),
    Check("standalone", standalone.look),
    Check("master", master.look),
    Check("plugin", plugin.look),
)


def run(scene: Scene) -> list[tuple[str, Result]]:
    """Every result of every check, with the check's name."""
    return [(check.name, result) for check in CHECKS for result in check.look(scene)]
