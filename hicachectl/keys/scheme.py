"""What each range of SGLang releases does with keys: one row a change, read release by release from its sources.

Page keys: `sglang/srt/mem_cache/utils.py`, `radix_cache.py`, `cpp_utils/hash_binding.cpp`; object keys:
`sglang/srt/mem_cache/storage/mooncake_store/mooncake_store.py`; the hit of a look-up: `batch_exists_v2` there.
"""

from dataclasses import dataclass

from hicachectl.exits import UsageError
from hicachectl.release import Release

OLDEST = "0.5.14"


@dataclass(frozen=True, slots=True)
class Scheme:
    """The rules of the releases from `since` on, up to the next row."""

    since: str
    # An object key starts with the model's name (and, in front of it, the tag).
    model_prefix: bool = False
    # The first page's hash starts from a digest of extra_key and cache_salt where one is given.
    namespace_seed: bool = False
    # A page with a token of 2**32 or more is hashed in a wider form; before, hashing it fails.
    wide_tokens: bool = False
    # Shards of decode context parallelism have names of their own.
    dcp: bool = False
    # The engine may write device memory to the store directly, under names of its own.
    direct_linker: bool = False
    # A model without a temporal state has no object for it.
    drops_empty_temporal: bool = False
    # Pools of which only the end of a prefix is kept are intersected over prefixes, not cut at each pool's longest.
    intersects_restorable: bool = False


SCHEMES: tuple[Scheme, ...] = (
    Scheme("0.5.14"),
    Scheme("0.5.16", drops_empty_temporal=True),
    Scheme("0.5.17", drops_empty_temporal=True, model_prefix=True),
    Scheme("0.5.19", drops_empty_temporal=True, model_prefix=True, intersects_restorable=True),
    Scheme("0.5.20", drops_empty_temporal=True, model_prefix=True, intersects_restorable=True, namespace_seed=True),
    Scheme(
        "0.5.23",
        drops_empty_temporal=True,
        model_prefix=True,
        namespace_seed=True,
        wide_tokens=True,
        dcp=True,
        direct_linker=True,
        intersects_restorable=True,
    ),
)


NEWEST = SCHEMES[-1].since


def guessed(sglang: str) -> str:
    """What to say of a release that is newer than those whose sources were read; empty for one of them."""
    if Release.of(sglang).numbers <= Release.of(NEWEST).numbers:
        return ""
    return f"the key rules of SGLang {sglang} are not known: those of {NEWEST}, the latest that are, are taken for it"


def scheme_of(sglang: str) -> Scheme:
    """The row of an SGLang release such as "0.5.14"; UsageError for what is no release or older than the oldest row."""
    try:
        asked = Release.of(sglang)
    except ValueError as error:
        raise UsageError(f"'{sglang}' is no SGLang release: expected a number such as 0.5.14") from error
    fitting = [row for row in SCHEMES if Release.of(row.since) <= asked]
    if not fitting:
        raise UsageError(f"the keys of SGLang {sglang} are not known: known are {OLDEST} and later")
    return fitting[-1]
