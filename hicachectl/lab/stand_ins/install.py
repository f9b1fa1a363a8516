"""Replaces names in modules: at once where a module is loaded, else right after it is, and imports none by itself."""

import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from hicachectl.lab.stand_ins.rows import Row

logger = logging.getLogger("hicachectl.lab")


def install(rows: Iterable[Row]) -> None:
    """Put ROWS in place, now and for modules that are imported later."""
    by_module: dict[str, list[Row]] = {}
    for row in rows:
        by_module.setdefault(row.module, []).append(row)
    for name, its_rows in by_module.items():
        if (module := sys.modules.get(name)) is not None:
            _replace(module, its_rows)
    sys.meta_path.insert(
        0, _AfterImport({name: its_rows for name, its_rows in by_module.items() if name not in sys.modules})
    )


def _replace(module: ModuleType, rows: Sequence[Row]) -> None:
    for row in rows:
        *path, name = row.name.split(".")
        holder: Any = module
        for step in path:
            holder = getattr(holder, step)
        original = getattr(holder, name, None)
        stand_in = row.make(original)
        setattr(holder, name, stand_in)
        if original is not None and holder is module and stand_in is not original:
            _replace_copies(original, stand_in, name)
        logger.info("stand-in for the GPU: %s.%s", row.module, row.name)


def _replace_copies(original: Any, stand_in: Any, name: str) -> None:
    """Where another module of SGLang took NAME with `from ... import`, it shall have the stand-in as well."""
    for other, module in list(sys.modules.items()):
        if other.startswith("sglang.") and module is not None and vars(module).get(name) is original:
            setattr(module, name, stand_in)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing itself: lets the others find a module of the table, and has the rows applied when it has run."""

    def __init__(self, waiting: dict[str, list[Row]]) -> None:
        self.waiting = waiting

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of NAME, its loader wrapped; None for a name that no row has."""
        # Taken out first: another finder that asks the others in its turn must not come back to these rows.
        rows = self.waiting.pop(name, None)
        if rows is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, rows)
                return spec
        self.waiting[name] = rows
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader, rows: Sequence[Row]) -> None:
        self.inner = inner
        self.rows = rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.inner.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        module.__loader__ = self.inner
        _replace(module, self.rows)
