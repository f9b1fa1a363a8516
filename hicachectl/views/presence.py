"""The presence map and what follows from it: page by rank and part at a glance, as text and as the JSON document."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hicachectl.keys.decode import Decoded, Reading
from hicachectl.keys.objects import Slot
from hicachectl.keys.presence import PRESENT, Presence
from hicachectl.keys.report import Report
from hicachectl.views import palette
from hicachectl.views.table import cell, document, drawn

HERE, BEHIND, SOME, MISSING, UNSAID = "■", "□", "▣", "·", "?"
STYLES = {
    HERE: palette.GOOD,
    BEHIND: palette.WARNING,
    SOME: palette.WARNING,
    MISSING: palette.ERROR,
    UNSAID: palette.ERROR,
}
LEGEND = (
    (HERE, "there"),
    (BEHIND, "there, behind the cut"),
    (SOME, "some of several pages there"),
    (MISSING, "missing"),
    (UNSAID, "no answer"),
)
MAP_WIDTH = 64
"""Cells of a line where there is no terminal, and the most where there is one."""
MAP_LINES = 6
"""Lines of the map after which a cell stands for several pages."""
MANY_ROWS = 8
"""Rows of the map above which those with the same cells are shown as one."""
RULER = 10


def as_json(report: Report) -> str:
    """The one JSON document."""
    return document("probe-keys", report.document())


def as_text(report: Report, *, width: int | None, colour: bool) -> str:
    """The report for a reader: the shape, the map or the keys, and what the engine makes of it."""
    parts: list[RenderableType] = [_facts(list(_heading(report)))]
    if report.presence is None:
        parts += [Text(), *_keys(report)]
    elif report.page_keys:
        parts += [Text(), *_map(report.presence, width)]
    if report.presence is not None:
        parts += [Text(), _facts(list(_findings(report, report.presence)))]
    for title, lines in (("side effects", report.side_effects), ("remarks", report.remarks)):
        if lines:
            parts += [Text(), cell(title, palette.HEADING), *(_indented(line) for line in lines)]
    return drawn(Group(*parts), width=width, colour=colour)


def decoded_json(found: Sequence[Decoded]) -> str:
    """What keys say, as the one JSON document."""
    return document("probe-keys", {"decoded": [_decoded_row(each) for each in found]})


def decoded_text(found: Sequence[Decoded], *, width: int | None, colour: bool) -> str:
    """What keys say, for a reader."""
    parts: list[RenderableType] = []
    for each in found:
        parts += [Text()] if parts else []
        parts.append(_facts(list(_decoded_facts(each))))
    return drawn(Group(*parts), width=width, colour=colour)


def _facts(rows: Sequence[tuple[str, str, str]]) -> Table:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style=palette.HEADING, no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text, style in rows:
        facts.add_row(name, cell(text, style))
    return facts


def _heading(report: Report) -> Iterator[tuple[str, str, str]]:
    shape, slots = report.shape, report.layout.slots
    sizes = [
        ("tp", shape.tp_size),
        ("pp", shape.pp_size),
        ("tp lcm", shape.tp_lcm_size or 1),
        ("dcp", shape.dcp_size),
        ("cp", shape.cp_size),
    ]
    said = [f"SGLang {shape.sglang}", shape.kind.value, f"page size {shape.page_size}"]
    said += [f"{name} {size}" for name, size in sizes if name == "tp" or size > 1]
    said += ["bigram"] * shape.bigram + ["direct linker"] * shape.linker + [f"pool {use.name}" for use in shape.pools]
    yield "shape", ", ".join(said), ""
    if report.layout.prefix:
        yield "prefix", report.layout.prefix, palette.NAME
    count = len(report.page_keys)
    yield "prompt", f"{report.prompt_tokens} tokens: {count} full pages, {count * len(slots)} objects", ""
    if report.store:
        by = f"by {report.store['lookup']}" + (
            f" at {report.store['admin']}" if report.store["lookup"] != "client" else ""
        )
        yield "store", f"{report.store['master']} (asked {by})", ""


def _keys(report: Report) -> Iterator[RenderableType]:
    for page, page_key in enumerate(report.page_keys):
        yield cell(f"page {page}  {page_key}", palette.HEADING)
        yield from (_indented(key) for key in report.layout.keys(page_key))


def _indented(line: str) -> Padding:
    return Padding(cell(line), (0, 0, 0, 2))


def _map(presence: Presence, width: int | None) -> Iterator[RenderableType]:
    slots = presence.layout.slots
    labels = [_label(slot, slots) for slot in slots]
    rows = _folded([(label, _cells(presence, index)) for index, label in enumerate(labels)])
    margin = max(len(label) for label, _ in rows) + 2
    columns = max(RULER, min(MAP_WIDTH, (width or MAP_WIDTH + margin) - margin))
    pages = len(presence.page_keys)
    each = -(-pages // (columns * MAP_LINES)) if pages > columns * MAP_LINES else 1
    total = -(-pages // each)
    used: set[str] = set()
    for start in range(0, total, columns):
        if start:
            yield Text()
        stop = min(start + columns, total)
        yield Padding(Text(_ruler(start, stop, each), palette.FAINT), (0, 0, 0, margin))
        for label, cells in rows:
            line = Text(label.ljust(margin))
            for at in range(start, stop):
                mark = _joined(cells[at * each : (at + 1) * each])
                used.add(mark)
                line.append(mark, STYLES[mark])
            yield line
    legend = "   ".join(f"{mark} {meaning}" for mark, meaning in LEGEND if mark in used)
    yield Padding(Text(legend + (f"   (a cell is {each} pages)" if each > 1 else ""), palette.FAINT), (0, 0, 0, margin))


def _cells(presence: Presence, slot: int) -> list[str]:
    reached = presence.contiguous_pages
    marks = []
    for page, row in enumerate(presence.answers):
        if row[slot] == PRESENT:
            marks.append(HERE if page < reached else BEHIND)
        else:
            marks.append(UNSAID if row[slot] < 0 else MISSING)
    return marks


def _joined(marks: Sequence[str]) -> str:
    return marks[0] if len(set(marks)) == 1 else SOME


def _ruler(start: int, stop: int, each: int) -> str:
    """Page numbers above the cells, one at every tenth cell."""
    line = ""
    for at in range(start, stop, RULER):
        line = line.ljust(at - start) + str(at * each)
    return line


def _label(slot: Slot, slots: Sequence[Slot]) -> str:
    """Rank, stage and part, as far as they tell objects apart."""
    said = []
    if not slot.shared and any(each.tp_rank for each in slots):
        said.append(f"tp {slot.tp_rank}")
    if slot.shared and any(each.tp_rank for each in slots):
        said.append(f"dcp {slot.tp_rank}" if slot.suffix.startswith("_dcp") else "all tp")
    if any(each.pp_rank for each in slots):
        said.append(f"pp {slot.pp_rank}")
    if any(each.cp_rank for each in slots):
        said.append(f"cp {slot.cp_rank}")
    if slot.heads is not None:
        said.append(f"heads {slot.heads}")
    return " ".join([*said, " ".join(part for part in (slot.part, slot.component) if part)])


def _folded(rows: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Rows as they are, or one for each pattern where they are many."""
    if len(rows) <= MANY_ROWS:
        return rows
    by_pattern: dict[str, list[str]] = {}
    for label, cells in rows:
        by_pattern.setdefault("".join(cells), []).append(label)
    return [
        (labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more", list(cells))
        for cells, labels in by_pattern.items()
    ]


def _findings(report: Report, presence: Presence) -> Iterator[tuple[str, str, str]]:
    hit, count, gap = presence.contiguous_pages, len(presence.page_keys), presence.gap
    yield (
        "contiguous hit",
        f"{hit} of {count} pages, {hit * report.shape.page_size} tokens",
        palette.GOOD if hit else palette.WARNING,
    )
    if gap is not None:
        why = f"no answer, code {gap.answer}" if gap.answer < 0 else "missing"
        yield "cut by", f"page {gap.page}, {_label(gap.slot, presence.layout.slots)} ({why}): {gap.key}", palette.ERROR
    if presence.unreachable_pages:
        yield "unreachable", f"{presence.unreachable_pages} complete pages behind the cut", palette.WARNING
    if report.would is not None:
        verb = f"fetch {report.would.tokens} tokens" if report.would.prefetch else "fetch nothing"
        code = f" ({report.would.code})" if report.would.code else ""
        yield "the engine would", f"{verb}{code}: {report.would.why}", ""
    if report.fits is not None:
        yield "fits instead", report.fits.sentence, palette.WARNING
        yield "", f"as {report.fits.example}", palette.FAINT


def _decoded_facts(found: Decoded) -> Iterator[tuple[str, str, str]]:
    yield "key", found.key, palette.NAME
    yield "what", _WHAT[found.what], ""
    if found.page_key:
        yield "page hash", found.page_key, ""
    if found.prefix is not None:
        yield "in front", f"{found.prefix} (extra_backend_tag, model name, or both)", ""
    for index, reading in enumerate(found.readings):
        yield "reading" if index == 0 else "or", _read(reading), ""
    if found.written_by:
        yield "written by", found.written_by, ""


_WHAT = {
    "object": "an object of one page",
    "warm-up": "what SGLang puts at start to see whether the store works; it belongs to no page",
    "group": "a group id: the name that the objects of one page share, no object",
}


def _read(reading: Reading) -> str:
    said = [reading.part if not reading.component else f"pool {reading.part}, {reading.component}"]
    if reading.kind is not None:
        said.append(f"of an {reading.kind.value.upper()} model")
    if reading.heads:
        numbers = ", ".join(str(each) for each in reading.heads)
        said.append(
            f"tp rank {numbers} (or that share of the heads, under tp_lcm_size)"
            if len(reading.heads) == 1
            else f"shares {numbers} of the heads"
        )
    elif reading.dcp_rank is None:
        said.append("shared by all tp ranks")
    for name, value in (
        ("pp stage", reading.pp_rank),
        ("cp rank", reading.cp_rank),
        ("dcp rank", reading.dcp_rank),
        ("page size", reading.page_size),
        ("tp size", reading.tp_size),
    ):
        if value is not None:
            said.append(f"{name} {value}")
    return ", ".join([*said, *([f"written by the {reading.writer}"] if reading.writer != "HiCache" else [])])


def _decoded_row(found: Decoded) -> dict[str, object]:
    return {
        "key": found.key,
        "what": found.what,
        "page_key": found.page_key,
        "prefix": found.prefix,
        "written_by": found.written_by or None,
        "readings": [
            {
                "part": each.part,
                "component": each.component or None,
                "kind": each.kind.value if each.kind else None,
                "heads": list(each.heads),
                "tp_rank": each.heads[0] if len(each.heads) == 1 else None,
                "pp_rank": each.pp_rank,
                "cp_rank": each.cp_rank,
                "dcp_rank": each.dcp_rank,
                "page_size": each.page_size,
                "tp_size": each.tp_size,
                "writer": each.writer,
                "since": each.since,
            }
            for each in found.readings
        ],
    }
