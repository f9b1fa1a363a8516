"""What `probe-keys` found, as data: keys, presence, what the engine would do, and which shape fits instead."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hicachectl.keys.neighbours import Fit
from hicachectl.keys.objects import Layout, Slot
from hicachectl.keys.presence import PRESENT, Presence, Would
from hicachectl.keys.shape import Shape


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer; `presence` and `would` are None where the store was not asked."""

    shape: Shape
    layout: Layout
    page_keys: Sequence[str]
    prompt_tokens: int
    presence: Presence | None = None
    would: Would | None = None
    fits: Fit | None = None
    store: dict[str, Any] | None = None
    side_effects: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    def document(self) -> dict[str, Any]:
        """The body of the JSON document."""
        found = self.presence
        gap = found.gap if found else None
        return {
            "shape": shape_row(self.shape, self.layout),
            "prompt_tokens": self.prompt_tokens,
            "pages": [self._page(page) for page in range(len(self.page_keys))],
            "contiguous_pages": found.contiguous_pages if found else None,
            "first_gap": {"page": gap.page, "key": gap.key, "code": gap.answer if gap.answer < 0 else None}
            if gap
            else None,
            "unreachable_pages": found.unreachable_pages if found else None,
            "engine_would": _would_row(self.would),
            "fits_instead": _fit_row(self.fits),
            "store": self.store,
            "side_effects": list(self.side_effects),
            "remarks": list(self.remarks),
        }

    def _page(self, page: int) -> dict[str, Any]:
        keys = self.layout.keys(self.page_keys[page])
        answers = self.presence.answers[page] if self.presence else [None] * len(keys)
        objects = [
            _object_row(key, slot, answer) for key, slot, answer in zip(keys, self.layout.slots, answers, strict=True)
        ]
        complete = self.presence.complete(page) if self.presence else None
        return {"page": page, "page_key": self.page_keys[page], "objects": objects, "complete": complete}


def shape_row(shape: Shape, layout: Layout) -> dict[str, Any]:
    """The shape as JSON; a salt is a secret of whoever set it, so only whether there is one is told."""
    return {
        "sglang": shape.sglang,
        "page_size": shape.page_size,
        "kind": shape.kind.value,
        "tp_size": shape.tp_size,
        "pp_size": shape.pp_size,
        "tp_lcm_size": shape.tp_lcm_size,
        "dcp_size": shape.dcp_size,
        "cp_size": shape.cp_size,
        "tag": shape.tag,
        "model_name": shape.model_name,
        "format_tag": shape.format_tag,
        "prefix": layout.prefix,
        "bigram": shape.bigram,
        "extra_key": shape.extra_key,
        "cache_salt": "(given)" if shape.cache_salt else None,
        "pools": [use.name for use in shape.pools],
        "linker": shape.linker,
    }


def _object_row(key: str, slot: Slot, answer: int | None) -> dict[str, Any]:
    """One object; `present` is null where the store was not asked, or did not say."""
    failed = answer is not None and answer < 0
    return {
        "key": key,
        "tp_rank": slot.tp_rank,
        "pp_rank": slot.pp_rank,
        "part": slot.part,
        "component": slot.component or None,
        "present": None if answer is None or failed else answer == PRESENT,
        "code": answer if failed else None,
    }


def _would_row(would: Would | None) -> dict[str, Any] | None:
    if would is None:
        return None
    return {"prefetch": would.prefetch, "tokens": would.tokens, "code": would.code, "why": would.why}


def _fit_row(fit: Fit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    changes = {name: getattr(value, "value", value) for name, value in fit.changes.items()}
    return {
        "changes": changes,
        "pages": fit.pages,
        "of_pages": fit.of_pages,
        "example": fit.example,
        "why": fit.sentence,
    }
