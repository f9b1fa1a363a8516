-- What each process says of itself, the oldest saying first: what only becomes known later (ranks) comes on top.
SELECT ResourceAttributes[$R_ENGINE] AS engine, any(ResourceAttributes)
FROM $TABLE
WHERE engine != ''
GROUP BY engine, cityHash64(ResourceAttributes)
ORDER BY min(Timestamp)
$whole
