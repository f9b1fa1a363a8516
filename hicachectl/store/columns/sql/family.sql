-- Requests whose prompt begins as one of those given does: by its first block of tokens, or by its first page; the latest first.
WITH
    own AS (SELECT SpanAttributes[$FINGERPRINT] AS print, SpanAttributes[$PROMPT_PAGE_KEYS] AS pages FROM $TABLE WHERE SpanName = $REQUEST_QUEUED AND TraceId IN $traces),
    blocks AS (SELECT substring(print, 1, $FINGERPRINT_DIGITS) FROM own WHERE print != ''),
    firsts AS (SELECT substring(pages, 1, $PAGE_KEY_DIGITS) FROM own WHERE pages != '')
SELECT TraceId, ''
FROM $TABLE
WHERE SpanName = $REQUEST_QUEUED
    AND (substring(SpanAttributes[$FINGERPRINT], 1, $FINGERPRINT_DIGITS) IN blocks OR substring(SpanAttributes[$PROMPT_PAGE_KEYS], 1, $PAGE_KEY_DIGITS) IN firsts)
GROUP BY TraceId
ORDER BY max(Timestamp) DESC
