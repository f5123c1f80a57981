"""Rows staged by Spark's executors."""
