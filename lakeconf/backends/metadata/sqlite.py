"""A catalog in a SQLite file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar, Literal

from lakeconf.backends.base import StoreNames
from lakeconf.backends.init_template import InitTemplate
from lakeconf.backends.metadata.catalog_file import CatalogFile, refuse_foreign
from lakeconf.errors import CatalogError
from lakeconf.sql import Value


class SQLiteMetadata(CatalogFile):
    """A catalog in a SQLite file: several processes on one machine can use it, one writer at a time."""

    kind: ClassVar[str] = "SQLite"
    # A connection that only reads cannot change the journal mode: SQLite refuses the attempt.
    write_defaults: ClassVar[Mapping[str, Value]] = {"meta_journal_mode": "WAL"}
    type: Literal["sqlite"] = "sqlite"

    @classmethod
    def init_template(cls) -> InitTemplate:
        return InitTemplate({"uri": ".lakeconf/catalog.sqlite"})

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("sqlite_scanner",)

    @property
    def attach_defaults(self) -> Mapping[str, Value]:
        # How many milliseconds SQLite waits for another commit before it reports a locked database.
        return {**super().attach_defaults, "meta_busy_timeout": 30_000}

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file is enough
        return {"metadata_path": f"sqlite:{self.uri}"}

    def look_into(self, path: Path) -> None:
        import sqlite3

        super().look_into(path)
        try:
            with closing(sqlite3.connect(f"file:{_escaped(str(path))}?mode=ro", uri=True)) as connection:
                tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:  # the rest of the number is the detail
                raise CatalogError(
                    f"the catalog {path} has a write-ahead log, which SQLite cannot read in a read-only folder",
                    hint=f"run on a writable copy: sqlite3 {path.name} 'PRAGMA journal_mode = DELETE'",
                ) from error
            return  # locked, or cannot be opened read-only: ATTACH reports the reason
        except sqlite3.DatabaseError as error:
            raise CatalogError(
                f"the catalog {path} is damaged: {error}", hint="restore the file from a backup"
            ) from error
        refuse_foreign(path, self.kind, tables)


def _escaped(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
