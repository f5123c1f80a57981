SELECT user_id, sum(amount) AS lifetime_revenue, count(*) AS invoices
FROM {{ ref('stg_invoices') }}
WHERE status = 'paid'
GROUP BY user_id
