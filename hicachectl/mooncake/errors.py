"""What Mooncake's numbers mean: one table by layer and release, and the lookups over it.

Names and numbers are those of Mooncake's sources: `mooncake-store/include/types.h` (Store),
`mooncake-transfer-engine/include/error.h` and `common/base/status.h` (Transfer Engine),
`mooncake-transfer-engine/tent/include/tent/common/status.h` (TENT), read release by release.
The layers share numbers, so a bare number has as many meanings as layers that use it.
"""

from dataclasses import dataclass
from enum import Enum

from hicachectl.release import Release


class Layer(str, Enum):
    """Who returned the number."""

    store = "Store"
    transfer_engine = "Transfer Engine"
    tent = "TENT"


class Kind(str, Enum):
    """What sort of trouble a number tells of."""

    none = "none"
    caller = "caller or configuration"
    capacity = "capacity"
    network = "network or transport"
    availability = "availability"
    state = "state, a retry may help"
    disk = "disk or file tier"
    internal = "internal"


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One meaning of one number: `since` is the first release with it, `until` the first without it (empty: still there)."""

    layer: Layer
    number: int
    name: str
    meaning: str
    check: str
    kind: Kind
    since: str
    until: str = ""

    def known_to(self, release: str) -> bool:
        """Whether this release of Mooncake has the row."""
        asked = Release.of(release)
        return Release.of(self.since) <= asked and not (self.until and Release.of(self.until) <= asked)


_NONE, _CALLER, _CAPACITY, _NETWORK = Kind.none, Kind.caller, Kind.capacity, Kind.network
_HA, _STATE, _DISK, _INTERNAL = Kind.availability, Kind.state, Kind.disk, Kind.internal
_BUG = "A defect of Mooncake if it is ever seen: keep the client's and the master's log and report it."
_AFTER_PUT = "Retry once; if it stays, compare the master's put-start and put-end counters."

# fmt: off
_STORE: tuple[tuple[int, str, Kind, str, str, str], ...] = (
    (0, "OK", _NONE, "0.3.0", "Done.",
     "Of a put it also means that the object was there already, and then nothing was copied."),
    (-1, "INTERNAL_ERROR", _INTERNAL, "0.3.0", "A failure without a class of its own; wrappers also use it as their fallback, and setup after 90 s without a master.",
     "Is the master up at that address? Otherwise the client's and the master's log around that moment."),
    (-10, "BUFFER_OVERFLOW", _CALLER, "0.3.0", "The object does not fit into the buffer that was given for it.",
     "Compare the object's size with the bytes of a page: page size, dtype or layout differ from the writer's."),
    (-100, "SHARD_INDEX_OUT_OF_RANGE", _INTERNAL, "0.3.0", "An index into the master's shards is out of bounds; no code path is known to return it.", _BUG),
    (-101, "SEGMENT_NOT_FOUND", _HA, "0.3.4", "The segment is not mounted, or there is none to choose from.",
     "Ask the master for /get_all_segments: did an owner of memory leave?"),
    (-102, "SEGMENT_ALREADY_EXISTS", _CALLER, "0.3.4", "A segment of this name is mounted already.",
     "Was the owner started twice, or did it come back before its old mount expired (client_ttl)?"),
    (-103, "CLIENT_NOT_FOUND", _HA, "0.3.8", "The master does not know this client: it expired, or the master is a new process.",
     "The master's active client gauge, failed pings, and whether the master was restarted."),
    (-200, "NO_AVAILABLE_HANDLE", _CAPACITY, "0.3.0", "No room for the replicas that were asked for, or nobody has mounted a segment at all.",
     "Used and total capacity, replica count, and objects that a lease still protects (a fresh put counts as leased)."),
    (-300, "INVALID_VERSION", _CALLER, "0.3.0", "Client and master are of different releases and noticed it.",
     "Install the same release of the wheel on both sides."),
    (-400, "INVALID_KEY", _DISK, "0.3.0", "A file or bucket backend does not know the key, or the key is malformed.",
     "The master's view and the disk tier's have drifted apart: look at the offload log."),
    (-500, "WRITE_FAIL", _INTERNAL, "0.3.0", "A write failed; no code path is known to return it.", _BUG),
    (-600, "INVALID_PARAMS", _CALLER, "0.3.0", "An argument is wrong: empty key, zero size, lists of unequal length, a buffer that is too small or registered twice.",
     "The sizes and counts of the call; for a get, the page bytes of reader and writer."),
    (-601, "ILLEGAL_CLIENT", _CALLER, "0.3.8", "The object or the operation belongs to another client.",
     "Two writers on one key, or a client that came back under a new id."),
    (-700, "INVALID_WRITE", _STATE, "0.3.0", "The replica is not in a state in which this step of a write is allowed.", _AFTER_PUT),
    (-701, "INVALID_READ", _STATE, "0.3.0", "The replica cannot be read in its present state; seen on the offload path.",
     "Retry once; then the disk tier's log."),
    (-702, "INVALID_REPLICA", _STATE, "0.3.0", "None of the replicas is complete, or none is of a kind that this call can read.",
     "An object that lies on disk only, or a put that has not ended."),
    (-703, "REPLICA_IS_NOT_READY", _STATE, "0.3.0", "The object exists, but no replica of it is complete.",
     "A put under way or given up half-way: compare the master's put-start and put-end counters."),
    (-704, "OBJECT_NOT_FOUND", _STATE, "0.3.0", "The master has no such key: never written, evicted, removed, or of another tenant.",
     "Eviction counters and the writer's own record tell never written from forgotten; `hicachectl probe-keys --why` tells whether it lies under another shape."),
    (-705, "OBJECT_ALREADY_EXISTS", _STATE, "0.3.0", "The key is taken. A client's put turns this into 0.",
     "Nothing was copied, and the old bytes stay."),
    (-706, "OBJECT_HAS_LEASE", _STATE, "0.3.2", "Removal refused while a reader's lease runs.",
     "Wait for the lease to end (5 s by default up to 0.3.11), or remove with force."),
    (-707, "LEASE_EXPIRED", _NETWORK, "0.3.7", "The copy took longer than the lease, so the bytes are not trusted although they may all have come.",
     "Bandwidth, batch size, and the master's default_kv_lease_ttl."),
    (-708, "OBJECT_HAS_REPLICATION_TASK", _STATE, "0.3.9", "A copy or move of this object is under way.", "Retry later."),
    (-709, "OBJECT_NO_REPLICATION_TASK", _STATE, "0.3.9", "There is no copy or move of this object to end.", "The caller holds an old task id."),
    (-710, "REPLICA_NOT_FOUND", _STATE, "0.3.9", "The replica that was named is not there.", "Ask for the list of replicas again."),
    (-711, "REPLICA_ALREADY_EXISTS", _STATE, "0.3.9", "The target of a copy has a replica already; no code path is known to return it.", _BUG),
    (-712, "REPLICA_IS_GONE", _STATE, "0.3.9", "The replica vanished while it was copied or moved.", "Its source was evicted, or its owner left."),
    (-713, "REPLICA_NOT_IN_LOCAL_MEMORY", _CALLER, "0.3.10", "The operation needs a replica in this host's memory. Mooncake's own name table lacks it and prints UNKNOWN_ERROR.",
     "The caller takes the object to be local, and it is not."),
    (-714, "OBJECT_REPLICA_BUSY", _STATE, "0.3.10.post2", "Somebody still holds a reference to the replica.", "Retry later."),
    (-800, "TRANSFER_FAIL", _NETWORK, "0.3.0", "The copy failed, whatever the Transfer Engine's reason was: refused, cancelled, timed out.",
     "Is the owner of the memory alive (an existence check still says yes for 10 s after its death)? Then the first error, not the last, in the client's glog: registration, NIC, GID, MTU."),
    (-801, "CHECKSUM_MISMATCH", _NETWORK, "0.3.13", "The bytes that came differ from the checksum taken when they were written.",
     "Stop using the store until the path is found; only clients with MOONCAKE_STORE_CHECKSUM=1 check at all."),
    (-900, "RPC_FAIL", _HA, "0.3.0", "A call to the master failed.",
     "Is the master up, is the port its RPC port, and is it of the client's release? A master of another release gives setup 0 without a segment and -900 from everything else."),
    (-901, "RPC_TIMEOUT", _HA, "0.3.12", "The master did not answer in the client's time limit.",
     "MC_RPC_TIMEOUT_MS, the master's load and its RPC latency histogram."),
    (-1000, "ETCD_OPERATION_ERROR", _HA, "0.3.3", "A call to etcd failed.", "etcd's health and address."),
    (-1001, "ETCD_KEY_NOT_EXIST", _HA, "0.3.3", "etcd has no such key.", "No leader is published, or the cluster id differs."),
    (-1002, "ETCD_TRANSACTION_FAIL", _HA, "0.3.3", "A compare-and-set in etcd lost.", "Two masters race for leadership; retry."),
    (-1003, "ETCD_CTX_CANCELLED", _HA, "0.3.3", "A call to etcd was given up.", "A shutdown, or a leader that lost its lease."),
    (-1004, "OPLOG_ENTRY_NOT_FOUND", _HA, "0.3.10.post2", "A standby master misses an entry of the operation log.", "The ha_oplog_* metrics of the standby."),
    (-1005, "K8S_LEASE_OPERATION_ERROR", _HA, "0.3.11", "A call for a Kubernetes Lease failed.", "The API server, and the service account's rights on Leases."),
    (-1006, "K8S_LEASE_NOT_FOUND", _HA, "0.3.11", "The Kubernetes Lease is not there.", "No master has been elected yet."),
    (-1007, "INCOMPLETE_OPLOG_CATCH_UP", _HA, "0.3.13", "A standby that takes over cannot show that it applied every entry of the operation log.",
     "Do not trust key lists after this failover."),
    (-1010, "UNAVAILABLE_IN_CURRENT_STATUS", _HA, "0.3.4", "The target exists, and its state forbids the operation.",
     "A segment that is being unmounted or drained: wait, or take another."),
    (-1011, "UNAVAILABLE_IN_CURRENT_MODE", _HA, "0.3.4", "The process is a standby or still starting, or the feature is switched off. Over HTTP this is a 503.",
     "You are asking a standby master: ask /leader and go there."),
    (-1012, "NOT_SUPPORTED", _CALLER, "0.3.13", "This backend does not have the operation.", "How the master was built and started."),
    (-1100, "FILE_NOT_FOUND", _DISK, "0.3.5", "The file behind the object is missing.", "The disk tier lost it: was its folder cleaned?"),
    (-1101, "FILE_OPEN_FAIL", _DISK, "0.3.5", "The file cannot be opened.", "Path, rights, limit of open files."),
    (-1102, "FILE_READ_FAIL", _DISK, "0.3.5", "The file cannot be read.", "The kernel log: device or file system errors."),
    (-1103, "FILE_WRITE_FAIL", _DISK, "0.3.5", "The file cannot be written.", "Free space, rights, the device."),
    (-1104, "FILE_INVALID_BUFFER", _DISK, "0.3.5", "The buffer cannot be used for file access: its size or alignment.", "Alignment for O_DIRECT."),
    (-1105, "FILE_LOCK_FAIL", _DISK, "0.3.5", "The file cannot be locked; no code path is known to return it.", _BUG),
    (-1106, "FILE_INVALID_HANDLE", _DISK, "0.3.5", "The file handle is closed or bad.", "Whether the backend was shut down before."),
    (-1200, "BUCKET_NOT_FOUND", _DISK, "0.3.7.post1", "The bucket is unknown.", "The disk tier's metadata has drifted from its files."),
    (-1201, "BUCKET_ALREADY_EXISTS", _DISK, "0.3.7.post1", "A bucket of this id is there.", "Two clients on one offload folder."),
    (-1202, "KEYS_EXCEED_BUCKET_LIMIT", _CAPACITY, "0.3.8", "More keys than one bucket takes.", "The bucket settings of the offload backend."),
    (-1203, "KEYS_ULTRA_LIMIT", _CAPACITY, "0.3.8", "The offload queue, or the number of keys in it, is over its limit.", "Offload is behind its input: expect objects that are dropped instead of offloaded."),
    (-1300, "UNABLE_OFFLOAD", _CALLER, "0.3.7.post1", "Offload to disk is not switched on.", "The flag on the master and on the client."),
    (-1301, "UNABLE_OFFLOADING", _STATE, "0.3.8", "This client cannot offload at the moment.", "Whether it has registered its offload backend."),
    (-1400, "TASK_NOT_FOUND", _STATE, "0.3.8.post1", "The task is unknown, or its record was pruned.", "The age of the task id."),
    (-1401, "TASK_PENDING_LIMIT_EXCEEDED", _CAPACITY, "0.3.8.post1", "Too many tasks wait.", "Slow down, then retry."),
    (-1402, "JOB_NOT_FOUND", _STATE, "0.3.10.post2", "The drain job or other job is unknown.", "The job id."),
    (-1500, "SERIALIZE_UNSUPPORTED", _INTERNAL, "0.3.10", "The master's state cannot be written as a snapshot.", "The memory allocator that the master was started with."),
    (-1501, "SERIALIZE_FAIL", _INTERNAL, "0.3.10", "Writing the snapshot failed.", "The master's log."),
    (-1502, "DESERIALIZE_FAIL", _INTERNAL, "0.3.10", "The snapshot cannot be read.", "Which release wrote it."),
    (-1503, "PERSISTENT_FAIL", _DISK, "0.3.10", "The snapshot could not be kept.", "The folder or service that holds snapshots."),
    (-1600, "DFS_NETWORK_TIMEOUT", _DISK, "0.3.12", "The distributed file system did not answer in time.", "Its network."),
    (-1601, "DFS_SERVICE_UNAVAILABLE", _DISK, "0.3.12", "The distributed file system is not there.", "Its mount and service."),
    (-1602, "DFS_QUOTA_EXCEEDED", _CAPACITY, "0.3.12", "The quota on the distributed file system is used up.", "The quota."),
    (-1603, "DFS_PERMISSION_DENIED", _CALLER, "0.3.12", "The distributed file system refused access.", "Rights of the client's user."),
    (-1604, "DFS_STALE_HANDLE", _DISK, "0.3.12", "A handle of the distributed file system has expired.", "Whether it was remounted."),
    (-1605, "DFS_PARTIAL_WRITE", _DISK, "0.3.12", "Only a part was written to the distributed file system.", "Its space and log."),
    (-1700, "TENANT_QUOTA_EXCEEDED", _CAPACITY, "0.3.12", "The tenant has used up its memory.", "The master's /api/v1/tenant_quotas and mooncake_tenant_quota_* metrics."),
    (-1701, "TENANT_NOT_REGISTERED", _CALLER, "0.3.12", "The tenant has no quota, and the master takes registered tenants only.", "Register the tenant, or correct its name in the client."),
    (-1702, "TENANT_NOT_EMPTY", _STATE, "0.3.12", "The tenant still owns objects or memory.", "Empty it before it is dropped."),
)

_RETIRED: tuple[tuple[int, str, Kind, str, str, str, str], ...] = (
    (-101, "AVAILABLE_SEGMENT_EMPTY", _HA, "0.3.0", "0.3.4", "There is no segment to choose from; later releases say SEGMENT_NOT_FOUND.", "Did an owner of memory leave?"),
    (-1202, "KEYS_ULTRA_BUCKET_LIMIT", _CAPACITY, "0.3.7.post1", "0.3.8", "More keys than one bucket takes; renamed later.", "The bucket settings of the offload backend."),
)

# The C++ interface and the logs show these; the Python TransferEngine folds nearly all of them into -1.
_TE: tuple[tuple[int, str, Kind, str, str], ...] = (
    (-1, "ERR_INVALID_ARGUMENT", _CALLER, "A bad argument; also what the Python binding returns for any failure.", "The first error in glog tells which one it was."),
    (-2, "ERR_TOO_MANY_REQUESTS", _CALLER, "More transfers than the batch was made for.", "The batch size."),
    (-3, "ERR_ADDRESS_NOT_REGISTERED", _CALLER, "Memory at one end is not registered, or not published to the peer.", "Registration on both sides, and the metadata service."),
    (-4, "ERR_BATCH_BUSY", _CALLER, "A batch was freed while it ran.", "Who frees it, and when."),
    (-6, "ERR_DEVICE_NOT_FOUND", _NETWORK, "No RDMA device that can be used.", "ibv_devices, and transfer_engine_topology_dump."),
    (-7, "ERR_ADDRESS_OVERLAPPED", _CALLER, "The region overlaps one that is registered.", "A second registration after a re-attach."),
    (-101, "ERR_DNS", _NETWORK, "The server's name does not resolve.", "local_hostname on both sides."),
    (-102, "ERR_SOCKET", _NETWORK, "A TCP error in the handshake.", "Port, firewall, and whether the peer lives."),
    (-103, "ERR_MALFORMED_JSON", _CALLER, "The handshake or the topology file is no valid JSON.", "Releases on both sides, and a topology file of your own."),
    (-104, "ERR_REJECT_HANDSHAKE", _NETWORK, "The peer said no.", "The peer's log."),
    (-200, "ERR_METADATA", _HA, "The metadata service cannot be reached, or contradicts itself.", "etcd, HTTP or P2PHANDSHAKE: the same on both sides?"),
    (-201, "ERR_ENDPOINT", _NETWORK, "A queue pair could not be made, connected or used.", "Queue pair limits, GID index, MTU."),
    (-202, "ERR_CONTEXT", _NETWORK, "The device's context, completion queue, memory region or worker failed.", "memlock limit, memory keys, state of the port."),
    (-300, "ERR_NUMA", _INTERNAL, "NUMA is not supported here; no code path is known to return it.", _BUG),
    (-301, "ERR_CLOCK", _INTERNAL, "There is no clock that can be used; no code path is known to return it.", _BUG),
    (-302, "ERR_MEMORY", _CAPACITY, "Memory could not be had or registered.", "ulimit -l, huge pages, the device's largest memory region."),
    (-303, "ERR_NOT_IMPLEMENTED", _INTERNAL, "Not implemented.", "The transport in use."),
)

_TE_STATUS: tuple[tuple[int, str, str], ...] = (
    (0, "OK", ""), (1, "InvalidArgument", "ERR_INVALID_ARGUMENT"), (2, "TooManyRequests", "ERR_TOO_MANY_REQUESTS"),
    (3, "AddressNotRegistered", "ERR_ADDRESS_NOT_REGISTERED"), (4, "BatchBusy", "ERR_BATCH_BUSY"),
    (6, "DeviceNotFound", "ERR_DEVICE_NOT_FOUND"), (7, "AddressOverlapped", "ERR_ADDRESS_OVERLAPPED"),
    (8, "NotSupportedTransport", ""), (101, "Dns", "ERR_DNS"), (102, "Socket", "ERR_SOCKET"),
    (103, "MalformedJson", "ERR_MALFORMED_JSON"), (104, "RejectHandshake", "ERR_REJECT_HANDSHAKE"),
    (200, "Metadata", "ERR_METADATA"), (201, "Endpoint", "ERR_ENDPOINT"), (202, "Context", "ERR_CONTEXT"),
    (300, "Numa", "ERR_NUMA"), (301, "Clock", "ERR_CLOCK"), (302, "Memory", "ERR_MEMORY"),
    (999, "NotImplemented", "ERR_NOT_IMPLEMENTED"),
)

_TENT: tuple[tuple[int, str, Kind, str, str, str], ...] = (
    (0, "Ok", _NONE, "0.3.8", "Done.", "Nothing."),
    (1, "InvalidArgument", _CALLER, "0.3.8", "A bad argument.", "The message that comes with it."),
    (2, "TooManyRequests", _CALLER, "0.3.8", "More transfers than the batch was made for.", "The batch size."),
    (3, "AddressNotRegistered", _CALLER, "0.3.8", "Memory at one end is not registered.", "Registration on both sides."),
    (4, "DeviceNotFound", _NETWORK, "0.3.8", "No device that can be used.", "ibv_devices; under the classic engine 4 is a busy batch."),
    (5, "InvalidEntry", _INTERNAL, "0.3.8", "An entry of a table is not valid.", "The message that comes with it."),
    (6, "InvalidMetadataType", _CALLER, "0.3.8", "The kind of metadata service is unknown.", "The metadata setting; under the classic engine 6 is a missing device."),
    (7, "NeedsRefreshCache", _STATE, "0.3.10.post2", "The peer's description is out of date.", "Retry; under the classic engine 7 is an overlapping region."),
    (100, "RdmaError", _NETWORK, "0.3.8", "An RDMA call failed.", "Port state, GID, MTU, memlock limit."),
    (101, "CudaError", _INTERNAL, "0.3.8", "A CUDA call failed.", "The driver; under the classic engine 101 is a name that does not resolve."),
    (131, "MetadataError", _HA, "0.3.8", "The metadata service failed.", "Its address and health."),
    (132, "RpcServiceError", _HA, "0.3.8", "A call to the peer's control service failed.", "Whether the peer lives, its port, a firewall."),
    (133, "MalformedJson", _CALLER, "0.3.8", "What came is no valid JSON.", "Releases on both sides."),
    (199, "InternalError", _INTERNAL, "0.3.8", "A failure without a class of its own.", "The message that comes with it."),
    (200, "NotImplemented", _INTERNAL, "0.3.8", "Not implemented.", "The transport in use; under the classic engine 200 is the metadata service."),
)
# fmt: on


def _store_rows() -> list[ErrorRow]:
    current = [
        ErrorRow(Layer.store, number, name, meaning, check, kind, since)
        for number, name, kind, since, meaning, check in _STORE
    ]
    retired = [
        ErrorRow(Layer.store, number, name, meaning, check, kind, since, until)
        for number, name, kind, since, until, meaning, check in _RETIRED
    ]
    return current + retired


def _transfer_engine_rows() -> list[ErrorRow]:
    macros = {
        name: ErrorRow(Layer.transfer_engine, number, name, meaning, check, kind, "0.2.0")
        for number, name, kind, meaning, check in _TE
    }
    own = {
        "OK": ("Done.", "Nothing.", _NONE),
        "NotSupportedTransport": (
            "No transport of this engine can reach the peer.",
            "The protocol on both sides.",
            _CALLER,
        ),
    }
    rows = list(macros.values())
    for number, name, macro in _TE_STATUS:
        meaning, check, kind = (macros[macro].meaning, macros[macro].check, macros[macro].kind) if macro else own[name]
        rows.append(ErrorRow(Layer.transfer_engine, number, name, meaning, check, kind, "0.3.0"))
    return rows


def _tent_rows() -> list[ErrorRow]:
    return [
        ErrorRow(Layer.tent, number, name, meaning, check, kind, since)
        for number, name, kind, since, meaning, check in _TENT
    ]


ALL: tuple[ErrorRow, ...] = (*_store_rows(), *_transfer_engine_rows(), *_tent_rows())


def lookup(number: int) -> tuple[ErrorRow, ...]:
    """Every meaning of NUMBER, Store first, retired names last in their layer; empty where no layer uses it."""
    return tuple(row for row in ALL if row.number == number)


def store(number: int) -> ErrorRow | None:
    """What NUMBER means where a MooncakeDistributedStore returned it, by the newest release; None for a number that it does not have."""
    return next((row for row in ALL if row.layer is Layer.store and row.number == number and not row.until), None)


def rows_of(layer: Layer, release: str) -> tuple[ErrorRow, ...]:
    """The rows of LAYER that RELEASE of Mooncake (such as "0.3.11.post1") has."""
    return tuple(row for row in ALL if row.layer is layer and row.known_to(release))
