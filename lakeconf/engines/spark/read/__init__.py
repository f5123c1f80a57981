"""Runs scan plans with Spark's Parquet reader."""
