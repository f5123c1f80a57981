SELECT issued_on, plan, country, status, sum(amount) AS revenue, count(*) AS invoices
FROM {{ ref('stg_invoices') }} JOIN {{ ref('stg_users') }} USING (user_id)
GROUP BY ALL
