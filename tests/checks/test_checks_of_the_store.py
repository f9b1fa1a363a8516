"""The checks of what lies between the engine and the store, on scenes in which their matter is right or wrong."""

import json
from dataclasses import replace

import pytest
from scenes import ENVIRONMENT, GIB, GOOD_VISIT, MLX5, SAMPLE, levels, scene, worst

from hicachectl.checks import (
    groups,
    head_split,
    huge_pages,
    master,
    memlock,
    plugin,
    prefetch,
    rdma,
    segment,
    setup_arguments,
    standalone,
    transfer_engine,
)
from hicachectl.checks.result import Level
from hicachectl.mooncake.master import DIALECTS, Health

RDMA = {**ENVIRONMENT, "MOONCAKE_PROTOCOL": "rdma"}


def extra(**values) -> str:
    """An extra configuration that names the store."""
    return json.dumps(
        {"master_server_address": "127.0.0.1:50051", "protocol": "tcp", "local_hostname": "127.0.0.1", **values}
    )


def run(check, *words, **changes):
    """The results of one check."""
    return list(check.look(scene(*words, **changes)))


def test_transfer_engine_default_device_is_never_shared():
    """The default device, an empty text, never equals the engine's None: a second engine, which is told with both values."""
    [result] = run(transfer_engine, environment=RDMA)
    assert (result.level, result.code) == (Level.warning, "HC-A05")
    assert "device_name is '', the engine's device is None" in result.title
    assert result.facts["device name"] == {"value": "", "needed": None, "holds": False}


@pytest.mark.parametrize(
    ("words", "environment", "level"),
    [
        (["--mooncake-ib-device", "mlx5_0"], {**RDMA, "MOONCAKE_DEVICE": "mlx5_0"}, "ok"),
        (["--disaggregation-ib-device", '{"0": "mlx5_0"}'], {**RDMA, "MOONCAKE_DEVICE": "mlx5_0"}, "ok"),
        (["--mooncake-ib-device", "mlx5_1"], {**RDMA, "MOONCAKE_DEVICE": "mlx5_0"}, "warning"),
        (
            ["--mooncake-ib-device", "mlx5_0"],
            {**RDMA, "MOONCAKE_DEVICE": "mlx5_0", "MOONCAKE_TE_META_DATA_SERVER": "http://m/metadata"},
            "warning",
        ),
        (
            ["--mooncake-ib-device", "mlx5_0"],
            {**RDMA, "MOONCAKE_DEVICE": "mlx5_0", "SGLANG_HICACHE_MOONCAKE_REUSE_TE": "false"},
            "info",
        ),
        ([], {**RDMA, "MC_FORCE_TCP": "1"}, "ok"),
        ([], ENVIRONMENT, "info"),
    ],
)
def test_transfer_engine_conditions(words, environment, level):
    """All four conditions are needed; without an engine to share, or over tcp, a second one is only information."""
    [result] = run(transfer_engine, *words, environment=environment)
    assert result.level.value == level


@pytest.mark.parametrize(
    ("asked", "supported", "expected"),
    [(True, False, ("info", "HC-A09")), (True, True, ("ok", "")), (False, False, ("ok", ""))],
)
def test_groups(asked, supported, expected):
    """Group semantics that are asked for and not supported are information, with the code."""
    [result] = run(groups, extra=extra(enable_group_semantics=asked), python={"group_ids": supported})
    assert (result.level.value, result.code) == expected


def test_setup_arguments_that_this_client_does_not_know():
    """What setup does not know is dropped with a warning; a tenant ends the engine."""
    offload = {**ENVIRONMENT, "MOONCAKE_ENABLE_SSD_OFFLOAD": "1"}
    assert levels(run(setup_arguments, environment=offload)) == []
    assert levels(run(setup_arguments, environment=offload, python={"setup_signature": "setup(x)"})) == [
        ("warning", "HC-A04")
    ]
    tenant = {**ENVIRONMENT, "MOONCAKE_TENANT_ID": "blue"}
    assert levels(run(setup_arguments, environment=tenant, sglang="0.5.14")) == []
    assert levels(run(setup_arguments, environment=tenant, sglang="0.5.23")) == [("error", "HC-A04")]


@pytest.mark.parametrize(
    ("words", "sglang", "expected"),
    [
        ([], "0.5.14", ("ok", "")),
        (["--hicache-ratio", "1.0"], "0.5.14", ("error", "HC-A19")),
        (["--hicache-ratio", "1.0", "--page-size", "64"], "0.5.14", ("warning", "")),
        (["--hicache-ratio", "0.5"], "0.5.14", ("error", "")),
        (["--hicache-ratio", "1.0", "--max-total-tokens", "4096"], "0.5.14", ("error", "HC-A19")),
        (["--hicache-ratio", "2", "--max-total-tokens", "4096", "--page-size", "16"], "0.5.14", ("ok", "")),
        (["--hicache-ratio", "1.0"], "0.5.23", ("ok", "")),
        (["--hicache-size", "30"], "0.5.14", ("info", "")),
    ],
)
def test_prefetch(words, sglang, expected):
    """A limit of zero is an error, a small one a warning; 0.5.23 takes half of the host pool, whatever the device pool."""
    [result] = run(prefetch, *words, sglang=sglang)
    assert (result.level.value, result.code) == expected


def test_prefetch_limit_is_that_of_the_engine():
    """Device 4096, ratio 2, page 16: the host pool is rounded up a page, and 0.8 of the difference is the limit."""
    [result] = run(prefetch, "--hicache-ratio", "2", "--max-total-tokens", "4096", "--page-size", "16")
    assert result.facts["limit"] == int(0.8 * ((8192 // 16 + 1) * 16 - 4096))


def test_segment_is_divided_among_ranks():
    """Each rank lends its share: of tp ranks in 0.5.14, of tp x pp in 0.5.23."""
    words = ["--tp", "2", "--pp-size", "2"]
    assert run(segment, *words)[0].facts["per_rank"] == 2 * GIB
    assert run(segment, *words, sglang="0.5.23")[0].facts["per_rank"] == GIB
    assert levels(run(segment, *words)) == [("info", "HC-A10")]


def test_segment_larger_than_memory():
    """More than the machine has is an error."""
    [result] = run(segment, machine={"memory_available": GIB})
    assert result.level is Level.error


def test_segment_of_none():
    """Lending nothing is information."""
    [result] = run(segment, environment={**ENVIRONMENT, "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0"})
    assert result.level is Level.info


def test_segment_that_nobody_can_reach():
    """Memory that is lent as localhost to a master elsewhere cannot be reached by others."""
    found = run(segment, environment={"MOONCAKE_MASTER": "192.0.2.1:50051"})
    assert "look for the objects on themselves" in worst(found).title
    assert (
        worst(
            run(segment, environment={"MOONCAKE_MASTER": "192.0.2.1:50051", "MOONCAKE_LOCAL_HOSTNAME": "10.0.0.5"})
        ).level
        is Level.ok
    )


@pytest.mark.parametrize(
    ("environment", "ports", "expected"),
    [
        (ENVIRONMENT, (), ("ok", "")),
        (RDMA, (), ("warning", "HC-A101")),
        (RDMA, (MLX5,), ("ok", "")),
        ({**RDMA, "MOONCAKE_DEVICE": "mlx5_7"}, (MLX5,), ("error", "HC-A03")),
        ({**RDMA, "MOONCAKE_DEVICE": "mlx5_7"}, (), ("error", "HC-A03")),
        (RDMA, (replace(MLX5, state="1: DOWN"),), ("error", "")),
        (RDMA, (MLX5, replace(MLX5, device="mlx5_1", state="1: DOWN")), ("warning", "")),
        ({**RDMA, "MOONCAKE_DEVICE": "mlx5_0"}, (MLX5, replace(MLX5, device="mlx5_1", state="1: DOWN")), ("ok", "")),
        ({**RDMA, "MOONCAKE_DEVICE": '{"0": "mlx5_0"}'}, (MLX5,), ("info", "")),
    ],
)
def test_rdma(environment, ports, expected):
    """No device falls back to tcp in silence, an absent one ends the set-up, a link that is down is told."""
    result = worst(run(rdma, environment=environment, machine={"ports": ports}))
    assert (result.level.value, result.code) == expected


def test_rdma_map_that_lacks_a_rank():
    """A map by rank without this engine's ranks is a warning."""
    found = run(
        rdma, "--tp", "2", environment={**RDMA, "MOONCAKE_DEVICE": '{"0": "mlx5_0"}'}, machine={"ports": (MLX5,)}
    )
    assert ("warning", "HC-A08") in levels(found)


@pytest.mark.parametrize(
    ("environment", "ports", "limit", "level"),
    [
        (RDMA, (MLX5,), 65536, "error"),
        (RDMA, (MLX5,), 64 * GIB, "ok"),
        (RDMA, (MLX5,), None, "ok"),
        (RDMA, (), 65536, "ok"),
        (ENVIRONMENT, (MLX5,), 65536, "ok"),
    ],
)
def test_memlock(environment, ports, limit, level):
    """Only RDMA locks memory, and then the limit must hold what a rank registers."""
    [result] = run(memlock, environment=environment, machine={"ports": ports, "memlock": limit})
    assert result.level.value == level


def test_memlock_counts_the_host_pool_where_its_size_is_given():
    """A host pool of a given size is registered, too."""
    [without] = run(memlock)
    [with_pool] = run(memlock, "--hicache-size", "30")
    assert with_pool.facts["to_register_per_rank"] - without.facts["to_register_per_rank"] == 30 * 10**9


@pytest.mark.parametrize(("asked", "free", "level"), [("", 0, "info"), ("1", 0, "error"), ("1", 4096, "ok")])
def test_huge_pages(asked, free, level):
    """A segment that must come from huge pages needs them free."""
    [result] = run(
        huge_pages, environment={**ENVIRONMENT, "MC_STORE_USE_HUGEPAGE": asked}, machine={"huge_pages_free": free}
    )
    assert result.level.value == level


@pytest.mark.parametrize(
    ("words", "common", "expected"),
    [
        ([], None, []),
        (["--hicache-mem-layout", "page_head"], 4, [("ok", "")]),
        ([], 4, [("warning", "HC-A18")]),
        (["--tp", "3"], 4, [("error", "")]),
    ],
)
def test_head_split(words, common, expected):
    """A common tensor-parallel size has an effect in one layout alone."""
    given = extra() if common is None else extra(tp_lcm_size=common)
    assert levels(run(head_split, *words, extra=given)) == expected


def test_standalone():
    """A client process that is asked for must be named and listen."""
    on = {**ENVIRONMENT, "MOONCAKE_STANDALONE_STORAGE": "1"}
    assert levels(run(standalone)) == []
    assert levels(run(standalone, environment=on)) == [("error", "HC-A06")]
    assert levels(run(standalone, environment={**on, "MOONCAKE_CLIENT": "127.0.0.1:1"})) == [("error", "HC-A06")]
    assert levels(run(standalone, environment={**ENVIRONMENT, "MOONCAKE_CLIENT": "127.0.0.1:1"})) == [("info", "")]


@pytest.mark.parametrize(
    ("changes", "expected", "said"),
    [
        ({}, [("ok", ""), ("ok", "")], "answers this client"),
        ({"problem": "nobody listens"}, [("error", "HC-A03")], "nobody listens"),
        (
            {"call": -900},
            [("error", "HC-A03"), ("ok", "")],
            "of another release than this client (0.3.11.post1): setup returns 0, and every call -900",
        ),
        ({"setup": -900, "call": None, "other_release": True}, [("error", "HC-A03"), ("ok", "")], "of another release"),
        ({"setup": -1, "call": None}, [("error", "HC-A03"), ("ok", "")], "code -1"),
        ({"call": -1011}, [("error", "HC-A03"), ("ok", "")], "-1011"),
        ({"setup": None, "call": None}, [("info", ""), ("ok", "")], "not tried"),
        (
            {"health": Health(False, "standby", "waiting", DIALECTS[True])},
            [("ok", ""), ("error", "HC-A03")],
            "does not serve",
        ),
        ({"sample": None, "admin_problem": "no answer."}, [("ok", ""), ("warning", "")], "admin port does not answer"),
    ],
)
def test_master(changes, expected, said):
    """No connection, a standby and another release are errors, each with its story; an admin port that is silent is a warning."""
    found = run(master, visit=replace(GOOD_VISIT, **changes))
    assert levels(found) == expected
    assert any(said in result.title for result in found)


def test_master_without_memory():
    """A store in which nobody lends memory, this engine neither, would refuse every put."""
    empty = replace(GOOD_VISIT, sample={**SAMPLE, "segments": 0, "capacity_bytes": 0})
    assert levels(run(master, visit=empty)) == [("ok", ""), ("ok", "")]
    lends_nothing = {**ENVIRONMENT, "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0"}
    assert levels(run(master, visit=empty, environment=lends_nothing)) == [("ok", ""), ("warning", "")]
    waits = {**ENVIRONMENT, "MOONCAKE_CHECK_SERVER": "1"}
    assert levels(run(master, visit=empty, environment=waits)) == [("ok", ""), ("error", "HC-A07")]


@pytest.mark.parametrize(
    ("plugins", "allowed", "level"),
    [
        (("hicachectl",), "", "ok"),
        ((), "", "info"),
        (("hicachectl",), "other", "info"),
        (("hicachectl",), "other, hicachectl", "ok"),
    ],
)
def test_plugin(plugins, allowed, level):
    """The tracers are seen where they are installed and not kept out."""
    [result] = run(plugin, environment={**ENVIRONMENT, "SGLANG_PLUGINS": allowed}, python={"plugins": plugins})
    assert result.level.value == level
