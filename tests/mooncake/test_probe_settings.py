"""From a configuration to a probe's settings."""

import json

import pytest

from hicachectl.exits import BadInputError, UnreachableError, UsageError
from hicachectl.mooncake.probe import settings

ENVIRONMENT = {
    "MOONCAKE_MASTER": "m:1",
    "MOONCAKE_PROTOCOL": "tcp",
    "MOONCAKE_LOCAL_HOSTNAME": "me",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "4gb",
}


def test_the_configured_segment_is_never_lent():
    """Whatever segment the configuration names, a probe lends none unless it is asked to."""
    config = settings.read(ENVIRONMENT, None, None)
    assert settings.client(config).segment_size == 0
    assert settings.client(config, segment_size=5).segment_size == 5


def test_the_configuration_is_taken_as_sglang_reads_it():
    """Master, host, protocol and device come from the winning source."""
    extra = json.dumps(
        {"master_server_address": "x:2", "protocol": "rdma", "device_name": "mlx5_0", "local_hostname": "h"}
    )
    found = settings.client(settings.read({}, None, extra))
    assert (found.master_server_address, found.protocol, found.device_name, found.local_hostname) == (
        "x:2",
        "rdma",
        "mlx5_0",
        "h",
    )


def test_what_the_user_gives_comes_first():
    """Master, protocol and device of the command line override the configuration, and an empty device is a value."""
    config = settings.read({**ENVIRONMENT, "MOONCAKE_DEVICE": "mlx5_0"}, "n:3", None)
    found = settings.client(config, "n:3", "rdma", "")
    assert (found.master_server_address, found.protocol, found.device_name, found.local_hostname) == (
        "n:3",
        "rdma",
        "",
        "me",
    )


def test_an_address_is_enough():
    """With a master on the command line, nothing else needs to name a store; without, it is said."""
    assert settings.client(settings.read({}, "n:3", None), "n:3").master_server_address == "n:3"
    with pytest.raises(UnreachableError, match="MOONCAKE_MASTER"):
        settings.read({}, None, None)


def test_an_empty_address_names_no_other_store():
    """An empty master on the command line, as of a variable that is not set, is not the configured one."""
    assert settings.client(settings.read(ENVIRONMENT, "", None), "").master_server_address == ""


@pytest.mark.parametrize("name", ["master_server_address", "local_hostname", "metadata_server", "protocol", "device_name"])
@pytest.mark.parametrize("value", [5, True, ["a"], {"a": "b"}])
def test_a_setting_that_is_no_text_is_refused(name, value):
    """What the client takes as text may be anything in JSON: a clear refusal, and no crash."""
    extra = json.dumps({"master_server_address": "x:2", name: value})
    with pytest.raises(BadInputError, match=f"{name}.*no text"):
        settings.client(settings.read({}, None, extra))


def test_a_store_known_by_its_client_server_alone_needs_a_master():
    """Where only a standalone client's address is configured, the user is asked for the master."""
    with pytest.raises(UsageError, match="--master"):
        settings.client(settings.read({"MOONCAKE_CLIENT": "c:4"}, None, None))


def test_the_admin_port_counts_only_where_somebody_set_it():
    """SGLang's default is no statement about this master; nor is a port that was configured for another master."""
    assert settings.admin_port(settings.read(ENVIRONMENT, None, None)) is None
    configured = {**ENVIRONMENT, "MOONCAKE_MASTER_METRICS_PORT": "19003"}
    assert settings.admin_port(settings.read(configured, None, None)) == 19003
    assert settings.admin_port(settings.read(configured, "m:1", None), "m:1") == 19003
    assert settings.admin_port(settings.read(configured, "n:3", None), "n:3") is None


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("64k", 65536), ("64KiB", 65536), ("4MB", 4 << 20), (" 1g ", 1 << 30)]
)
def test_sizes(text, size):
    """A size is bytes, or has a unit of 1024."""
    assert settings.size_of(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "4.5k", "4tb", "k"])
def test_what_is_no_size(text):
    """Nothing, less, and other units are refused."""
    with pytest.raises(UsageError):
        settings.size_of(text)


@pytest.mark.parametrize(
    ("given", "url"), [("h:1", "http://h:1"), ("http://h:1/", "http://h:1"), ("https://h", "https://h")]
)
def test_the_admin_url_may_lack_its_scheme(given, url):
    """Host and port are enough."""
    assert settings.admin_url(given) == url


def test_an_admin_url_without_host_is_bad_input():
    """A URL without a host is none."""
    with pytest.raises(BadInputError):
        settings.admin_url("http://")
