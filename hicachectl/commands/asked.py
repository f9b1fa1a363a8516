"""What a command reads: recordings, or with --from a column store; all of it, or one request."""

import sys

from hicachectl import store
from hicachectl.exits import UsageError, one_line


def recorded(runs: list[str] | None, source: str | None, request: str | None) -> store.Recording:
    """The recording of RUNS, or of the column store SOURCE: of this, with a REQUEST, only what its verdict needs.

    UsageError where both are given, or the request is not there.
    """
    if source is None:
        return store.read(runs or ())
    if runs:
        raise UsageError("RUN and --from exclude each other: --from names all that is read")
    # Imported here: files need none of it.
    from hicachectl.store import columns  # noqa: PLC0415
    from hicachectl.store.columns.one import one  # noqa: PLC0415
    from hicachectl.store.columns.reading import whole  # noqa: PLC0415

    with columns.opened(source) as database:
        if request is None:
            return whole(database)
        found = one(database, request)
        if found is None:
            raise UsageError(f"no request id of {database.name} is or begins with {one_line(request)}: see `hicachectl show`")
    if found.left_out:
        sys.stderr.write(f"hicachectl: {found.left_out} older requests that begin like this one were not read: a finding that concerns several may name fewer of them\n")
    return found.recording
