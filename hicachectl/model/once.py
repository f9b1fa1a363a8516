"""What is worked out once: `functools.cached_property` without its lock, which costs more than most of what is asked here."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    once = cached_property
else:

    class once(cached_property):  # noqa: N801 - stands where `cached_property` stood
        """A property that is worked out when it is first asked for; to be used in one thread."""

        def __get__(self, owner: Any, kind: Any = None) -> Any:
            """The value, kept under the property's own name, so that this is not called again."""
            if owner is None:
                return self
            value = owner.__dict__[self.attrname] = self.func(owner)
            return value
