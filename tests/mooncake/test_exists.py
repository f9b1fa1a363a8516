"""Asking a live store for keys: how the question is cut, and which way is taken."""

import json

import answering
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mooncake_answers import METRICS_0_3_11

from hicachectl.exits import UnreachableError, UsageError
from hicachectl.mooncake import exists
from hicachectl.mooncake.client import ClientSettings
from hicachectl.mooncake.exists import Place, Way

OLD_HEALTH, NEW_HEALTH = b'{"service_ready":true}', b'{"service_ready":true,"leader_address":""}'
NOWHERE = ClientSettings("127.0.0.1:1")


def place(url: str, settings: ClientSettings = NOWHERE) -> Place:
    """A store whose admin port is at URL and whose RPC port is dead."""
    return Place(url, settings, timeout=2.0)


@given(st.lists(st.text(min_size=1, max_size=400), max_size=200))
def test_a_question_is_cut_into_pieces_that_fit_a_url(keys: list[str]) -> None:
    """No key is lost or moved, and no piece is too long, unless one key alone is."""
    pieces = list(exists._batches(keys))
    assert [key for piece in pieces for key in piece] == keys
    assert all(3 * len(",".join(piece).encode()) <= exists.QUERY_BYTES for piece in pieces if len(piece) > 1)


@pytest.mark.parametrize(("health", "way"), [(OLD_HEALTH, Way.listing), (NEW_HEALTH, Way.query)])
def test_the_way_without_a_trace_is_chosen_by_release(health: bytes, way: Way) -> None:
    """An older master is listed, a newer one queried, and neither has a side effect."""
    rows = {"a": {"ok": True, "values": []}, "b": {"ok": False, "error": "OBJECT_NOT_FOUND"}}
    answers = {
        "/health": (200, health),
        "/metrics": (200, METRICS_0_3_11),
        "/get_all_keys": (200, b"a\nc\n"),
        "/batch_query_keys": (200, json.dumps({"success": True, "data": rows}).encode()),
    }
    with answering.server(answers) as url:
        found = exists.exists(["a", "b"], place(url))
    assert (found.codes, found.effect.way, found.effect.side_effects) == ([1, 0], way, ())


def test_a_key_with_a_comma_is_not_queried() -> None:
    """The query splits at commas, so a newer master is listed where a key has one."""
    answers = {"/health": (200, NEW_HEALTH), "/metrics": (200, METRICS_0_3_11), "/get_all_keys": (200, b"a,b\n")}
    with answering.server(answers) as url:
        assert exists.exists(["a,b"], place(url)).effect.way is Way.listing


@pytest.mark.parametrize(
    ("answers", "settings", "said"),
    [
        ({"/health": (200, OLD_HEALTH), "/metrics": (200, b"master_key_count 9000000\n")}, NOWHERE, "nobody listens"),
        ({"/health": (200, NEW_HEALTH)}, ClientSettings("127.0.0.1:1", tenant_id="t"), "nobody listens"),
        ({"/health": (503, b'{"service_ready":false}')}, NOWHERE, "does not serve"),
        ({}, NOWHERE, "HTTP 404"),
    ],
)
def test_a_client_is_the_last_resort(answers: dict, settings: ClientSettings, said: str) -> None:
    """Too many keys, another tenant, a standby and what is no master send the question to a client; its failure names both."""
    with answering.server(answers) as url, pytest.raises(UnreachableError, match=said):
        exists.exists(["a"], place(url, settings))


def test_the_older_query_is_refused() -> None:
    """Before 0.3.12 the query takes leases, so it is not made even when asked for."""
    with answering.server({"/health": (200, OLD_HEALTH)}) as url, pytest.raises(UsageError, match="listing or client"):
        exists.exists(["a"], place(url), Way.query)


def test_a_store_that_is_too_large_is_not_listed() -> None:
    """The list of all keys is not asked of a store that has too many, or that does not answer."""
    with answering.server({"/metrics": (200, b"master_key_count 9000000\n")}) as url:
        assert exists.listed(place(url)) is None
    assert exists.listed(place("http://127.0.0.1:1")) is None
