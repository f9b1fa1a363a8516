-- Token accounts of one part of the requests, added up by process, of those whose account follows from their own figures and that can have lost nothing;
-- each of the others, of which the rules have to be asked, in a row with its id. Where it is in doubt a request is one of the others.
WITH
    $numbers AS numbers,
    $kinds AS kinds,
    $families AS families,
    -- The least prefix that a prefill of each request carried: what lies behind it was computed.
    prefills AS
    (
        SELECT $who AS who, min(toInt64OrZero(SpanAttributes[$PREFIX_TOKENS])) AS prefix
        FROM $TABLE
        WHERE SpanName = $PREFILL AND $mine
        GROUP BY who
    ),
    computed AS
    (
        SELECT who, came, prefix, print, arraySlice(keys, intDiv(prefix, page) + 1, greatest(0, reusable - intDiv(prefix, page))) AS keys
        FROM
        (
            SELECT $who AS who, toUnixTimestamp64Nano(Timestamp) AS came, $page AS page, intDiv(greatest(0, toInt64OrZero(SpanAttributes[$PROMPT_TOKENS]) - 1), page) AS reusable,
                SpanAttributes[$PROMPT_PAGE_KEYS] AS pages, $print AS print,
                arrayMap(key -> cityHash64(key), extractAll(pages, $page_key)) AS keys
            FROM $TABLE
            WHERE SpanName = $REQUEST_QUEUED AND $mine
        ) AS queued
        INNER JOIN prefills USING (who)
        WHERE intDiv(prefix, page) < reusable
    ),
    -- Keys are arrays until nothing else stands in the row: a row with its text for each of its keys would be a hundred times as much.
    asked AS (SELECT who, came, key FROM computed ARRAY JOIN keys AS key),
    written AS
    (
        SELECT key, min(ended) AS since
        FROM
        (
            SELECT toUnixTimestamp64Nano(Timestamp) + toInt64(Duration) AS ended, SpanAttributes[$PAGE_KEYS] AS pages,
                arrayMap(key -> cityHash64(key), extractAll(pages, $page_key)) AS keys
            FROM $TABLE
            WHERE SpanName IN ($STORE_PUT, $STORE_EXIST) AND ResourceAttributes[$R_ENGINE] != '' AND toInt64OrZero(SpanAttributes[$OBJECTS_OK]) > 0
                AND (SpanName = $STORE_PUT OR ParentSpanId IN (SELECT SpanId FROM $TABLE WHERE SpanName = $WRITE_STORE))
        )
        ARRAY JOIN keys AS key
        WHERE key IN (SELECT key FROM asked)
        GROUP BY key
    ),
    -- Requests that computed a page which somebody had written before.
    missed AS (SELECT DISTINCT who FROM asked INNER JOIN written USING (key) WHERE since <= came),
    -- Requests that computed tokens which a request under other keys had too.
    $twins
    -- What the lookup of each request was told: pages that are there.
    calls AS
    (
        SELECT cityHash64(if(SpanName = $PREFETCH_LOOKUP, SpanId, ParentSpanId)) AS call, anyIf($who, SpanName = $PREFETCH_LOOKUP) AS who,
            sumIf(toInt64OrZero(SpanAttributes[$OBJECTS_OK]) / (length(JSONExtractArrayRaw(SpanAttributes[$OBJECT_SUFFIXES])) + length(JSONExtractArrayRaw(SpanAttributes[$OBJECT_SUFFIXES], 'values'))), SpanName = $STORE_EXIST) AS pages,
            countIf(SpanAttributes[$OBJECT_INDICES] NOT IN ('', '[]', '{"values":[]}')) AS listed
        FROM $TABLE
        WHERE SpanName IN ($PREFETCH_LOOKUP, $STORE_EXIST) AND ResourceAttributes[$R_ENGINE] != '' AND if(SpanName = $STORE_EXIST, toInt64OrZero(SpanAttributes[$OBJECTS_OK]) > 0, $mine)
        GROUP BY call
        HAVING countIf(SpanName = $PREFETCH_LOOKUP) > 0
    ),
    told AS (SELECT who, sum(pages) AS present, sum(listed) AS partly FROM calls GROUP BY who),
    own AS
    (
        SELECT
            SpanAttributes[$RID] AS rid, ResourceAttributes[$R_ENGINE] AS engine, $who AS who, $page AS page, $family AS family, $first AS first, $fit AS fit,
            groupUniqArrayIf(TraceId, SpanName != $PREFETCH_LOOKUP) AS traces,
            minIf(Timestamp, SpanName != $PREFETCH_LOOKUP) AS seen,
            countIf(SpanName = $REQUEST_QUEUED) AS queued,
            countIf(SpanName IN ($PREFILL, $REQUEST_FINISHED)) AS entered,
            minIf(Timestamp, SpanName = $REQUEST_QUEUED) AS came,
            minIf(Timestamp, SpanName IN ($PREFILL, $REQUEST_FINISHED)) AS went,
            anyIf(toInt64OrNull(SpanAttributes[$PROMPT_TOKENS]), SpanName = $REQUEST_QUEUED) AS prompt,
            countIf(SpanName = $PREFILL) AS prefilled,
            argMinIf(
                tuple(toInt64OrNull(SpanAttributes[$PREFIX_TOKENS])), (Timestamp, Duration, SpanId),
                SpanName = $PREFILL AND SpanAttributes[$FIRST_CHUNK] = 'true' AND SpanAttributes[$RETRACTED] != 'true'
            ).1 AS carried,
            countIf(SpanName = $PREFETCH_GATE) AS gates,
            anyIf(toInt64OrNull(SpanAttributes[$MATCHED_DEVICE]), SpanName = $PREFETCH_GATE) AS gate_device,
            anyIf(toInt64OrNull(SpanAttributes[$MATCHED_HOST]), SpanName = $PREFETCH_GATE) AS gate_host,
            argMinIf(tuple(toInt64OrNull(SpanAttributes[$MATCHED_DEVICE]), toInt64OrNull(SpanAttributes[$MATCHED_HOST])), (Timestamp, Duration, SpanId), SpanName = $ADMISSION) AS admitted,
            countIf(SpanName = $PREFETCH_LOOKUP) AS lookups,
            anyIf(toInt64OrNull(SpanAttributes[$HIT_TOKENS]), SpanName = $PREFETCH_LOOKUP) AS hit
        FROM $TABLE
        WHERE SpanName IN $names AND $mine
        GROUP BY rid, engine
        HAVING countIf(SpanName != $PREFETCH_LOOKUP) > 0
    ),
    known AS
    (
        SELECT
            *,
            coalesce(gate_device, admitted.1, 0) AS on_device,
            coalesce(gate_host, admitted.2, 0) AS on_host,
            ifNull(prompt, 0) AS tokens,
            prefilled = 0 AS waits,
            least(ifNull(carried, 0), tokens) AS prefix,
            least(prefix, on_device) AS device,
            least(prefix - device, on_host) AS host,
            intDiv(on_device + on_host, page) AS looked,
            intDiv(min(ifNull(hit, 0)) OVER ranks, page) AS hits,
            intDiv(ifNull(hit, 0), page) AS own_hits,
            intDiv(device + host, page) AS near,
            intDiv(prefix, page) AS reused,
            intDiv(greatest(0, tokens - 1), page) AS reusable,
            -- One attempt, seen from its beginning, that looked once at most. A rank that was not seen to look has found nothing: then no hit of another makes it good.
            fit AND queued = 1 AND (entered = 0 OR went > came) AND tokens > $warmup AND gates <= 1 AND lookups <= 1 AND (lookups = 0 OR hit IS NOT NULL)
                AND (waits OR carried IS NOT NULL) AND sum(first) OVER ranks = 1 AS clear,
            -- What was reused and did not lie on the device or the host lay in the store.
            reused <= near OR (near >= looked AND reused <= looked + hits) AS stored,
            reused >= reusable
                OR ((hits = 0 OR looked + hits <= reused) AND (own_hits = 0 OR looked + own_hits <= reused) AND present = own_hits AND partly = 0 AND who NOT IN (SELECT who FROM missed) AND $alone) AS kept,
            clear AND (NOT first OR waits OR (stored AND kept)) AS good
        FROM own LEFT JOIN told USING (who)
        WINDOW ranks AS (PARTITION BY rid, family)
    )
SELECT
    engine,
    if(plain, '', rid) AS other,
    min(seen) AS since,
    groupUniqArrayArray(if(plain, [], traces)),
    sum(intDiv(tokens, page)),
    count(),
    countIf(first),
    countIf(first AND waits),
    sumIf(tokens, counts),
    sumIf(prefix - host - greatest(0, reused - near) * page, counts),
    sumIf(host, counts),
    sumIf(greatest(0, reused - near) * page, counts),
    sumIf(tokens - prefix, counts),
    sumIf(least(tokens - prefix, tokens - reusable * page), counts)
FROM (SELECT *, min(good) OVER (PARTITION BY rid) AS plain, first AND NOT waits AS counts FROM known)
GROUP BY engine, other
ORDER BY since
