-- How many pages all prompts have.
SELECT sum(intDiv(length(SpanAttributes[$PROMPT_PAGE_KEYS]), $PAGE_KEY_DIGITS))
FROM $TABLE
WHERE SpanName = $REQUEST_QUEUED AND ResourceAttributes[$R_ENGINE] != ''
