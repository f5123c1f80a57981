SELECT ticket_id, user_id, priority, opened_at, resolved_at, resolved_at IS NULL AS is_open
FROM {{ source('raw', 'support_tickets') }}
