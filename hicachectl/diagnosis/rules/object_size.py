"""An object of another size than this engine's page: K11, refused where it is larger, read as a success where it is smaller."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.objects import Batch
from hicachectl.model.take import number
from tracers import vocabulary as v

TOO_SMALL = -600
"""Mooncake's answer to a get into a buffer smaller than the object (INVALID_PARAMS)."""


def judge(case: Case) -> Iterator[Finding]:
    """A get whose first bad object is too large for its buffer, or came with fewer bytes than the buffer has."""
    journey = case.journey
    for call in (call for each in journey.on_ranks for call in each.transfer_calls):
        code = number(call.span, v.FIRST_BAD_CODE)
        if code is None or call.object_bytes is None or (code != TOO_SMALL and not 0 < code < call.object_bytes):
            continue
        theirs = code if code > 0 else _written_bytes(case, call)
        args: dict[str, object] = {
            "key": call.first_bad_key,
            "object_bytes": theirs if theirs is not None else f"more than {call.object_bytes}",
            "page_bytes": call.object_bytes,
            "field": _field(case, call),
            "refused": code == TOO_SMALL,
        }
        yield of_request(journey, "K11", args=args, evidence=(call.span, journey.transfer), causal=True, certain=code > 0 or theirs is not None)
        return


def _written_bytes(case: Case, call: Batch) -> int | None:
    for page in call.pages:
        for write in case.world.pages.of(call.prefix, page.page_key):
            if write.moved and write.object_bytes is not None and write.object_bytes != call.object_bytes:
                return write.object_bytes
    return None


def _field(case: Case, call: Batch) -> str:
    """Which setting of the writer differs, where the writer is in the recording."""
    mine = case.journey.attempt.engine
    for page in call.pages:
        for write in case.world.pages.of(call.prefix, page.page_key):
            other = case.world.engines.get(write.engine)
            if other is None or other is mine:
                continue
            for key, name in ((v.KV_DTYPE, "KV dtype"), (v.MEM_LAYOUT, "host layout"), (v.MODEL, "model")):
                if other.setting(key) != mine.setting(key):
                    return f"{name} ({other.setting(key)} there, {mine.setting(key)} here)"
    return "KV dtype, model or layout"


RULE = Rule("object size", ("K11",), (v.STORE_GET, v.STORE_PUT, v.PREFETCH_TRANSFER, v.CONTROLLER_OPEN), of_case=judge, needs=(v.PREFETCH_TRANSFER,))
