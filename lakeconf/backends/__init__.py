"""The parts that a store is composed of.

A metadata backend says where the catalog is, a storage backend where the Parquet files are. Each knows only itself;
`base` holds the two contracts and `registry` finds the class of a `type`.
"""
