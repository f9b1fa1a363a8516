-- Spans that a condition chooses, in the columns of `rows.Stored`.
SELECT
    TraceId,
    SpanId,
    ParentSpanId,
    SpanName,
    toUnixTimestamp64Nano(Timestamp),
    toInt64(Duration),
    StatusCode,
    ResourceAttributes[$R_ENGINE],
    SpanAttributes,
    Links.TraceId,
    Links.SpanId
FROM $TABLE
WHERE $where
