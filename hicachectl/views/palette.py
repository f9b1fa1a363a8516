"""Styles by meaning; views name the meaning, never a colour."""

ERROR = "bold red"
WARNING = "yellow"
INFO = "dim"
GOOD = "green"
HEADING = "bold"
FAINT = "dim"
NAME = "cyan"

LEVELS: dict[str, str] = {"error": ERROR, "warning": WARNING, "info": INFO}
"""Level of a finding -> its style."""

RUNGS: dict[str, str] = {"yes": GOOD, "partial": WARNING, "no": ERROR, "not_asked": FAINT, "unknown": WARNING}
"""Value of a rung -> its style."""

STATES: dict[str, str] = {"missing": ERROR, "changed": ERROR, "retired": ERROR, "blind": WARNING, "waiting": WARNING, "installed": GOOD}
"""State of a hook point -> its style."""
