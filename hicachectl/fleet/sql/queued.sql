-- Requests in the order in which they came.
SELECT TraceId, ''
FROM $TABLE
WHERE SpanName IN $names AND ResourceAttributes[$R_ENGINE] != ''
GROUP BY TraceId
ORDER BY min(Timestamp)
