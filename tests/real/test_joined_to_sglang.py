"""SGLang's own tracing beside ours: in one collector, spans of a request hang under those that SGLang has of it."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import collecting
import engines
import pytest
import verdicts
from installed import needs

from tracers import carry
from tracers import vocabulary as v
from tracers.read import trace as read

pytestmark = pytest.mark.real


@pytest.fixture
def tracing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """SGLang's trace module, on as `process_tracing_init` leaves it, but for a provider that keeps its spans to itself."""
    needs("sglang", "opentelemetry.sdk")
    module = importlib.import_module("sglang.srt.observability.trace")
    if not module.opentelemetry_imported:
        pytest.skip("the exporters that SGLang's tracing needs are not installed beside this Python")
    provider = importlib.import_module("opentelemetry.sdk.trace").TracerProvider(id_generator=module.TraceCustomIdGenerator())
    monkeypatch.setattr(module, "opentelemetry_initialized", True)
    monkeypatch.setattr(module, "tracer", provider.get_tracer("sglang server"))
    monkeypatch.setattr(module, "threads_info", {})
    carry.joins.clear()
    yield module
    carry.joins.clear()


def joined(context: Any) -> dict[str, tuple[str, str]]:
    """What the reader finds of a request with this context."""
    read.joined((None, SimpleNamespace(rid="a", time_stats=SimpleNamespace(trace_ctx=context))), {})
    found = dict(carry.joins)
    carry.joins.clear()
    return found


def test_the_context_of_a_request_is_read_where_it_was_made_and_where_it_was_sent(tracing: Any) -> None:
    """SGLang's own class, before it begins, in the process of the request, and in a scheduler that got it by pickle."""
    context = tracing.TraceReqContext("a", module_name="request")
    assert joined(context) == {}
    context.trace_req_start()
    root = context.root_span.get_span_context()
    own = context.thread_context.thread_span.get_span_context()
    assert joined(context) == {"a": (f"{root.trace_id:032x}", f"{own.span_id:016x}")}
    sent = tracing.TraceReqContext.__new__(tracing.TraceReqContext)
    sent.__setstate__(context.__getstate__())
    assert joined(sent) == {"a": (f"{root.trace_id:032x}", f"{root.span_id:016x}")}
    sent.rebuild_thread_context()
    ((trace_id, span_id),) = joined(sent).values()
    assert int(trace_id, 16) == root.trace_id
    assert span_id == f"{sent.thread_context.thread_span.get_span_context().span_id:016x}"
    assert span_id != f"{own.span_id:016x}"


def test_a_request_that_sglang_does_not_trace_is_left_alone(tracing: Any) -> None:
    """The stand-in of a context that is off."""
    assert joined(tracing.TraceNullContext()) == {}


def test_a_context_that_leaves_its_spans_to_another_process_is_read(tracing: Any) -> None:
    """SGLANG_TRACE_ASYNC=1, from 0.5.23 on: a copy in a scheduler knows the request's span alone."""
    needs("sglang")
    try:
        module = importlib.import_module("sglang.srt.observability.trace_async")
    except ImportError:
        pytest.skip("this SGLang has no asynchronous tracing")
    root = tracing.tracer.start_span("Req a")
    carrier: dict[str, str] = {}
    tracing.propagate.inject(carrier, tracing.trace.set_span_in_context(root))
    copy = module.TraceReqContextAsync.__new__(module.TraceReqContextAsync)
    copy.__dict__.update(tracing_enable=True, is_copy=True, root_span=None, root_span_context=tracing.propagate.extract(carrier))
    told = root.get_span_context()
    assert joined(copy) == {"a": (f"{told.trace_id:032x}", f"{told.span_id:016x}")}
    copy.tracing_enable = False


def test_an_engine_that_is_traced_by_both_has_one_trace_for_a_request(tmp_path: Path) -> None:
    """A real engine with --enable-trace, and a real collector: same trace, our topmost spans under SGLang's; the verdict is as without."""
    needs("sglang", "mooncake", "grpc", "opentelemetry.exporter.otlp.proto.grpc", "opentelemetry.exporter.otlp.proto.http")
    run, prompt = tmp_path / "run", engines.tokens(597)
    plan = [engines.generate(prompt, rid="cold"), engines.written(74), engines.flush(), engines.generate(prompt, rid="stored"), engines.wait(3)]
    with collecting.collector(tmp_path) as there:
        both = {"enable_trace": True, "otlp_traces_endpoint": there.grpc.removeprefix("http://")}
        engines.play(plan, engine=both, before=("trace", "--run", str(run), "--otlp", there.http, "--"))
        written = sum(path.read_bytes().count(b'"spanId"') for path in run.glob("spans-*"))
        # SGLang's own come when they like: ours are waited for.
        spans = list(there.spans(written, of=lambda span: v.R_ENGINE in span[9]).values())
        back = there.write(tmp_path / "back.jsonl")
    by_id = {span[1]: span for span in spans}
    for rid in ("cold", "stored"):
        (root,) = (span for span in spans if span[7].get("rid") == rid)
        ours = [span for span in spans if span[7].get(v.RID) == rid]
        assert len(ours) > 8
        assert {span[0] for span in ours} == {root[0]}
        # On 0.5.23 a write may lie inside a call of ours that had nothing to record: that parent is nowhere.
        top = [span for span in ours if span[2] in by_id and v.R_ENGINE not in by_id[span[2]][9]]
        assert {by_id[span[2]][2] for span in top} == {root[1]}, "our topmost spans hang under SGLang's span of the scheduler, and that under the request's"
        assert v.REQUEST_QUEUED in {span[3] for span in top}
    here, from_there = verdicts.explained(run), verdicts.explained(back)
    assert verdicts.request(here, "stored")["tokens"]["reused"]["storage"] == 592
    assert {**from_there, "runs": 0} == {**here, "runs": 0}
