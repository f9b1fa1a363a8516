"""`explain` as text, from rows: the ladder, the token account, the findings with their evidence."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from hicachectl.exits import one_line
from hicachectl.views import palette
from hicachectl.views.explained import TOKENS, Row
from hicachectl.views.table import drawn


def as_text(head: Row, requests: Iterable[Row], findings: Callable[[], Iterable[Row]], *, width: int | None, colour: bool) -> Iterator[str]:
    """The same for a person, from the same rows."""
    draw = partial(drawn, width=width, colour=colour)
    yield from map(draw, _engines(head))
    yield from (draw(_request(each)) for each in requests)
    yield from map(draw, _findings(list(findings())))


def _engines(head: Row) -> Iterator[RenderableType]:
    for engine in head["engines"]:
        backend, points = engine["backend"], engine["points"]
        yield Text.assemble(
            ("engine ", palette.HEADING),
            (one_line(engine["engine"]), palette.NAME),
            f"  SGLang {one_line(engine['sglang'] or '?')}, Mooncake {one_line(engine['mooncake'] or '?')}, rank {engine['tp_rank']} of {engine['tp_size']}, page size {engine['page_size'] or '?'}",
            ("  a CPU stands in for the GPU" if engine["stand_in"] else ""),
        )
        yield Text.assemble(
            f"  backend {one_line(backend['name'] or 'none')}: ",
            (backend["state"], palette.RUNGS.get(backend["state"], "")),
            f", setup {backend['setup_code'] if backend['setup_code'] is not None else '-'}, {backend['registered_bytes']} bytes registered",
            f", {backend['uncovered_buffers']} buffers outside them" if backend["uncovered_buffers"] else "",
            f", {points['installed']} hook points on",
            f", blind: {', '.join(map(one_line, points['missing']))}" if points["missing"] else "",
        )
        if engine["attached"]:
            out = engine["attached"]["requests_left_out"]
            begun = f"; {out} requests that had begun before are left out" if out else ""
            yield Text(f"  attached after start: how its backend was created was not seen, the settings were read then{begun}", palette.FAINT)
        if engine["export_dropped"]:
            yield Text(f"  {engine['export_dropped']} spans did not reach the collector", palette.WARNING)
    for reason in head["incomplete"]:
        yield Text(f"incomplete: {one_line(reason)}", palette.WARNING)


def _request(each: Row) -> RenderableType:
    ladder = Text("  ")
    for name, state in each["ladder"].items():
        ladder.append(f"{name} ")
        ladder.append(state, palette.RUNGS.get(state, ""))
        ladder.append("  ")
    again = f" (attempt {each['attempt']})" if each["attempt"] else ""
    head = Text.assemble("\n", ("request ", palette.HEADING), (one_line(each["rid"]), palette.NAME), again)
    return Group(head, Text(f"  {one_line(each['verdict'])}"), ladder, *_account(each), *_ranks(each["ranks"]))


def _account(each: Row) -> Iterator[RenderableType]:
    """The sums of the token account, and the engine's own split; nothing where no prefill was seen."""
    tokens, lost = each["tokens"], sum(loss["tokens"] for loss in each["lost"])
    reused, claims = tokens["reused"], tokens["engine_claims"]
    if tokens["computed"] is None:
        return
    yield Text(
        f"  tokens: {each['prompt_tokens']} prompt = {reused['device']} device + {reused['host']} host + {reused['storage']} storage + {tokens['computed']} computed"
        f" ({lost} lost, {tokens['new']} new, {tokens['tail']} tail)"
    )
    yield Text(f"  engine claims: {claims['device']} device, {claims['host']} host, {claims['storage']} storage", palette.FAINT)


def _ranks(ranks: list[Row]) -> Iterator[RenderableType]:
    """What each rank found and read; nothing where one rank served the request."""
    if not ranks:
        return
    told = [f"{word} {', '.join('-' if each[key] is None else str(each[key]) for each in ranks)} tokens" for word, key in (("found", "found_tokens"), ("read", "read_tokens"))]
    for word, key in (("lookup", "lookup_after_ms"), ("transfer", "transfer_after_ms")):
        late = [each[key] for each in ranks if each[key] is not None]
        told += [f"{word} {max(late):.1f} ms apart"] if len(late) > 1 else []
    yield Text(f"  ranks {', '.join(str(each['rank']) for each in ranks)}: {'; '.join(told)}", palette.FAINT)


def _findings(findings: list[Row]) -> Iterator[RenderableType]:
    if not findings:
        yield Text("\nno findings", palette.GOOD)
        return
    yield Text("\nfindings", palette.HEADING)
    for each in findings:
        rids, engines, evidence = each["rids"], each["engines"], each["evidence"]
        whom = f"{len(rids)} requests" if len(rids) > 1 else (one_line(rids[0]) if rids else f"{len(engines)} engines")
        head = Text.assemble(
            (f"{each['code']} ", palette.HEADING),
            (f"{each['level']} ", palette.LEVELS.get(each["level"], "")),
            one_line(each["title"]),
            (f"  [{whom}{', ' + str(each[TOKENS]) + ' tokens' if each[TOKENS] else ''}]", palette.FAINT),
            ("  not certain" if not each["certain"] else "", palette.WARNING),
        )
        yield Padding(head, (0, 0, 0, 2))
        if "written_through" in each["args"]:
            where = f"written through master {each['args']['written_through']}, asked through {each['args']['asked_through']}: where these are two stores, nothing was lost"
            yield Padding(Text(one_line(where), palette.WARNING), (0, 0, 0, 4))
        if each["folded"]:
            yield Padding(Text(f"folded: {', '.join(each['folded'])}", palette.FAINT), (0, 0, 0, 4))
        yield Padding(Text(f"evidence: {' '.join(evidence[:4])}{' ...' if len(evidence) > 4 else ''}", palette.FAINT), (0, 0, 0, 4))
        yield Padding(Text(f"next: {each['next']}"), (0, 0, 0, 4))
