"""RDMA devices: which there are, whether their links are up, and whether those that are asked for exist."""

from collections.abc import Iterator

from hicachectl.checks.result import Result, error, info, ok, warning
from hicachectl.checks.scene import Scene
from hicachectl.mooncake.config import StoreConfig


def look(scene: Scene) -> Iterator[Result]:
    """Without any device, rdma falls back to tcp in silence; a device that is named and absent ends the set-up."""
    config, machine = scene.config, scene.machine
    if config is None:
        return
    ports = {
        f"{port.device}/{port.port}": f"{port.state} {port.link_layer} {port.rate}".strip() for port in machine.ports
    }
    yield from _by_rank(scene, config)
    if config.protocol.value != "rdma":
        yield ok(
            f"Protocol {config.protocol.value}: no RDMA device is needed.", origin=config.protocol.origin, devices=ports
        )
        return
    asked = [name.strip() for name in config.device_for(0).value.split(",") if name.strip()]
    absent = [name for name in asked if name not in machine.devices]
    if absent:
        yield error(
            f"The RDMA device {', '.join(absent)} is asked for and not there: setup would return -1.",
            "HC-A03",
            "Name a device of this host, or none.",
            devices=ports,
        )
    elif not machine.ports:
        yield warning(
            "Protocol rdma is asked for, and no RDMA device is visible on this host: the client falls back to tcp without a word.",
            "HC-A101",
            "Give the container the devices (/dev/infiniband), or set MOONCAKE_PROTOCOL=tcp.",
            origin=config.protocol.origin,
        )
    else:
        used = [port for port in machine.ports if not asked or port.device in asked]
        down = sorted({f"{port.device}/{port.port} ({port.state})" for port in used if not port.active})
        if len(down) == len(used):
            yield error(
                f"No RDMA link is up: {', '.join(down)}.",
                "",
                "Cable, switch, subnet manager; `ibv_devinfo` shows the ports.",
                devices=ports,
            )
        elif down:
            yield warning(
                f"RDMA links are down: {', '.join(down)}.", "", "`ibv_devinfo` shows the ports.", devices=ports
            )
        else:
            yield ok("RDMA devices are there and their links are up.", devices=ports)


def _by_rank(scene: Scene, config: StoreConfig) -> Iterator[Result]:
    """A device name may be a map by rank; ranks that it lacks get none, without a word."""
    remarks = dict.fromkeys(
        found.remark for rank in range(scene.arguments["tp_size"]) if (found := config.device_for(rank)).remark
    )
    for remark in remarks:
        yield warning(
            f"device_name: {remark}.",
            "HC-A08",
            "Name a device for every tensor-parallel rank.",
            device_name=config.device_name.value,
        )
    if not remarks and config.device_name.value.strip().startswith("{"):
        yield info("device_name is a map by rank, with a device for each.", ranks=scene.arguments["tp_size"])
