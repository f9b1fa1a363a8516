"""What the store looked like before and after, and what the probe did to it besides its own objects."""

from typing import Any

from hicachectl.mooncake import master
from hicachectl.mooncake.child import ORPHAN_GRACE_S
from hicachectl.mooncake.client import Session
from hicachectl.mooncake.probe.admin import Watch
from hicachectl.mooncake.probe.plan import PREFIX, Plan
from hicachectl.mooncake.probe.report import Report

GAUGES: tuple[str, ...] = ("keys", "segments", "used_bytes", "capacity_bytes")
"""What a probe must leave as it was."""
CAUTIOUS_WATERMARK = min(row.eviction_watermark for row in master.DIALECTS.values())


def described(plan: Plan, watch: Watch) -> dict[str, Any]:
    """The `store` part of the report before anything is asked."""
    settings = plan.settings
    return {
        "master": settings.master_server_address,
        "admin": watch.admin.url if watch.admin is not None else None,
        "admin_found": watch.admin.found if watch.admin is not None else "no admin port is known for this address",
        "service_ready": None,
        "master_dialect": None,
        "segments": [],
        "client": {
            "release": None,
            "local_hostname": settings.local_hostname,
            "metadata_server": settings.metadata_server,
            "segment_size": settings.segment_size,
        },
        "transport": {"asked": settings.protocol, "device": settings.device_name, "in_use": None, "remark": ""},
        "size": plan.size,
        "pages": plan.pages,
        "repeat": plan.repeat,
        "key_prefix": f"{PREFIX}-{plan.run}-",
        "gauges_before": None,
        "gauges_after": None,
        "problem": "",
    }


def first_look(watch: Watch, report: Report) -> dict[str, int | float] | None:
    """Fill in the master's health and gauges before the probe; returns its metrics, to be compared later."""
    health = watch.health()
    report.store |= {
        "service_ready": health.service_ready if health is not None else None,
        "master_dialect": health.dialect.releases if health is not None else None,
        "segments": watch.segments(),
        "gauges_before": _gauges(watch.sample()),
        "problem": watch.problem,
    }
    return watch.metrics()


def transport(plan: Plan, session: Session, report: Report) -> None:
    """Note which transport the client installed; asked for rdma without a device, the library takes tcp and says nothing."""
    in_use = session.transport() or None
    asked = plan.settings.protocol
    remark = ""
    if in_use is not None and asked != in_use:
        remark = f"{asked} was asked for, and the client runs on {in_use}: "
        remark += "no RDMA device is visible on this host" if asked == "rdma" else "this wheel or host lacks it"
    report.store["transport"] |= {"in_use": in_use, "remark": remark}


def watermark(plan: Plan, watch: Watch) -> float:
    """Where this master evicts: as given, by its command line where that can be read, else its releases' default, at worst the lower one."""
    if plan.watermark is not None:
        return plan.watermark
    if watch.admin is not None and watch.admin.watermark is not None:
        return watch.admin.watermark
    health = watch.health()
    return health.dialect.eviction_watermark if health is not None else CAUTIOUS_WATERMARK


def last_look(plan: Plan, watch: Watch, report: Report, before: dict[str, int | float] | None) -> None:
    """Fill in the gauges after the probe, and the side effects."""
    watch.deaf = False
    gauges, after, health = watch.sample(), watch.metrics(), watch.health()
    report.store["gauges_after"] = _gauges(gauges)
    effects = report.side_effects
    if report.put:
        lease = f" ({health.dialect.lease_ms / 1000:g} s by default)" if health is not None else ""
        effects.append(
            f"{report.put} puts of own objects under {PREFIX}-{plan.run}-, removed with force, whatever their lease"
        )
        effects.append(
            f"existence checks and reads took leases{lease} and counted as hits, on own keys alone; the leases went with the objects"
        )
    if report.connected and plan.settings.segment_size:
        effects.append(f"the probe lent {plan.settings.segment_size} bytes to the pool until it closed")
    if report.unfinished is not None:
        effects.append(
            f"process {report.unfinished} of this probe still waits for its put; within {ORPHAN_GRACE_S:g} s it removes what is left behind, and ends"
        )
    moved = _moved(before, after)
    if moved:
        effects.append(f"counters of the master moved meanwhile, by this probe and by others: {', '.join(moved)}")
    effects += _changed(report)


def _gauges(sample: dict[str, int | float] | None) -> dict[str, int | float] | None:
    return {name: sample[name] for name in GAUGES} if sample is not None else None


def _moved(before: dict[str, int | float] | None, after: dict[str, int | float] | None) -> list[str]:
    """The operations that were asked meanwhile, heartbeats left out."""
    if before is None or after is None:
        return []
    old, new = master.operations(before), master.operations(after)
    grown = {name: requests - old.get(name, (0, 0))[0] for name, (requests, _) in new.items()}
    return [f"{name} +{by}" for name, by in grown.items() if by > 0 and name not in {"ping", "fetch_tasks"}]


def _changed(report: Report) -> list[str]:
    before, after = report.store["gauges_before"], report.store["gauges_after"]
    if before is None or after is None:
        return []
    why = (
        "what is left behind, or others' work"
        if report.left_behind
        else "others write to this store, or it forgot a client"
    )
    return [
        f"{name} went from {before[name]} to {after[name]} while the probe ran: {why}"
        for name in GAUGES
        if before[name] != after[name]
    ]
