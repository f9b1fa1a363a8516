"""The report of a probe as a person reads it."""

import json

from hicachectl.mooncake.probe.report import Bench, NotRun, Report, StepResult
from hicachectl.views import probe as view

GAUGES = {"keys": 74, "segments": 1, "used_bytes": 606208, "capacity_bytes": 67108864}
STORE = {
    "master": "127.0.0.1:50051",
    "admin": "http://127.0.0.1:9003",
    "admin_found": "configured",
    "service_ready": True,
    "segments": ["127.0.0.1:13576"],
    "client": {
        "release": "0.3.11.post1",
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "segment_size": 0,
    },
    "transport": {"asked": "rdma", "device": "", "in_use": "tcp", "remark": "rdma was asked for"},
    "gauges_before": GAUGES,
    "gauges_after": GAUGES,
    "problem": "",
}
GOOD = StepResult("setup", True, 0, "OK", 1, 1, 0, 30.123, 30.123, None, "Done.")
PUT = StepResult("batch_put", True, 0, "OK", 256, 1, 16777216, 25.0, 26.0, 0.671, "Done.")
BAD = StepResult(
    "batch_get", False, -800, "TRANSFER_FAIL", 256, 1, 0, 0.5, 0.5, None, "It broke \x1b[31m.", "Look there."
)
REPORT = Report(
    store=STORE,
    steps=[GOOD, PUT, BAD],
    not_run=[NotRun("multi_put", "batch_get failed"), NotRun("multi_get", "batch_get failed")],
    side_effects=["12 puts"],
    left_behind=[f"hicachectl-probe-x-{number}" for number in range(7)],
    bench=[Bench("batch_put", 67 * 10**7, (1.0, 2.0), (67 / 70, 2.0))],
    log=["E1129 trouble"],
    connected=True,
)
TEXT = """\
master      127.0.0.1:50051
admin port  http://127.0.0.1:9003 (configured) serves
memory      592.0 KiB of 64.0 MiB (0.9%) in 1 segment, 74 keys
client      Mooncake 0.3.11.post1 at 127.0.0.1, lends nothing
transport   tcp (asked for rdma)
            rdma was asked for

step               code                   n     bytes  p50 ms  p99 ms   GB/s
setup      ok         0  OK               1         -   30.12   30.12      -
batch_put  ok         0  OK             256  16.0 MiB   25.00   26.00  0.671
batch_get  failed  -800  TRANSFER_FAIL  256         -    0.50    0.50      -

batch_get (-800)
  It broke \\x1b[31m.
  Next: Look there.

bandwidth, fastest round
  batch_put: 0.67 GB/s, bare loop 0.70 GB/s (96%)

not run
  multi_put, multi_get: batch_get failed

side effects
  12 puts

left behind
  hicachectl-probe-x-0
  hicachectl-probe-x-1
  hicachectl-probe-x-2
  hicachectl-probe-x-3
  hicachectl-probe-x-4
  and 2 more (all of them in -o json)

the client's log
  E1129 trouble
"""


def test_the_whole_report_as_text():
    """Store, steps, what went wrong with the next step, what was not run, side effects and leftovers, nothing that moves a cursor."""
    assert view.as_text(REPORT, width=None, colour=False) == TEXT


def test_colour_only_where_it_is_asked_for():
    """Escape codes are in the text exactly where colour is on."""
    assert "\x1b" not in view.as_text(REPORT, width=100, colour=False)
    assert "\x1b[" in view.as_text(REPORT, width=100, colour=True)


def test_steps_with_one_story_tell_it_once():
    """Steps that failed for the same reason share its lines."""
    twice = Report(
        store=STORE,
        steps=[
            BAD,
            StepResult("get_into", False, -800, "TRANSFER_FAIL", 1, 1, 0, 0.5, 0.5, None, BAD.meaning, BAD.next),
        ],
    )
    text = view.as_text(twice, width=None, colour=False)
    assert "batch_get (-800), get_into (-800)\n" in text
    assert text.count("Look there.") == 1


def test_the_document_has_the_fields_that_were_promised():
    """The JSON document has its schema, and each step the promised fields."""
    document = json.loads(view.as_json(REPORT))
    assert document["schema"] == "hicachectl/probe/1"
    assert set(document) >= {"store", "steps", "side_effects", "left_behind"}
    promised = {"name", "ok", "code", "code_name", "n", "bytes", "p50_ms", "p99_ms", "gb_per_s", "meaning"}
    assert all(set(step) >= promised for step in document["steps"])
    assert document["bench"] == [{"step": "batch_put", "gb_per_s": 0.67, "bare_gb_per_s": 0.7, "ratio": 0.957, "bytes": 670000000, "rounds": 2}]


def test_a_report_over_http_alone():
    """Without a client the text has the master's counters and operations, and no client's lines."""
    store = {
        "admin": "http://h:1",
        "service_ready": False,
        "gauges": GAUGES,
        "counters": {"evicted_keys": 3, "clients": 0},
    }
    store["operations"] = [{"operation": "put_start", "requests": 5, "succeeded": 4, "failed": 1}]
    text = view.as_text(Report(store=store), width=None, colour=False)
    assert "http://h:1 does not serve" in text
    assert "evicted_keys 3" in text
    assert "put_start: 4 succeeded, 1 failed" in text
    assert "transport" not in text
