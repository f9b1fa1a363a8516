"""Makes the index of a recording: everything is read and judged once, and what was found is written down by request."""

from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hicachectl.diagnosis.run import Judging
from hicachectl.index.file import LEAF, Directory, Judged, Line, Named, Place, Request, Writer
from hicachectl.model.world import World, world
from hicachectl.store import read
from hicachectl.store.around import all_around
from hicachectl.views import journey, judged


def build(run: Path, path: Path, key: list[Any]) -> bool:
    """Write the index of RUN to PATH; False where its files cannot be told line by line, or hold what the index cannot."""
    seen = world(read([run], map_from=1))
    recording = seen.recording
    if any(span.line < 0 for span in recording.spans) or not any(engine.scheduler for engine in seen.engines.values()):
        return False
    writer = Writer(path)
    try:
        writer.finish(_written(writer, seen, key))
    except (OverflowError, TypeError, ValueError):
        return False
    else:
        return True
    finally:
        writer.drop()


def _written(writer: Writer, seen: World, key: list[Any]) -> Directory:
    recording = seen.recording
    rows: dict[str, list[Place]] = defaultdict(list)
    judging = Judging(seen)
    for number, each in enumerate(judging.requests(seen.journeys, forget=True)):
        shown = journey.row(each.journey, each.account, each.ladder)
        rows[shown.rid].append(writer.add(Judged(number, judged.request_row(each), asdict(shown))))
    raised = judging.raised()
    findings = [writer.add(replace(each, unwritten=frozenset())) for each in raised]
    concern: dict[str, list[int]] = defaultdict(list)
    for number, finding in enumerate(raised):
        for rid in dict.fromkeys(finding.rids):
            concern[rid].append(number)
    spans = all_around(recording)
    rids = sorted(rows)
    requests = [Named(rid, writer.add(Request(rows[rid], [(span.line, span.span_id) for span in spans.get(rid, ())], concern[rid]))) for rid in rids]
    lines = [Line(recording.mapped[file].path.name, *recording.mapped[file].places[line]) for file, line in recording.lines]
    whole = [number for number, finding in enumerate(raised) if not finding.rids]
    head = writer.add(judged.head_row(seen))
    return Directory(key, writer.leaves(lines), head, whole, writer.leaves(findings), rids[::LEAF], writer.leaves(requests))
