-- Spans of each process by name, one that came twice counted once; and what speaks of a whole process though it stands in spans of requests.
SELECT
    ResourceAttributes[$R_ENGINE] AS engine,
    SpanName,
    uniqExact(reinterpretAsUInt64(unhex(SpanId))),
    max(toUnixTimestamp64Nano(Timestamp) + toInt64(Duration)),
    sum(toInt64OrZero(SpanAttributes[$UNCOVERED])),
    countIf(StatusCode IN ('Error', 'STATUS_CODE_ERROR')),
    countIf(SpanAttributes[$FIRST_BAD_CODE] = '-200'),
    countIf(mapContains(SpanAttributes, $NODES))
FROM $TABLE
WHERE engine != ''
GROUP BY engine, SpanName
$whole
