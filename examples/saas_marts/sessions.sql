-- A session ends after 30 minutes without an event of the user.
WITH marked AS (
  SELECT
    *,
    CASE
      WHEN occurred_at - lag(occurred_at) OVER (PARTITION BY user_id ORDER BY occurred_at, event_id) <= INTERVAL 30 MINUTE
      THEN 0 ELSE 1
    END AS begins
  FROM staging.events
),

numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY user_id ORDER BY occurred_at, event_id) AS session_number
  FROM marked
)

SELECT
  user_id,
  CAST(session_number AS BIGINT) AS session_number,
  min(occurred_at) AS started_at,
  max(occurred_at) AS ended_at,
  count(*) AS events
FROM numbered
GROUP BY user_id, session_number
