-- Requests in the order in which they came, and the traces that they have spans in.
SELECT SpanAttributes[$RID] AS rid, groupUniqArray(TraceId)
FROM $TABLE
WHERE SpanName IN $names AND ResourceAttributes[$R_ENGINE] != '' AND rid != ''
GROUP BY rid
ORDER BY min(Timestamp)
