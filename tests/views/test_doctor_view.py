"""What doctor found, as a person and as a program reads it."""

import json
from dataclasses import replace

from scenes import scene

from hicachectl.checks.result import Level, Result
from hicachectl.views import doctor as view

FOUND = [
    ("versions", Result(Level.ok, "SGLang and Mooncake are there.", {"sglang": "0.5.14"})),
    ("rdma", Result(Level.warning, "No device \x1b[31m.", {"devices": {}}, "HC-A101", "Set tcp.")),
    ("master", Result(Level.error, "Nobody is there.", {"log": ["a", "b"]}, "HC-A03", "")),
]
HEAD = """\
error    master           Nobody is there. [HC-A03]
                          log: a; b
warning  rdma             No device \\x1b[31m. [HC-A101]
                          Next: Set tcp.
                          devices:
ok       versions         SGLang and Mooncake are there.

settings, and where each comes from
  local_hostname             127.0.0.1        environment MOONCAKE_LOCAL_HOSTNAME
"""


def test_the_worst_comes_first_and_every_setting_has_its_origin():
    """Errors, warnings and the rest, with code, next step and values; then each setting with where it comes from."""
    text = view.as_text(scene("--tp", "2"), FOUND, width=None, colour=False)
    assert text.startswith(HEAD)
    assert "tp_size                    2                command line" in text


def test_colour_only_where_it_is_asked_for():
    """Escape codes are in the text exactly where colour is on."""
    assert "\x1b" not in view.as_text(scene(), FOUND, width=80, colour=False)
    assert "\x1b[" in view.as_text(scene(), FOUND, width=80, colour=True)


def test_the_document():
    """The JSON document has its schema, every setting with its origin, what is ignored, and every result."""
    document = json.loads(view.as_json(scene(), FOUND))
    assert document["schema"] == "hicachectl/doctor/1"
    assert document["source"] == "environment"
    assert {
        "name": "master_server_address",
        "value": "127.0.0.1:50051",
        "origin": "environment MOONCAKE_MASTER",
        "remark": "",
    } in document["values"]
    assert document["checks"][2] == {
        "name": "master",
        "level": "error",
        "title": "Nobody is there.",
        "facts": {"log": ["a", "b"]},
        "code": "HC-A03",
        "next": None,
    }
    assert document["ignored"] == []


def test_the_document_without_a_configuration():
    """Where no store is configured, the document still has all its fields."""
    document = json.loads(view.as_json(replace(scene(engine=False), config=None), []))
    assert (document["source"], document["values"], document["checks"]) == (None, [], [])
