"""A bad answer is told by its situation."""

import pytest

from hicachectl.mooncake.probe.rows import Expect, Row
from hicachectl.mooncake.probe.stories import Facts, told

PUT, GET, SETUP, EXIST = (
    Row("put", "put"),
    Row("get_into", "get_into", Expect.size),
    Row("setup", "setup"),
    Row("exists", "is_exist"),
)


def facts(row: Row, code: int | None, **known) -> Facts:
    """A bad answer of a client of 0.3.11.post1."""
    return Facts(row=row, code=code, timeout=10.0, release="0.3.11.post1", log=known.pop("log", ""), **known)


CASES = [
    (
        facts(EXIST, -900, log="RPC call failed: invalid rpc arg", service_ready=True),
        "another release than this client (0.3.11.post1)",
        "must be 0.3.11.post1",
    ),
    (facts(EXIST, -900, service_ready=True), "its admin port says that it serves", "release"),
    (facts(EXIST, -900), "does not answer", "Start the master again"),
    (facts(PUT, -200, capacity=0, used=0), "nobody has mounted a segment", "--segment-size"),
    (facts(PUT, -200, capacity=100, used=97), "97% of 100 bytes in use", "leases"),
    (facts(PUT, -200), "no segment has room", "leases"),
    (facts(GET, -800, endpoint="10.0.0.7:15121"), "do not come from the owner at 10.0.0.7:15121", "client_ttl"),
    (
        facts(PUT, -800, segments=("10.0.0.7:1", "10.0.0.8:1")),
        "do not reach one of 10.0.0.7:1, 10.0.0.8:1",
        "local_hostname",
    ),
    (facts(SETUP, None), "No connection within 10 s", "RPC port"),
    (facts(SETUP, None, is_admin_port=True), "admin port", "--rpc_port"),
    (facts(SETUP, None, log="unsupported_protocol protocol=bogus"), "does not know this protocol", "tcp or rdma"),
    (facts(SETUP, -1, log="RPC call failed: End of file"), "no Mooncake master", "RPC port"),
    (facts(SETUP, -1), "although the master can be reached", "--device"),
    (
        facts(GET, None, endpoint="10.0.0.7:15121", service_ready=True),
        "the owner at 10.0.0.7:15121 does not move bytes",
        "frozen",
    ),
    (facts(EXIST, None, service_ready=True), "the master does not answer", "/health"),
    (facts(GET, None, service_ready=False), "the master does not answer", "/health"),
]


@pytest.mark.parametrize(
    ("situation", "meaning", "following"),
    CASES,
    ids=[f"{case[0].row.step}-{case[0].code}-{index}" for index, case in enumerate(CASES)],
)
def test_the_situation_decides_the_story(situation, meaning, following):
    """Code, call, log and the master's own view choose the meaning and the next step."""
    said, then = told(situation)
    assert meaning in said
    assert following in then


@pytest.mark.parametrize("code", [-704, -600, -101])
def test_other_codes_are_left_to_the_table(code):
    """A code that no situation changes has no story of its own."""
    assert told(facts(PUT, code)) == ("", "")
