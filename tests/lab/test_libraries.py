"""The dynamic linker's words -> library -> package."""

import ctypes

import pytest

from hicachectl.lab import libraries


@pytest.mark.parametrize("library", libraries.DEBIAN_PACKAGES)
def test_the_linkers_own_words_name_the_library(library: str) -> None:
    """What the dynamic linker says about a library that is nowhere is understood, in an ImportError as well as from a binary."""
    absent = f"absent-{library}"
    with pytest.raises(OSError, match="cannot open") as caught:
        ctypes.CDLL(absent)
    assert libraries.missing_in(str(caught.value)) == absent
    assert libraries.missing_in(f"/x/mooncake_master: error while loading shared libraries: {caught.value}") == absent


def test_other_words_name_none() -> None:
    """A library that is there but broken is not called missing."""
    assert libraries.missing_in("libibverbs.so.1: file too short") is None
    assert libraries.missing_in("") is None


def test_advice_names_the_package_or_says_what_to_look_for() -> None:
    """A library of the table has its package, another one its own name."""
    assert "apt-get install libibverbs1 " in libraries.advice("libibverbs.so.1")
    assert "libodd.so.3" in libraries.advice("libodd.so.3")
