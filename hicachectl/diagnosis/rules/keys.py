"""The pages are in the store under another key: which field of the two configurations makes them differ."""

import re
from collections.abc import Callable

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, LossRule
from hicachectl.model.attempt import Attempt
from hicachectl.model.take import flag, text
from tracers import vocabulary as v

Field = Callable[[Attempt], object]
DCP = re.compile(r"tp\d+_dcp\d+_page\d+_pp\d+_cp\d+")


def _tag(of: Attempt) -> object:
    return text(of.engine.opened(of.start_ns), v.TAG) or "none"


def _bigram(of: Attempt) -> object:
    return bool(of.engine.setting(v.BIGRAM))


def _pp(of: Attempt) -> object:
    return of.engine.number(v.PP_SIZE) or 1


def _tenant(of: Attempt) -> object:
    return of.engine.tenant


def _topology(of: Attempt) -> object:
    """What 0.5.23 writes into the prefix where decode context parallelism is on (`mooncake_store.py`, MooncakeStore.__init__)."""
    found = DCP.search(of.key_prefix)
    return found[0] if found is not None else "none"


def _model(of: Attempt) -> object:
    return of.engine.text(v.MODEL)


def _release(of: Attempt) -> object:
    return ".".join((of.engine.sglang or "").split(".")[:3])


DIFFERENCES: tuple[tuple[str, str, Field], ...] = (
    ("K01", "page size", lambda of: of.engine.page_size),
    ("K05", "SGLang release", _release),
    ("K08", "tenant", _tenant),
    ("K03", "extra_backend_tag", _tag),
    ("K06", "bigram keys", _bigram),
    ("K02", "tensor parallel size", lambda of: of.engine.tp_size),
    ("K02", "pipeline stages", _pp),
    ("K08", "decode context parallel topology", _topology),
    ("K02", "object suffixes", lambda of: " ".join(of.key_suffixes)),
    ("K04", "key prefix", lambda of: of.key_prefix),
    ("K04", "model", _model),
)
"""Code, field, value: the first that differs names the cause (release before tag, since a release changes the prefix too)."""


def apart(ours: Attempt, theirs: Attempt) -> list[tuple[str, str, object, object]]:
    """Every field in which two requests, or the engines that they stand for, differ: (code, field, our value, theirs), the cause first."""
    return [(code, name, mine, other) for code, name, value in DIFFERENCES if (mine := value(ours)) != (other := value(theirs))]


def judge(case: Case, pages: tuple[int, ...]) -> Finding:
    """Both page keys side by side, and the first field that differs."""
    journey = case.journey
    twin = case.account.mismatched[pages[0]]
    ours, theirs = journey.attempt, twin.attempt
    code, name, mine, other = next(iter(apart(ours, theirs)), ("K07", "namespace", None, None))
    queued, written = journey.attempt.first(v.REQUEST_QUEUED), twin.attempt.first(v.REQUEST_QUEUED)
    differ = mine != other
    if code == "K07" and (flag(queued, v.EXTRA_KEY) or flag(written, v.EXTRA_KEY)):
        # The engines agree in all; what a request brings of its own is hashed before its first page.
        mine, other = ("a namespace of its own" if flag(span, v.EXTRA_KEY) else "none" for span in (queued, written))
        differ = True
    keys = journey.attempt.page_keys
    args: dict[str, object] = {
        "field": name,
        "ours": mine,
        "theirs": other,
        "asked_page_key": keys[pages[0]] if pages[0] < len(keys) else None,
        "written_page_key": twin.page_key,
        "asked_suffixes": " ".join(_suffixes(case, ours)),
        "written_suffixes": " ".join(_suffixes(case, theirs)),
        "asked_prefix": ours.key_prefix,
        "written_prefix": twin.prefix,
        "writer": theirs.engine.id,
        "tokens": len(pages) * journey.page,
    }
    evidence = (journey.lookup, queued, written, *(write.span_id for write in twin.writes[:4]))
    return of_request(journey, code, args=args, evidence=evidence, certain=differ)


def _suffixes(case: Case, of: Attempt) -> list[str]:
    """Suffixes of a page's objects on all ranks of a server."""
    ranks = [engine for engine in case.world.engines.values() if engine.scheduler and engine.family == of.engine.family]
    ranks.sort(key=lambda engine: (engine.pp_rank, engine.tp_rank))
    return list(dict.fromkeys(suffix for engine in ranks for suffix in engine.suffixes_at(of.start_ns)))


RULE = LossRule("other keys", ("K01", "K02", "K03", "K04", "K05", "K06", "K07", "K08"), (v.REQUEST_QUEUED, v.PREFETCH_LOOKUP, v.STORE_PUT, v.BACKEND_OPEN, v.BACKEND_CONFIG), judge)
