"""The reverse: what a key of the store says, in every reading that SGLang's names allow.

A key does not say everything: `<hash>_3_k` is rank 3 of a model whose ranks split the heads, or stage 3 of one whose ranks
share their data; what stands in front is a tag, a model's name, or both. So a key has readings, the likeliest first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hicachectl.keys.pools import KV, POOLS, Kind, Part, PoolRow
from hicachectl.release import Release

WARM_UP = "sglang_mooncake_store_warmup_key"
GROUP = "sglang-hicache:"
MODEL_PREFIX_SINCE = "0.5.17"

_PAGE = re.compile(r"(?:(?P<prefix>.*)_)?(?P<hash>[0-9a-f]{64})(?P<suffix>_.*)?", re.DOTALL)
_DCP = re.compile(r"(?:.*_)?tp(?P<tp>\d+)_dcp(?P<dcp>\d+)_page(?P<page>\d+)_pp(?P<pp>\d+)_cp(?P<cp>\d+)", re.DOTALL)
_CONV = re.compile(r"_conv_\d+")


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read an object key; None stands for what the key does not say.

    `heads` are the shares of the heads that the object belongs to: the rank alone, unless `tp_lcm_size` is in use. `page_size`
    and `tp_size` stand only in keys of decode context parallelism. `since` is the first SGLang release that can write it.
    """

    part: str
    component: str = ""
    kind: Kind | None = None
    heads: tuple[int, ...] = ()
    pp_rank: int | None = None
    cp_rank: int | None = None
    dcp_rank: int | None = None
    page_size: int | None = None
    tp_size: int | None = None
    writer: str = "HiCache"
    since: str = "0.5.14"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a key is: `object`, `warm-up`, `group` or `unknown`; its page key; what stands in front of that (None: nothing)."""

    key: str
    what: str
    page_key: str | None = None
    prefix: str | None = None
    readings: tuple[Reading, ...] = ()

    @property
    def written_by(self) -> str:
        """Which SGLang releases write such a key."""
        if not self.readings:
            return ""
        since = min((each.since for each in self.readings), key=Release.of)
        if self.prefix is None and Release.of(since) < Release.of(MODEL_PREFIX_SINCE):
            return (
                f"SGLang {since} up to, not including, {MODEL_PREFIX_SINCE} (later ones put the model's name in front)"
            )
        if self.prefix is not None and Release.of(since) < Release.of(MODEL_PREFIX_SINCE):
            return f"SGLang {MODEL_PREFIX_SINCE} or later, or an earlier one with extra_backend_tag"
        return f"SGLang {since} or later"


@dataclass(frozen=True, slots=True)
class _Form:
    """How ranks stand in a key: their text, whose parts may follow it, and who writes so."""

    pattern: re.Pattern[str]
    ranks: Kind
    writer: str = "HiCache"
    since: str = "0.5.14"


_LINKER = "direct linker"
_FORMS: tuple[_Form, ...] = (
    _Form(re.compile(r"_(?P<heads>\d+)(?:_(?P<pp>\d+))?"), Kind.mha),
    _Form(re.compile(r"_(?P<pp>\d+)?"), Kind.mla),
    _Form(re.compile(r"_\[(?P<heads>'\d+'(?:, '\d+')+)\]"), Kind.mha),
    _Form(re.compile(r"_\[(?P<heads>'\d+_(?P<pp>\d+)'(?:, '\d+_(?P=pp)')+)\]"), Kind.mha),
    _Form(re.compile(r"_dcp(?P<dcp>\d+)_cp(?P<cp>\d+)(?:_(?P<pp>\d+))?"), Kind.mla, since="0.5.23"),
    _Form(re.compile(r"_tp(?P<heads>\d+)_cp(?P<cp>\d+)_pp(?P<pp>\d+)"), Kind.mha, _LINKER, "0.5.23"),
    _Form(re.compile(r"_cp(?P<cp>\d+)_pp(?P<pp>\d+)"), Kind.mla, _LINKER, "0.5.23"),
)


def decode(key: str) -> Decoded:
    """Read KEY; a key that is none of SGLang's is `unknown` and has no readings."""
    if key.startswith(WARM_UP):
        return Decoded(key, "warm-up")
    what, text = ("group", key[len(GROUP) :]) if key.startswith(GROUP) else ("object", key)
    match = _PAGE.fullmatch(text)
    if match is None:
        return Decoded(key, "unknown")
    if what == "group":
        return Decoded(key, what if match["suffix"] is None else "unknown", match["hash"], match["prefix"])
    readings = tuple(_readings(match["prefix"], match["suffix"] or ""))
    return Decoded(key, "object" if readings else "unknown", match["hash"], match["prefix"], readings)


def _readings(prefix: str | None, suffix: str) -> Iterator[Reading]:
    for form in _FORMS:
        match = form.pattern.match(suffix)
        # A form is whole where the rest of the key is a part's suffix and nothing else.
        if match is None:
            continue
        rest = suffix[match.end() :]
        named = _linked(rest) if form.writer == _LINKER else _parts(form.ranks, rest)
        for row, part in named:
            yield _reading(form, match.groupdict(), row, part, prefix)


def _parts(ranks: Kind, rest: str) -> Iterator[tuple[PoolRow | None, Part]]:
    """The objects whose suffix is REST, with their pool (None: the page's own K and V)."""
    for kind, own in KV.items():
        yield from ((None, part) for part in own if kind is ranks and part.suffix == rest)
    for row in POOLS:
        if row.name == "kv":
            continue  # the same key as the page's own
        for part in dict.fromkeys((*row.mha, *row.mla)):
            if part.ranks is ranks and part.suffix == rest:
                yield row, part
        if row.name == "mamba" and ranks is Kind.mha and _CONV.fullmatch(rest):
            yield row, Part(Kind.mha, rest, rest[1:])


def _linked(rest: str) -> Iterator[tuple[PoolRow | None, Part]]:
    if rest == "_k":
        yield None, Part(Kind.mla, rest, "k")
    yield from ((row, Part(Kind.mla, rest)) for row in POOLS if rest == f"_{row.name}" and row.name != "kv")


def _reading(form: _Form, text: dict[str, str | None], row: PoolRow | None, part: Part, prefix: str | None) -> Reading:
    shards = _DCP.fullmatch(prefix) if prefix is not None and form.since == "0.5.23" and "dcp" in text else None
    return Reading(
        part=row.name if row else part.component,
        component=part.component if row else "",
        kind=_kind(form, row, part),
        heads=tuple(int(each) for each in re.findall(r"(\d+)(?:_\d+)?", text.get("heads") or "")),
        pp_rank=_number(text.get("pp")),
        cp_rank=_number(text.get("cp")),
        dcp_rank=_number(text.get("dcp")),
        page_size=int(shards["page"]) if shards else None,
        tp_size=int(shards["tp"]) if shards else None,
        writer=form.writer,
        since=max(form.since, row.since if row else form.since, key=Release.of),
    )


def _kind(form: _Form, row: PoolRow | None, part: Part) -> Kind | None:
    """The model's layout, where the key tells it: a pool that has a layout of its own, or one layout only, does not."""
    if row is None or form.writer == _LINKER:
        return form.ranks
    if row.own_layout or row.mha == row.mla:
        return None
    return Kind.mha if part in row.mha else Kind.mla


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
