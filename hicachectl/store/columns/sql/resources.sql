-- What each process says of itself, the oldest saying first: what only becomes known later (ranks) comes on top.
SELECT ResourceAttributes[$R_ENGINE] AS engine, ResourceAttributes
FROM $TABLE
WHERE engine != ''
GROUP BY ALL
ORDER BY min(Timestamp)
