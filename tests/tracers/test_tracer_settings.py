"""The environment, read in one place."""

from pathlib import Path

import pytest
from desk import patient
from hypothesis import given
from hypothesis import strategies as st

from tracers import settings


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({}, None),
        ({"HICACHECTL_TRACE": ""}, None),
        ({"HICACHECTL_TRACE": "/tmp/run"}, Path("/tmp/run")),
        ({"HICACHECTL_TRACE": "/tmp/run", "HICACHECTL_OFF": "1"}, None),
        ({"HICACHECTL_TRACE": "/tmp/run", "HICACHECTL_OFF": "0"}, Path("/tmp/run")),
        ({"HICACHECTL_OFF": "1"}, None),
    ],
)
def test_the_switch(env: dict[str, str], folder: Path | None) -> None:
    """A folder switches the tracers on, and HICACHECTL_OFF=1 keeps them out whatever else is set."""
    assert settings.read(env).folder == folder


@patient
@given(st.text())
def test_numbers_that_cannot_be_read_are_the_defaults(text: str) -> None:
    """Whatever stands in a variable, settings come out that the tracers can work with."""
    found = settings.read(dict.fromkeys(("HICACHECTL_QUEUE", "HICACHECTL_DETAIL", "HICACHECTL_PART_BYTES", "HICACHECTL_PARTS"), text))
    assert min(found.queue, found.detail, found.part_bytes, found.parts) >= 1


def test_numbers_are_taken() -> None:
    """Each bound has a variable of its own."""
    found = settings.read({"HICACHECTL_QUEUE": "5", "HICACHECTL_DETAIL": "6", "HICACHECTL_PART_BYTES": "7", "HICACHECTL_PARTS": "8", "OTEL_SERVICE_NAME": "s"})
    assert (found.queue, found.detail, found.part_bytes, found.parts, found.service) == (5, 6, 7, 8, "s")


def test_variables_of_the_user_are_told_from_those_of_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the lab set does not count as set by the user, unless its value was changed."""
    for name in settings.MOONCAKE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MOONCAKE_MASTER", "a:1")
    monkeypatch.setenv("MOONCAKE_PROTOCOL", "rdma")
    monkeypatch.setenv("HICACHECTL_LAB_PROVIDES", "MOONCAKE_MASTER=a:1\nMOONCAKE_PROTOCOL=tcp")
    assert settings.user_set() == {"MOONCAKE_PROTOCOL": "rdma"}
