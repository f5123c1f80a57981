"""Changes to a table as SQL and staged rows: DDL, inserts, updates and merges."""
