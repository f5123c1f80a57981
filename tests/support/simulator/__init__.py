"""A deterministic simulator of the commit protocol: lakeconf's own code on a model of DuckDB, DuckLake and a bucket."""
