"""The configuration of a project with one store on local files, for processes that are measured."""

CONFIGURATION = """\
[stores.dev.metadata_backend]
type = "sqlite"
uri = "catalog.sqlite"

[stores.dev.storage_backend]
type = "local"
path = "data"
"""
