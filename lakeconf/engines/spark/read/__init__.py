"""Scan plans carried out with Spark's Parquet reader."""
