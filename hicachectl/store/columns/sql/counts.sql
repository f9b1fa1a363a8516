-- Spans of each process by name, one that came twice counted once.
SELECT
    ResourceAttributes[$R_ENGINE] AS engine,
    SpanName,
    uniqExact(reinterpretAsUInt64(unhex(SpanId))),
    toUnixTimestamp64Nano(max(Timestamp)),
    max(toUnixTimestamp64Nano(Timestamp) + toInt64(Duration))
FROM $TABLE
WHERE engine != ''
GROUP BY engine, SpanName
