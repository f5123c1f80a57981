SELECT user_id, plan, country, signed_up_at::DATE AS signed_up_on FROM {{ source('raw', 'users') }}
