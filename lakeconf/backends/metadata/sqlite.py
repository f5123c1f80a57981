"""A catalog in an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import ClassVar, Literal

from lakeconf.backends.base import StoreNames
from lakeconf.backends.metadata.catalog_file import CatalogFile
from lakeconf.errors import CatalogError
from lakeconf.sql import Value


class SQLiteMetadata(CatalogFile):
    """A catalog in an SQLite file: several processes of one machine may use it, one writing at a time."""

    kind: ClassVar[str] = "SQLite"
    type: Literal["sqlite"] = "sqlite"

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("sqlite_scanner",)

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file says it all
        return {"metadata_path": f"sqlite:{self.uri}"}

    def prepare(self, *, read_only: bool) -> None:
        super().prepare(read_only=read_only)
        path = self.file()
        if not path.is_file():
            return
        # DuckLake makes its tables in whatever database it finds; a foreign one must stay as it is.
        with closing(sqlite3.connect(f"file:{_escaped(str(path))}?mode=ro", uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "ducklake_metadata" not in tables:
            raise CatalogError(
                f"{path} is an SQLite database, but no DuckLake catalog (it has the table {min(tables)!r})",
                hint="name the catalog's own file; lakeconf does not make a catalog among other tables",
            )


def _escaped(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
