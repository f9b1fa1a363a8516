-- The columns and the order of the table of the Collector's ClickHouse exporter, so that a server's table and ours take the same questions.
-- The indexes of pages and of beginnings, and the projections, are ours: with them a request is explained without a look at every row. Their expressions stand in the
-- questions too. A row may have kilobytes of page keys, and to find one all of its granule is read: granules are an eighth of the usual.
CREATE TABLE IF NOT EXISTS $TABLE
(
    Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    ParentSpanId String CODEC(ZSTD(1)),
    TraceState String CODEC(ZSTD(1)),
    SpanName LowCardinality(String) CODEC(ZSTD(1)),
    SpanKind LowCardinality(String) CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    Duration UInt64 CODEC(ZSTD(1)),
    StatusCode LowCardinality(String) CODEC(ZSTD(1)),
    StatusMessage String CODEC(ZSTD(1)),
    Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    INDEX trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX attribute_value mapValues(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX pages $page_numbers TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX beginnings $beginning TYPE bloom_filter(0.001) GRANULARITY 1,
    PROJECTION processes
    (
        SELECT ResourceAttributes[$R_ENGINE], cityHash64(ResourceAttributes), any(ResourceAttributes), min(Timestamp)
        GROUP BY ResourceAttributes[$R_ENGINE], cityHash64(ResourceAttributes)
    ),
    PROJECTION counts
    (
        SELECT
            ResourceAttributes[$R_ENGINE], SpanName, uniqExact(reinterpretAsUInt64(unhex(SpanId))), max(toUnixTimestamp64Nano(Timestamp) + toInt64(Duration)),
            sum(toInt64OrZero(SpanAttributes[$UNCOVERED])), countIf(StatusCode IN ('Error', 'STATUS_CODE_ERROR')), countIf(SpanAttributes[$FIRST_BAD_CODE] = '-200'),
            countIf(mapContains(SpanAttributes, $NODES))
        GROUP BY ResourceAttributes[$R_ENGINE], SpanName
    )
)
ENGINE = MergeTree
PARTITION BY toDate(Timestamp)
ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))
SETTINGS index_granularity = 1024
