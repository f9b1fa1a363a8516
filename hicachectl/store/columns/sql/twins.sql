-- For each block of the prompts given, the first request of each engine that had it too; requests that hash to another first page apart.
WITH
    extractAll(SpanAttributes[$FINGERPRINT], $block_key) AS blocks,
    own AS (SELECT DISTINCT arrayJoin(blocks) FROM $TABLE WHERE SpanName = $REQUEST_QUEUED AND TraceId IN $traces)
SELECT DISTINCT trace, ''
FROM
(
    SELECT argMin(TraceId, (Timestamp, TraceId)) AS trace
    FROM $TABLE
    ARRAY JOIN blocks AS block
    WHERE SpanName = $REQUEST_QUEUED AND $begun AND block IN own
    GROUP BY block, ResourceAttributes[$R_ENGINE], substring(SpanAttributes[$PROMPT_PAGE_KEYS], 1, $PAGE_KEY_DIGITS)
)
WHERE trace NOT IN $traces
$whole
