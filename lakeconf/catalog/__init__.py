"""Reads the metadata database as plain data, independent of engines.

`snapshot` reads versions, `table` reads tables and columns, `data_file` reads files and deletes, `predicate` and
`pruning` find files to skip, and `scan` combines them into a `ScanPlan`.
"""
