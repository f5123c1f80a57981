-- Events with an id, and their date.
SELECT event_id, user_id, event_type, CAST(event_timestamp AS DATE) AS event_date, revenue
FROM raw.events
WHERE event_id IS NOT NULL
