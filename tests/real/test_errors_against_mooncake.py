"""The table of Mooncake's numbers against the names that the installed wheel itself gives them."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

from hicachectl.mooncake import errors
from hicachectl.mooncake.errors import Layer

pytestmark = pytest.mark.real

# The wheel exports the functions that turn a code into its name for logs; they are asked in a child, since they log.
_ASK = """
import ctypes, json, mooncake.store
wheel = ctypes.CDLL(mooncake.store.__file__)
of_store = wheel._ZN8mooncake8toStringB5cxx11ENS_9ErrorCodeE
of_store.restype, of_store.argtypes = ctypes.c_void_p, [ctypes.c_int32]
class View(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("start", ctypes.c_void_p)]
of_engine = wheel._ZN8mooncake6Status12CodeToStringENS0_4CodeE
of_engine.restype, of_engine.argtypes = View, [ctypes.c_uint16]
def store_name(number):
    start, size = (ctypes.c_size_t * 2).from_address(of_store(number))
    return ctypes.string_at(start, size).decode()
def engine_name(number):
    view = of_engine(number)
    return ctypes.string_at(view.start, view.size).decode()
store = {n: store_name(n) for n in range(-2000, 1)}
engine = {n: engine_name(n) for n in range(1100)}
print(json.dumps([{n: name for n, name in store.items() if name != "UNKNOWN_ERROR"},
                  {n: name for n, name in engine.items() if name != "UnknownCode"}]))
"""


def _installed() -> str:
    names = {"mooncake-transfer-engine", "mooncake-transfer-engine-non-cuda"}
    found = [each.version for each in importlib.metadata.distributions() if each.metadata["Name"] in names]
    if not found:
        pytest.skip("no Mooncake wheel in this environment")
    return found[0]


@pytest.fixture(scope="module")
def wheel_names() -> tuple[dict[int, str], dict[int, str]]:
    """The Store's and the Transfer Engine's names by number, as the wheel itself gives them."""
    _installed()
    child = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True, timeout=120)
    of_store, of_engine = json.loads(child.stdout.splitlines()[-1])
    return {int(number): name for number, name in of_store.items()}, {
        int(number): name for number, name in of_engine.items()
    }


def test_the_stores_names_are_the_wheels(wheel_names: tuple[dict[int, str], dict[int, str]]) -> None:
    """Number for number the Store's rows of this release are the wheel's, but for -713, which its name table lacks."""
    rows = {row.number: row.name for row in errors.rows_of(Layer.store, _installed())}
    assert rows.pop(-713) == "REPLICA_NOT_IN_LOCAL_MEMORY"
    assert rows == wheel_names[0]


def test_the_transfer_engines_status_names_are_the_wheels(wheel_names: tuple[dict[int, str], dict[int, str]]) -> None:
    """Number for number the Transfer Engine's positive rows of this release are the wheel's."""
    rows = {row.number: row.name for row in errors.rows_of(Layer.transfer_engine, _installed()) if row.number >= 0}
    assert rows == wheel_names[1]
