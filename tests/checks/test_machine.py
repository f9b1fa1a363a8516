"""Readings of a machine, from files in the kernel's form."""

from hicachectl.checks import machine


def test_devices_memory_and_huge_pages(tmp_path):
    """Devices with their ports' state, available memory and free huge pages are read from the kernel's files."""
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, text in {"state": "4: ACTIVE\n", "link_layer": "InfiniBand\n", "rate": "400 Gb/sec (4X NDR)\n"}.items():
        (port / name).write_text(text)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal:  100 kB\nMemAvailable:   64 kB\nHugePages_Free:        3\nHugepagesize:       2048 kB\n"
    )
    found = machine.look(tmp_path)
    assert found.ports == (machine.Port("mlx5_0", "1", "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)"),)
    assert found.ports[0].active
    assert found.devices == ("mlx5_0",)
    assert (found.memory_available, found.huge_pages_free, found.huge_page_bytes) == (65536, 3, 2 << 20)


def test_a_machine_without_any_of_it(tmp_path):
    """Where the kernel shows nothing, nothing is there, and nothing fails."""
    found = machine.look(tmp_path)
    assert (found.ports, found.memory_available, found.huge_pages_free) == ((), 0, 0)


def test_this_machine_can_be_read():
    """The real files are read as well."""
    assert machine.look().memory_available > 0
