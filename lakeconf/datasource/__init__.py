"""The data source `lakeconf` of Spark, which `pyspark_lakeconf` offers to sessions: plans, reads, writes, streams."""
