"""Backends, the two parts of a store.

A metadata backend defines where the catalog is, a storage backend where the Parquet files are. Each knows only itself.
`backend` contains the two contracts; `registry` finds the class of a `type`.
"""
