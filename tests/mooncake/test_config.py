"""The store's configuration as SGLang would read it."""

import json
import sys
from pathlib import Path

import pytest

from hicachectl.exits import BadInputError, UnreachableError
from hicachectl.mooncake.config import NotConfiguredError, Source, Value, read


def test_extra_config_beats_file_and_environment(tmp_path: Path) -> None:
    """Where extra_config names a master, neither the file nor a variable gives a value, and both are said to be ignored."""
    environment = {
        "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH": str(tmp_path / "absent.json"),
        "MOONCAKE_MASTER": "c:3",
        "MOONCAKE_PROTOCOL": "tcp",
    }
    config = read(environment, '{"master_server_address": "a:1"}')
    assert config.source is Source.extra_config
    assert config.master_server_address == Value("a:1", "extra_config")
    assert config.protocol == Value("rdma", "default")
    assert {each.name for each in config.ignored} == set(environment)


def test_file_beats_environment(tmp_path: Path) -> None:
    """A file's values are taken whole: a variable does not fill what the file lacks."""
    path = tmp_path / "mooncake.json"
    path.write_text(json.dumps({"master_server_address": "b:2", "protocol": "tcp", "colour": "blue"}))
    config = read({"SGLANG_HICACHE_MOONCAKE_CONFIG_PATH": str(path), "MOONCAKE_GLOBAL_SEGMENT_SIZE": "1gb"})
    assert config.source is Source.file
    assert config.protocol == Value("tcp", f"file {path}")
    assert config.global_segment_size == Value(4 << 30, "default")
    assert {each.name for each in config.ignored} == {"MOONCAKE_GLOBAL_SEGMENT_SIZE", "colour"}


def test_extra_config_without_a_master_is_ignored_but_for_the_engines_own_settings() -> None:
    """extra_config that names no master still sets tag and threshold, and its store settings are said to be ignored."""
    config = read(
        {"MOONCAKE_MASTER": "c:3"}, '{"protocol": "tcp", "extra_backend_tag": "blue", "prefetch_threshold": 64}'
    )
    assert config.source is Source.environment
    assert config.extra_backend_tag == Value("blue", "extra_config")
    assert config.prefetch_threshold == Value(64, "extra_config")
    assert [each.name for each in config.ignored] == ["protocol"]


def test_a_variable_fills_the_protocol_since_0_5_23() -> None:
    """MOONCAKE_PROTOCOL counts beside extra_config from 0.5.23 on, and not before."""
    environment, extra = {"MOONCAKE_PROTOCOL": "tcp"}, '{"master_server_address": "a:1"}'
    assert read(environment, extra, "0.5.22").protocol == Value("rdma", "default")
    assert read(environment, extra, "0.5.23").protocol == Value("tcp", "environment MOONCAKE_PROTOCOL")


def test_a_variable_beats_the_configured_hostname_since_0_5_21() -> None:
    """MOONCAKE_LOCAL_HOSTNAME beats extra_config's local_hostname from 0.5.21 on, and the loser is said to be ignored."""
    environment, extra = (
        {"MOONCAKE_LOCAL_HOSTNAME": "here"},
        '{"master_server_address": "a:1", "local_hostname": "there"}',
    )
    older, newer = read(environment, extra, "0.5.20"), read(environment, extra, "0.5.21")
    assert (older.local_hostname.value, [each.name for each in older.ignored]) == ("there", ["MOONCAKE_LOCAL_HOSTNAME"])
    assert (newer.local_hostname.value, [each.name for each in newer.ignored]) == ("here", ["local_hostname"])


def test_an_unreadable_variable_falls_back_with_a_remark() -> None:
    """A flag or number that cannot be read gives the default, as SGLang does, and says so."""
    config = read({"MOONCAKE_MASTER": "c:3", "MOONCAKE_CHECK_SERVER": "perhaps", "MOONCAKE_MASTER_METRICS_PORT": "x"})
    assert (config.check_server.value, config.master_metrics_port.value) == (False, 9003)
    assert config.check_server.remark
    assert {each.name for each in config.ignored} == {"MOONCAKE_CHECK_SERVER", "MOONCAKE_MASTER_METRICS_PORT"}


def test_a_text_where_a_flag_belongs_is_remarked() -> None:
    """SGLang takes the text "false" of a file as true; the remark says so."""
    config = read({}, '{"master_server_address": "a:1", "check_server": "false"}')
    assert "as true" in config.check_server.remark


@pytest.mark.parametrize("size", ["512mb", "4.5gb", "gb", "", None, [1]])
def test_a_size_that_sglang_refuses_is_refused(size: object) -> None:
    """A segment size in another unit than bytes or whole gigabytes ends with the sentence that says so."""
    with pytest.raises(BadInputError, match="global_segment_size"):
        read({}, json.dumps({"master_server_address": "a:1", "global_segment_size": size}))


def test_nothing_configured_names_every_place_that_was_looked_at() -> None:
    """Without any source the error names the variables and the option to give."""
    with pytest.raises(NotConfiguredError, match=r"MOONCAKE_MASTER.*--master"):
        read({"MOONCAKE_PROTOCOL": "tcp"})


def test_broken_and_missing_files_are_told_apart(tmp_path: Path) -> None:
    """A missing file cannot be reached, broken JSON and a list are bad input, and so is a file without a master."""
    for name, content, error in [
        ("broken.json", "{", BadInputError),
        ("list.json", "[]", BadInputError),
        ("empty.json", "{}", BadInputError),
        ("absent.json", None, UnreachableError),
    ]:
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(error, match=name):
            read({"SGLANG_HICACHE_MOONCAKE_CONFIG_PATH": str(tmp_path / name)})


def test_extra_config_is_read_from_files(tmp_path: Path) -> None:
    """`@file` is read as JSON or TOML by its ending, and another ending is refused."""
    (tmp_path / "a.json").write_text('{"master_server_address": "a:1"}')
    (tmp_path / "a.toml").write_text('master_server_address = "a:1"')
    names = ["a.json", "a.toml"] if sys.version_info >= (3, 11) else ["a.json"]
    for name in names:
        assert read({}, f"@{tmp_path / name}").master_server_address.value == "a:1"
    (tmp_path / "a.ini").write_text("")
    with pytest.raises(BadInputError, match=r"\.ini"):
        read({}, f"@{tmp_path / 'a.ini'}")


def test_the_segment_is_split_over_ranks_by_release() -> None:
    """Each rank lends its share of the size: over tp ranks, since 0.5.19 over tp x pp ranks."""
    environment = {"MOONCAKE_MASTER": "c:3", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "8gb"}
    assert read(environment, sglang="0.5.18").segment_per_rank(2, 2) == 4 << 30
    assert read(environment, sglang="0.5.19").segment_per_rank(2, 2) == 2 << 30


def test_a_device_map_is_read_by_rank() -> None:
    """A device name that is a JSON map gives each rank its device; a rank that it lacks, or broken JSON, gives none and a remark."""
    config = read({"MOONCAKE_MASTER": "c:3", "MOONCAKE_DEVICE": '{"0": "mlx5_0"}'})
    assert config.device_for(0).value == "mlx5_0"
    assert (config.device_for(1).value, bool(config.device_for(1).remark)) == ("", True)
    assert read({"MOONCAKE_MASTER": "c:3", "MOONCAKE_DEVICE": "{"}).device_for(0).value == ""
    assert read({"MOONCAKE_MASTER": "c:3", "MOONCAKE_DEVICE": "mlx5_1"}).device_for(3).value == "mlx5_1"
