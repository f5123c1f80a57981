MODEL (
  name analytics.daily_revenue,
  kind INCREMENTAL_BY_TIME_RANGE (time_column event_date, lookback 2, partition_by_time_column TRUE),
  cron '@daily',
  grain event_date
);

-- @end_ds is the last day of the interval, inclusive.
SELECT
  event_date,
  count(DISTINCT user_id) AS users,
  COALESCE(SUM(revenue) FILTER (WHERE event_type = 'purchase'), 0)::DECIMAL(18, 2) AS revenue
FROM staging.events
WHERE event_date BETWEEN @start_ds AND @end_ds
GROUP BY event_date
