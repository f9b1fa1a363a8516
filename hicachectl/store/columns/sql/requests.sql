-- Requests by id: the trace of each, which all of its ranks and attempts share.
SELECT DISTINCT TraceId, SpanAttributes[$RID] AS rid
FROM $TABLE
WHERE SpanName IN $names AND ResourceAttributes[$R_ENGINE] != '' AND $where
