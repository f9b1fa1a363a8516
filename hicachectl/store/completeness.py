"""Whether a recording can be trusted to be all that happened, and one sentence for each reason why not."""

from collections.abc import Collection, Iterator, Mapping

from hicachectl.store.ledger import Ledger
from tracers.vocabulary import RECORDING_VERSION


def reasons(
    engines: Collection[str], ledgers: Mapping[str, Ledger], have: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """For each of ENGINES what its ledger says against the spans that are there (HAVE): (sentence, spans missing)."""
    for engine in sorted({*engines, *ledgers}):
        found = ledgers.get(engine)
        if found is None:
            yield f"{engine} left no ledger", 0
        else:
            yield from _of(engine, found, ledgers, have.get(engine, 0))


def _of(engine: str, found: Ledger, ledgers: Mapping[str, Ledger], have: int) -> Iterator[tuple[str, int]]:
    open_end = not found.closed and not found.ended_by(ledgers.values())
    if open_end and (found.scheduler or found.written or have):
        yield f"{engine} did not end in order, or still runs: its last spans may be missing", 0
    if found.dropped:
        yield f"{engine} dropped {found.dropped} spans", 0
    # What was rotated out counts as dropped, and no longer as written.
    missing = found.written - have
    if missing > 0:
        unsampled = found.export.unsampled if found.export is not None else 0
        why = f"; its sampler keeps {unsampled} from the collector" if unsampled else ""
        yield f"{engine} wrote {missing} spans that are not in the recording{why}", missing
    if found.recording_version > RECORDING_VERSION:
        yield (
            f"{engine} wrote a newer recording (version {found.recording_version}) than this hicachectl knows ({RECORDING_VERSION})",
            0,
        )
