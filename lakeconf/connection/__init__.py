"""The connection to DuckDB, and its errors as errors of lakeconf."""
