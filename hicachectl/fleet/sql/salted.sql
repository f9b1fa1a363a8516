-- Whether any request has an extra key: the same tokens then have other page keys.
SELECT count()
FROM $TABLE
WHERE SpanName = $REQUEST_QUEUED AND SpanAttributes[$EXTRA_KEY] = 'true'
