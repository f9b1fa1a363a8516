-- What speaks of a whole process though it stands in spans of requests.
SELECT
    ResourceAttributes[$R_ENGINE] AS engine,
    sumIf(toInt64OrZero(SpanAttributes[$UNCOVERED]), SpanName = $STORE_PUT),
    sumIf(toInt64OrZero(SpanAttributes[$UNCOVERED]), SpanName = $STORE_GET),
    countIf(SpanName = $WRITE_STORE AND StatusCode IN ('Error', 'STATUS_CODE_ERROR')),
    countIf(SpanName = $STORE_PUT AND SpanAttributes[$FIRST_BAD_CODE] = '-200'),
    countIf(SpanName = $EVICT_HOST AND mapContains(SpanAttributes, $NODES))
FROM $TABLE
WHERE SpanName IN ($STORE_PUT, $STORE_GET, $WRITE_STORE, $EVICT_HOST) AND engine != ''
GROUP BY engine
