MODEL (name staging.events, kind VIEW);

SELECT *, event_timestamp::DATE AS event_date
FROM raw.events
WHERE event_id IS NOT NULL
