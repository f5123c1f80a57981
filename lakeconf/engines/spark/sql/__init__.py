"""Translates queries in DuckDB's SQL to Spark's, so that both return the same rows; refuses the others."""
