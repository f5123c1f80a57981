SELECT invoice_id, user_id, amount, status, issued_at::DATE AS issued_on
FROM {{ source('raw', 'invoices') }}
WHERE status <> 'void'
