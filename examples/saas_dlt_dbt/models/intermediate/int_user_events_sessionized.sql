-- A session ends after 30 minutes without an event of the user.
WITH marked AS (
  SELECT
    *,
    coalesce(occurred_at - lag(occurred_at) OVER by_user > INTERVAL 30 MINUTE, true) AS begins
  FROM {{ ref('stg_events') }}
  WINDOW by_user AS (PARTITION BY user_id ORDER BY occurred_at, event_id)
)

SELECT *, count(*) FILTER (begins) OVER (PARTITION BY user_id ORDER BY occurred_at, event_id) AS session_number
FROM marked
