"""The yardstick: OpenTelemetry's SDK doing the same."""

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Nowhere(SpanExporter):
    """Takes spans and forgets them."""

    def export(self, spans: Any) -> SpanExportResult:
        """Forget SPANS."""
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to close."""


class Keeping(Nowhere):
    """Takes spans and keeps them."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Any) -> SpanExportResult:
        """Keep SPANS."""
        self.spans += spans
        return SpanExportResult.SUCCESS


def tracer() -> Any:
    """A tracer whose batch processor exports to nowhere, and does so rarely."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=1 << 16, schedule_delay_millis=60_000, max_export_batch_size=512))
    return provider.get_tracer("bench")
