"""G: admission and attribution. Where the engine's own account of cached tokens differs from what ran."""

from hicachectl.diagnosis.codes.row import V14, V23, Code
from tracers import vocabulary as v

ROWS: tuple[Code, ...] = (
    Code(
        id="HC-G01",
        level="info",
        versions=V14,
        plain="the engine counts tokens from the store as host tokens after a second admission try",
        title="the engine reports {claimed} storage tokens, {actual} came from the store: the request was tried {attempts} times",
        needs=(v.ADMISSION, v.PREFETCH_CREDIT, v.PREFILL),
        next="trust tokens.reused, not cached_tokens_details",
    ),
    Code(
        id="HC-G02",
        level="warning",
        versions=V14,
        plain="the engine claims cached tokens that the device computed",
        title="the engine claims {claimed} tokens from host and storage, {actual} were reused",
        needs=(v.PREFILL, v.LOAD_BACK),
        next="trust cached_tokens, not its split; the L code beside this one says why the load did not happen",
    ),
    Code(
        id="HC-G03",
        level="info",
        versions=V14,
        plain="loaded, then not admitted: the next try counts the tokens as device hits",
        title="{tokens} tokens were loaded, then the request was not admitted; the engine counts them as device hits",
        needs=(v.ADMISSION, v.LOAD_BACK, v.PREFILL),
        next="nothing is lost; trust tokens.reused",
    ),
    Code(
        id="HC-G04",
        level="info",
        plain="chunked prefill: only the first chunk is split by tier",
        title="a prefill of {chunks} chunks: the tier split is that of the first",
        needs=(v.PREFILL,),
        next="nothing",
    ),
    Code(
        id="HC-G05",
        level="info",
        plain="a retracted request adds nothing to cached_tokens",
        title="the request was retracted {times} times: cached_tokens is that of its first prefill",
        needs=(v.PREFILL, v.ADMISSION),
        next="nothing, or a larger device pool where retractions are common",
    ),
    Code(
        id="HC-G06",
        level="info",
        plain="prefix matching was switched off for this request",
        title="prefix matching was switched off: {reason}",
        needs=(v.PREFETCH_GATE, v.PREFILL),
        next="unset SGLANG_RADIX_FORCE_MISS; requests with positional embedding overrides never match",
    ),
    Code(
        id="HC-G07",
        level="info",
        plain="pages from the store are credited to host or device: another request was faster",
        title="{tokens} tokens fetched from the store are credited to {tier}: another request inserted them first",
        needs=(v.PREFETCH_PUBLISH, v.PREFILL),
        next="nothing",
    ),
    Code(
        id="HC-G08",
        level="info",
        versions=V14,
        plain="pages fetched for a request with an extra key are seen by plain requests only",
        title="{tokens} tokens fetched for extra key {extra_key} lie in the tree without it",
        needs=(v.PREFETCH_PUBLISH, v.PREFILL),
        next="see R27",
    ),
    Code(
        id="HC-G09",
        level="info",
        versions=V23,
        plain="the load brought more than it had promised",
        title="{loaded} tokens were loaded, {promised} were promised",
        needs=(v.LOAD_BACK, v.PREFILL),
        next="nothing",
    ),
)
