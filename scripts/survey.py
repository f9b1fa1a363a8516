"""Says which hook points resolve in a release of SGLang, without running it: python scripts/survey.py VERSION [--mooncake VERSION].

The wheel is installed without its dependencies into a folder of its own and its source is read, which takes a minute instead of a
full environment. What is said of a release is what its source says; whether the verdicts hold there, only `make test` shows.
"""  # noqa: INP001

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tracers.install import rows  # noqa: E402 - found through the line above
from tracers.ledger import OTHER_TREES  # noqa: E402
from tracers.point import Point, Target  # noqa: E402
from tracers.points import ALL  # noqa: E402

MOONCAKE = "mooncake-transfer-engine-non-cuda"
NATIVE = "import json, mooncake.store as s; print(json.dumps({n: dir(c) for n, c in vars(s).items() if isinstance(c, type)}))"
FOUND, CHANGED, MISSING, UNREAD = "resolves", "changed", "missing", "not read"


@dataclass(frozen=True)
class Line:
    """What the source says of one target."""

    point: Point
    target: Target
    sure: bool
    state: str
    detail: str = ""


def main() -> int:
    """Install, read, tell; 1 where a point that a rung needs does not resolve, 3 where the release cannot be installed."""
    parser = argparse.ArgumentParser(description="Say which hook points resolve in a release of SGLang.")
    parser.add_argument("version", help="release of SGLang, such as 0.5.23")
    parser.add_argument("--mooncake", default="", help="release of Mooncake; the newest where none is given")
    asked = parser.parse_args()
    folder = home() / f"survey-{asked.version}"
    try:
        _install(folder, asked.version, asked.mooncake)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"survey: pip could not install sglang {asked.version}: {_last(error.stderr)}\n")
        return 3
    versions = {name: _version(folder, *names) for name, names in {"sglang": ("sglang",), "mooncake": (MOONCAKE,)}.items()}
    lines = list(survey(folder, versions))
    for line in lines:
        print(f"{line.state:9} {line.point.id:26} {line.target.path.partition(':')[2]:56} {line.detail}".rstrip())
    sys.stderr.write(f"survey: SGLang {versions['sglang']}, Mooncake {versions['mooncake'] or 'not read'}: {_sum(lines)}\n")
    lost = {tree: blind(lines, tree) for tree in OTHER_TREES if has(folder, tree)}
    for tree, rungs in lost.items():
        for rung, points in sorted(rungs.items()):
            sys.stderr.write(f"survey: with {tree}, {rung} is unknown in this release, without {', '.join(points)}\n")
        if not rungs:
            sys.stderr.write(f"survey: with {tree}, every rung can be told\n")
    return 1 if any(lost.values()) else 0


def survey(folder: Path, versions: dict[str, str]) -> Iterator[Line]:
    """What the packages in FOLDER say of every target that VERSIONS should have."""
    natives = _natives(folder)
    for point in ALL:
        for _, target, sure in rows(point, versions):
            state, detail = _native(target, natives) if target.package == "mooncake" else _source(folder, target)
            yield Line(point, target, sure, state, detail)


def blind(lines: list[Line], tree: str) -> dict[str, list[str]]:
    """Rung -> points without which it is unknown where TREE is in use: a target that must be there is not, or none of those that may be is."""
    lost: dict[str, list[str]] = {}
    for point in ALL:
        own = [line for line in lines if line.point is point and line.target.qualname.partition(".")[0] not in OTHER_TREES[tree]]
        bad = any(line.sure and line.state in (MISSING, CHANGED) for line in own)
        none = bool(own) and not any(line.sure or line.state == FOUND for line in own)
        for rung in point.rungs if bad or none else ():
            lost.setdefault(rung, []).append(point.id)
    return lost


def has(folder: Path, tree: str) -> bool:
    """Whether this release can build TREE at all."""
    module = {"HiRadixCache": "hiradix_cache", "UnifiedRadixCache": "unified_radix_cache"}[tree]
    return (folder / "sglang" / "srt" / "mem_cache" / f"{module}.py").exists()


def _source(folder: Path, target: Target) -> tuple[str, str]:
    path = folder.joinpath(*target.module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    if not file.exists():
        return MISSING, f"no module {target.module}"
    body = ast.parse(file.read_text(encoding="utf-8")).body
    *owners, name = target.qualname.split(".")
    for owner in owners:
        found = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == owner), None)
        if found is None:
            return MISSING, f"no class {owner}"
        body = found.body
    function = next((node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name), None)
    if function is None:
        return MISSING, f"{'.'.join(owners) or target.module} does not define {name}"
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(function, ast.AsyncFunctionDef) or tuple(names[: len(target.params)]) != target.params:
        return CHANGED, f"parameters are ({', '.join(names[:6])})"
    return FOUND, ""


def _native(target: Target, natives: dict[str, list[str]] | None) -> tuple[str, str]:
    if natives is None:
        return UNREAD, "mooncake.store cannot be imported here"
    owner, _, name = target.qualname.partition(".")
    return (FOUND, "") if name in natives.get(owner, ()) else (MISSING, f"{owner} has no {name}")


def _natives(folder: Path) -> dict[str, list[str]] | None:
    """Class -> names in the store's binding: native code, which has no source to read."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", NATIVE], env=env, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def _install(folder: Path, version: str, mooncake: str) -> None:
    if folder.exists() and _version(folder, "sglang") == version and (not mooncake or _version(folder, MOONCAKE) == mooncake):
        return
    sys.stderr.write(f"survey: installing sglang {version} alone into {folder}\n")
    wanted = [f"sglang=={version}", f"{MOONCAKE}=={mooncake}" if mooncake else MOONCAKE]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--no-compile", "--upgrade"]
    subprocess.run([*pip, "--target", str(folder), *wanted], check=True, capture_output=True, text=True)


def _version(folder: Path, *names: str) -> str:
    return next((each.version for name in names for each in metadata.distributions(name=name, path=[str(folder)])), "")


def _sum(lines: list[Line]) -> str:
    counts = {state: sum(line.state == state for line in lines) for state in (FOUND, CHANGED, MISSING, UNREAD)}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["pip said nothing"])[-1]


def home() -> Path:
    """Where environments lie, those of `make` as well."""
    if given := os.environ.get("HICACHECTL_ENVS"):
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hicachectl" / "envs"


if __name__ == "__main__":
    sys.exit(main())
