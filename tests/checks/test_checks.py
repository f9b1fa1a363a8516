"""Each check on scenes in which its matter is right, wrong, or none of its business."""

import json
from dataclasses import replace

import pytest
from scenes import ENVIRONMENT, levels, scene, worst

from hicachectl.checks import (
    arguments,
    backend,
    command_line,
    configuration,
    layout,
    libraries,
    listed,
    versions,
)
from hicachectl.checks.inside import Parsed
from hicachectl.checks.result import Level

RDMA = {**ENVIRONMENT, "MOONCAKE_PROTOCOL": "rdma"}


def extra(**values) -> str:
    """An extra configuration that names the store."""
    return json.dumps(
        {"master_server_address": "127.0.0.1:50051", "protocol": "tcp", "local_hostname": "127.0.0.1", **values}
    )


def run(check, *words, **changes):
    """The results of one check."""
    return list(check.look(scene(*words, **changes)))


def test_a_healthy_scene_has_neither_errors_nor_warnings():
    """Where all is well, no check finds more than information."""
    found = listed.run(scene())
    assert {result.level for _, result in found} <= {Level.ok, Level.info}
    assert {"versions", "backend", "configuration", "master"} <= {name for name, _ in found}


def test_every_check_survives_a_scene_that_knows_nothing():
    """Without an engine, a configuration, a client or a store, each check still ends."""
    empty = replace(
        scene(engine=False),
        config=None,
        config_problem="nothing names a store",
        unconfigured=True,
        visit=None,
        inside=replace(scene().inside, packages={}, mooncake_error="No module named 'mooncake'", setup_signature=""),
    )
    found = [result for _, result in listed.run(empty)]
    assert ("error", "HC-A03") in levels(found)


def test_names_of_checks_are_unique():
    """A check is known by its name."""
    names = [check.name for check in listed.CHECKS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("python", "level"),
    [
        ({}, "ok"),
        ({"packages": {"sglang": "0.5.20", "mooncake-transfer-engine": "0.3.12"}}, "info"),
        ({"packages": {"mooncake-transfer-engine": "0.3.11.post1"}}, "error"),
        ({"packages": {"sglang": "0.5.14"}, "mooncake_error": "No module named 'mooncake'"}, "error"),
    ],
)
def test_versions(python, level):
    """A tested pair is right, another one is information, and what is missing is an error."""
    assert worst(run(versions, python=python)).level.value == level


def test_an_engine_of_another_backend_needs_no_client():
    """Without the Mooncake backend, a missing client is no matter."""
    other = scene(
        "--hicache-storage-backend", "file", python={"packages": {"sglang": "0.5.14"}, "mooncake_error": "none"}
    )
    assert list(versions.look(other)) == []
    assert list(libraries.look(other)) == []


def test_libraries_name_the_package():
    """Every shared object that is missing is told, with the package that brings it."""
    [result] = run(
        libraries,
        python={
            "missing_libraries": ("libnuma.so.1",),
            "mooncake_error": "libibverbs.so.1: cannot open shared object file",
        },
    )
    assert result.level is Level.error
    assert "libnuma.so.1, libibverbs.so.1" in result.title
    assert "libnuma1" in result.next
    assert "libibverbs1" in result.next


@pytest.mark.parametrize(
    ("parsed", "expected"),
    [
        (None, []),
        (Parsed(values={}), [("ok", "")]),
        (Parsed(refused="error: argument --hicache-storage-backend: invalid choice: 'moncake'"), [("error", "HC-A01")]),
        (Parsed(refused="error: unrecognized arguments: --hicache-sise"), [("error", "")]),
        (Parsed(unknown="ImportError: no"), [("info", "")]),
    ],
)
def test_command_line(parsed, expected):
    """SGLang's refusal is an error, a misspelt backend with its code; an import that fails is not the user's fault."""
    assert levels(run(command_line, parsed=parsed)) == expected


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        ([], {}, ("ok", "")),
        (["--hicache-storage-backend", "moncake"], {}, ("error", "HC-A01")),
        (["--hicache-storage-backend", "file"], {}, ("info", "")),
        (["--hicache-storage-backend", "tensorcast"], {}, ("error", "HC-A01")),
        (["--disable-radix-cache"], {}, ("error", "")),
        ([], {"SGLANG_EXPERIMENTAL_CPP_RADIX_TREE": "1"}, ("warning", "HC-A16")),
        ([], {"SGLANG_EXPERIMENTAL_CPP_RADIX_TREE": "0"}, ("ok", "")),
    ],
)
def test_backend(words, environment, expected):
    """A backend that is unknown, unused or impossible is told."""
    result = worst(run(backend, *words, environment={**ENVIRONMENT, **environment}))
    assert (result.level.value, result.code) == expected


def test_a_backend_without_the_hierarchical_cache_is_an_error():
    """A backend that is named while the cache is off would never be created."""
    given = scene()
    off = replace(given, arguments=arguments.parse(["--hicache-storage-backend", "mooncake"]))
    assert worst(list(backend.look(off))).level is Level.error
    assert worst(list(backend.look(replace(given, arguments=arguments.NOTHING_GIVEN)))).level is Level.warning


def test_configuration_that_is_not_used_is_a_warning_where_it_differs():
    """A variable that extra_config overrides is a warning where its value differs, information where it is the same."""
    found = run(
        configuration,
        extra=extra(),
        environment={"MOONCAKE_MASTER": "127.0.0.1:50051", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "8gb"},
    )
    assert sorted(levels(found)) == [("info", ""), ("ok", ""), ("warning", "HC-A02")]
    assert "MOONCAKE_GLOBAL_SEGMENT_SIZE = '8gb'" in worst(found).title


def test_configuration_that_sglang_refuses():
    """A refusal is an error with its reason, and so is a missing configuration."""
    refused = replace(scene(), config=None, config_problem="global_segment_size 'x' is refused")
    missing = replace(refused, unconfigured=True)
    assert levels(list(configuration.look(refused))) == [("error", "HC-A03")]
    assert "missing" in next(configuration.look(missing)).title


def test_configuration_with_a_remark():
    """A value that SGLang reads otherwise than it looks is a warning."""
    found = run(configuration, environment={**ENVIRONMENT, "MOONCAKE_MASTER_METRICS_PORT": "many"})
    assert worst(found).level is Level.warning
    assert "MOONCAKE_MASTER_METRICS_PORT" in worst(found).title


@pytest.mark.parametrize(
    ("words", "sglang", "used", "expected"),
    [
        ([], "0.5.14", ("page_first", "kernel"), []),
        (["--hicache-mem-layout", "layer_first"], "0.5.14", ("page_first", "kernel"), ["HC-A15"]),
        (
            ["--hicache-mem-layout", "layer_first", "--hicache-io-backend", "direct"],
            "0.5.14",
            ("page_first_direct", "direct"),
            ["HC-A15"],
        ),
        (["--hicache-mem-layout", "page_first_direct"], "0.5.14", ("page_first_direct", "direct"), [""]),
        (["--hicache-io-backend", "direct"], "0.5.14", ("page_first_direct", "direct"), [""]),
        (
            ["--hicache-mem-layout", "layer_first", "--hicache-io-backend", "kernel_ascend"],
            "0.5.14",
            ("layer_first", "kernel_ascend"),
            [],
        ),
        (
            ["--hicache-mem-layout", "layer_first", "--hicache-storage-backend", "file"],
            "0.5.14",
            ("layer_first", "kernel"),
            [],
        ),
        (
            ["--hicache-io-backend", "direct", "--enable-unified-memory"],
            "0.5.14",
            ("page_first_direct", "direct"),
            [""],
        ),
        (["--hicache-io-backend", "direct", "--enable-unified-memory"], "0.5.23", ("page_first", "kernel"), ["", ""]),
    ],
)
def test_layout(words, sglang, used, expected):
    """The layout and I/O backend that SGLang will use are those of its rules, and each change is a warning."""
    given = scene(*words, sglang=sglang)
    resolved = layout.resolved(given.arguments, sglang)
    assert resolved[:2] == used
    assert [result.code for result in layout.look(given) if result.level is Level.warning] == expected
