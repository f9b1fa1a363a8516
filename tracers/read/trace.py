"""Where a request stands in the engine's own trace, which SGLang keeps with `--enable-trace` (`srt/observability/trace.py`)."""

import sys
from typing import Any

from tracers import carry
from tracers.point import Args, Kwargs
from tracers.read.take import argument

OTEL = "opentelemetry.trace"


def joined(args: Args, kwargs: Kwargs) -> None:
    """Before REQUEST_QUEUED: where SGLang traces this request, our spans of it belong under its span for this scheduler."""
    req = argument(args, kwargs, 1, "req")
    own = getattr(getattr(req, "time_stats", None), "trace_ctx", None)
    if own is None or not getattr(own, "tracing_enable", False):
        return
    context = span_context(own)
    if context is not None:
        carry.join(str(req.rid), context.trace_id, context.span_id)


def span_context(own: Any) -> Any:
    """SpanContext of the span that SGLang has for a request in this scheduler, else that of the whole request; None where it has none.

    Sources: TraceReqContext (thread_context.thread_span, root_span_context); with SGLANG_TRACE_ASYNC=1, from 0.5.23 on, another process makes
    the scheduler's span, and TraceReqContextAsync knows the request's alone.
    """
    thread = getattr(getattr(own, "thread_context", None), "thread_span", None)
    if thread is not None:
        return thread.get_span_context()
    root, otel = getattr(own, "root_span_context", None), sys.modules.get(OTEL)
    if root is None or otel is None:
        return None
    return otel.get_current_span(root).get_span_context()
