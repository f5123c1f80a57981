SELECT id, price FROM raw.orders WHERE price > 5
