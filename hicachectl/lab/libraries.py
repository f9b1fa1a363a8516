"""System libraries that Mooncake's binaries load, and the package of each."""

import re

DEBIAN_PACKAGES: dict[str, str] = {
    "libibverbs.so.1": "libibverbs1",
    "librdmacm.so.1": "librdmacm1",
    "libnuma.so.1": "libnuma1",
    "liburing.so.2": "liburing2",
    "libcurl.so.4": "libcurl4",
}
"""Shared object -> Debian or Ubuntu package that has it."""

_MISSING = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")


def missing_in(text: str) -> str | None:
    """The shared object that the dynamic linker did not find, by what it printed or by the text of an ImportError."""
    match = _MISSING.search(text)
    return match.group(1) if match else None


def advice(library: str) -> str:
    """What to install so that LIBRARY is there."""
    package = DEBIAN_PACKAGES.get(library)
    if package is None:
        return f"install the system package that has {library}"
    return f"apt-get install {package} (Mooncake needs {' '.join(DEBIAN_PACKAGES.values())})"
