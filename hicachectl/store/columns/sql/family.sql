-- Requests whose prompt begins as one of those given does: by its first block of tokens, or by its first page; the latest first.
SELECT TraceId, ''
FROM $TABLE
WHERE SpanName = $REQUEST_QUEUED AND $begun
GROUP BY TraceId
ORDER BY max(Timestamp) DESC
$whole
