-- What lookups and transfers took in each process, in milliseconds, and how much came.
SELECT
    ResourceAttributes[$R_ENGINE] AS engine,
    SpanName,
    count(),
    countIf(StatusCode IN ('Error', 'STATUS_CODE_ERROR')),
    quantileExact(0.5)(toInt64(Duration)) / 1e6,
    quantileExact(0.99)(toInt64(Duration)) / 1e6,
    max(toInt64(Duration)) / 1e6,
    sum(toInt64OrZero(SpanAttributes[if(SpanName = $PREFETCH_TRANSFER, $DONE_TOKENS, $HIT_TOKENS)]))
FROM $TABLE
WHERE SpanName IN ($PREFETCH_LOOKUP, $PREFETCH_TRANSFER) AND engine != ''
GROUP BY engine, SpanName
ORDER BY engine, SpanName
