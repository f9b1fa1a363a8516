"""E: eviction. Pages that were there once and are not any more."""

from hicachectl.diagnosis.codes.row import V14, V23, Code
from tracers import vocabulary as v

ROWS: tuple[Code, ...] = (
    Code(
        id="HC-E101",
        level="warning",
        plain="the store forgot objects that this recording wrote, without an eviction",
        title="{objects} objects written in this recording are gone, {evictions} evictions counted",
        needs=(v.STORE_PUT, v.STORE_EXIST, v.STORE_SAMPLE),
        next="look whether the master or the owner of the segment was restarted",
    ),
    Code(
        id="HC-E08",
        level="warning",
        plain="clear left objects in the store and reported success",
        title="clear removed {removed} of {before} objects, {left} are leased and stay",
        needs=(v.STORAGE_CLEAR, v.STORE_SAMPLE),
        next="repeat the clear after the lease (default_kv_lease_ttl) has run out",
    ),
    Code(
        id="HC-E06",
        level="info",
        plain="the store evicted pages that were asked for later",
        title="{objects} objects of this prefix were evicted by the store ({evictions} evictions counted)",
        needs=(v.STORE_PUT, v.STORE_EXIST, v.STORE_SAMPLE),
        next="raise global_segment_size or add a store node",
    ),
    Code(
        id="HC-E07",
        level="warning",
        plain="a flush came while pages were on their way",
        title="a flush dropped {prefetches} prefetches and {backups} backups that were under way",
        needs=(v.FLUSH, v.RESET),
        next="wait until the engine is idle before a flush",
    ),
    Code(
        id="HC-E01",
        level="warning",
        plain="pages were dropped from the device before they were written anywhere",
        title="{tokens} tokens were dropped from the device before they were written to host memory",
        needs=(v.EVICT_DEVICE, v.WRITE_BACKUP),
        next="--hicache-write-policy write_through, and a larger host pool if W06 is beside this",
    ),
    Code(
        id="HC-E02",
        level="warning",
        versions=V14,
        plain="write_back: nothing could be written, so nothing could be evicted",
        title="write_back wrote 0 of {tokens} tokens, so they could not be evicted",
        needs=(v.EVICT_DEVICE, v.WRITE_BACKUP),
        next="raise --hicache-ratio or --hicache-size",
    ),
    Code(
        id="HC-E03",
        level="warning",
        versions=V23,
        plain="write_back: a subtree was dropped under host memory pressure",
        title="write_back dropped {tokens} tokens under host memory pressure",
        needs=(v.EVICT_DEVICE,),
        next="raise --hicache-ratio or --hicache-size",
    ),
    Code(
        id="HC-E04",
        level="warning",
        versions=V23,
        plain="write_back: the backup failed and the node stays on the device",
        title="write_back could not write {tokens} tokens, they stay on the device",
        needs=(v.EVICT_DEVICE, v.WRITE_BACKUP),
        next="raise --hicache-ratio or --hicache-size",
    ),
    Code(
        id="HC-E05",
        level="info",
        plain="pages were evicted from host memory; the store may still have them",
        title="{tokens} tokens were evicted from host memory",
        needs=(v.EVICT_HOST,),
        next="nothing where the store has the pages; a larger host pool saves the transfer",
    ),
)
