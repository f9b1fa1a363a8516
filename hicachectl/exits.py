"""Exit codes, one error class for each, and the one translator of errors."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

DONE = 0
FOUND = 1
USAGE = 2
UNREACHABLE = 3
BAD_INPUT = 4
INTERRUPTED = 130

MEANINGS: dict[int, str] = {
    DONE: "done; nothing at or above the threshold",
    FOUND: "findings at or above the threshold, a failed step of probe, an error of doctor, an unexpected scenario of demo",
    USAGE: "usage; unknown code or request id; a --run folder that is not empty",
    UNREACHABLE: "something that is needed cannot be reached, found or started",
    BAD_INPUT: "the input cannot be read as what it should be",
    INTERRUPTED: "interrupted",
}


class OperatorError(Exception):
    """An end with a sentence for the operator: what, where, and what to try next."""

    exit_code = FOUND


class UsageError(OperatorError):
    """The command was asked for something that does not exist or is not allowed."""

    exit_code = USAGE


class UnreachableError(OperatorError):
    """Something that is needed cannot be reached, found or started."""

    exit_code = UNREACHABLE


class BadInputError(OperatorError):
    """The input cannot be read as what it should be."""

    exit_code = BAD_INPUT


_SHOWN_NAME = 200


def leave(code: int) -> NoReturn:
    """End the command with CODE, data already written."""
    raise SystemExit(code)


@contextmanager
def translated() -> Iterator[None]:
    """Turn every expected end of a command into one line on stderr and the contract's exit code."""
    try:
        yield
    except OperatorError as error:
        sys.stderr.write(f"hicachectl: {one_line(str(error))}\n")
        leave(error.exit_code)
    except KeyboardInterrupt:
        leave(INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout went away (`| head`): not an error; keep the interpreter from flushing into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        leave(DONE)
    except OSError as error:
        # What no room has foreseen: a name that is too long, a disk that is full, a folder that went away.
        what = one_line(str(error.filename)[:_SHOWN_NAME]) if error.filename else "what is needed"
        sys.stderr.write(f"hicachectl: cannot use {what}: {error.strerror or type(error).__name__}\n")
        leave(UNREACHABLE)


def one_line(text: str) -> str:
    """TEXT with everything that could move a terminal's cursor made visible."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text.strip())
