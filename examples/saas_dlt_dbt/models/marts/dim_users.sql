WITH tickets AS (
  SELECT user_id, count(*) AS tickets, count(*) FILTER (is_open) AS open_tickets
  FROM {{ ref('stg_tickets') }} GROUP BY user_id
),

sessions AS (
  SELECT user_id, max(session_number) AS sessions, max(occurred_at) AS last_seen
  FROM {{ ref('int_user_events_sessionized') }} GROUP BY user_id
)

SELECT
  users.*,
  coalesce(lifetime_revenue, 0)::DECIMAL(18, 2) AS lifetime_revenue,
  coalesce(invoices, 0) AS invoices,
  coalesce(tickets, 0) AS tickets,
  coalesce(open_tickets, 0) AS open_tickets,
  coalesce(sessions, 0) AS sessions,
  last_seen
FROM {{ ref('stg_users') }} AS users
LEFT JOIN {{ ref('int_revenue_by_user') }} USING (user_id)
LEFT JOIN tickets USING (user_id)
LEFT JOIN sessions USING (user_id)
