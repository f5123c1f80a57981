"""Connects to DuckDB and translates its errors."""
