"""What the metadata database says, as plain data; knows no engine.

`snapshot` finds versions, `table` tables and columns, `data_file` files and deletes, `statistics` and `predicate`
say what can be skipped, and `scan` puts them together into a `ScanPlan`.
"""
