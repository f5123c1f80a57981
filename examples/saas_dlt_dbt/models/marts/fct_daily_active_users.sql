SELECT
  event_date,
  count(DISTINCT user_id) AS active_users,
  count(*) FILTER (event_type = 'page_view') AS page_views,
  count(*) FILTER (event_type = 'feature_used') AS feature_useds,
  count(*) FILTER (event_type = 'upgrade') AS upgrades,
  count(*) FILTER (event_type = 'signup') AS signups
FROM {{ ref('stg_events') }}
GROUP BY event_date
