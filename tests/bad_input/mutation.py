"""Good input made bad, the same for the same seed: recordings, configurations, answers of a master, command lines."""

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any

JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**40, 0.5, -0.0, 1e308, "", " ", "0", "-1", "NaN", "Infinity", "1e999", "abc", "\x00", "\x1b[2J",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "a" * 5000, "../../etc", "http://[", "[::1]:x", "9" * 400, [], {}, [[]], {"": {}}, [None] * 3,
    {"stringValue": 5}, {"intValue": "x"}, {"arrayValue": {"values": [{"intValue": "1"}, None]}}, {"doubleValue": "NaN"}, {"boolValue": "yes"},
)  # fmt: skip
BYTES = (b"", b"\x00", b"\xff\xfe", b"\n", b"{", b"}", b'"', b"[", b"\\u0000", b"\\ud800", b'{"resourceSpans":', b"," * 50, b"[" * 3000)


def document(value: Any, chance: random.Random, times: int = 1) -> Any:
    """VALUE, JSON, with some of its parts replaced, dropped, doubled or given to another key."""
    made = copy.deepcopy(value)
    for _ in range(times):
        holder = _holder(made, chance)
        if holder is None:
            return copy.deepcopy(chance.choice(JUNK))
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        action = chance.randrange(6)
        if action == 0:
            del holder[key]
        elif action == 1 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif action == 1:
            holder[f"{key}x"] = holder.pop(key)
        elif action == 2:
            other = _holder(made, chance)
            holder[key] = copy.deepcopy(next(iter(other.values() if isinstance(other, dict) else other or ()), None))
        else:
            holder[key] = copy.deepcopy(chance.choice(JUNK))
    return made


def _holder(value: Any, chance: random.Random) -> Any:
    """Some mapping or list in VALUE that is not empty; None where there is none."""
    found, todo = [], [value]
    while todo:
        each = todo.pop()
        if isinstance(each, (dict, list)) and each:
            found.append(each)
            todo += each.values() if isinstance(each, dict) else each
    return chance.choice(found) if found else None


def octets(data: bytes, chance: random.Random) -> bytes:
    """DATA with bytes changed, put in, cut out or cut off."""
    made = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(made) + 1)
        action = chance.randrange(4)
        if action == 0:
            made[place:place] = chance.choice(BYTES)
        elif action == 1:
            del made[place : place + chance.randrange(1, 200)]
        elif action == 2:
            del made[place:]
        else:
            made[place : place + 1] = bytes([chance.randrange(256)])
    return bytes(made)


def recording(sample: Path, folder: Path, chance: random.Random) -> Path:
    """SAMPLE, copied into FOLDER, with one of its files made bad."""
    shutil.copytree(sample, folder, dirs_exist_ok=True)
    for _ in range(chance.randrange(1, 3)):
        path = chance.choice(sorted(folder.iterdir()))
        if chance.random() < 0.3:
            path.write_bytes(octets(path.read_bytes(), chance))
            continue
        lines = path.read_bytes().splitlines()
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(lines)) if lines else 0
            try:
                lines[place : place + 1] = [json.dumps(document(json.loads(lines[place]), chance, chance.randrange(1, 4))).encode()]
            except (ValueError, IndexError, RecursionError):
                lines[place:place] = [chance.choice(BYTES)]
        path.write_bytes(b"\n".join(lines) + chance.choice((b"\n", b"")))
    return folder


def words(options: list[str], values: list[str], chance: random.Random) -> list[str]:
    """A command line of OPTIONS and VALUES, some of them nonsense."""
    junk = [each for each in JUNK if isinstance(each, str) and "\x00" not in each]
    return [chance.choice(chance.choice((options, values, values, junk))) for _ in range(chance.randrange(0, 6))]
