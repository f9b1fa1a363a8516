-- Requests by id, and the traces that they have spans in.
SELECT DISTINCT TraceId, SpanAttributes[$RID] AS rid
FROM $TABLE
WHERE SpanName IN $names AND ResourceAttributes[$R_ENGINE] != '' AND $where
