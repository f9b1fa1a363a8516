-- The transfers that took longest, over all hosts.
SELECT
    ResourceAttributes[$R_ENGINE] AS engine,
    SpanAttributes[$RID],
    SpanId,
    toUnixTimestamp64Nano(Timestamp),
    toInt64(Duration) / 1e6 AS ms,
    toInt64OrZero(SpanAttributes[$AGREED_TOKENS]),
    toInt64OrZero(SpanAttributes[$DONE_TOKENS])
FROM $TABLE
WHERE SpanName = $PREFETCH_TRANSFER AND engine != ''
ORDER BY ms DESC, SpanId
LIMIT $most
