SELECT event_id, user_id, event_type, occurred_at, occurred_at::DATE AS event_date FROM {{ source('raw', 'events') }}
