"""A catalog in a DuckDB file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lakeconf.backends.base import StoreNames
from lakeconf.backends.fields import Text
from lakeconf.backends.init_template import InitTemplate
from lakeconf.backends.metadata.catalog_file import CatalogFile, refuse_foreign
from lakeconf.errors import CatalogError
from lakeconf.sql import Value, literal

# Only names: DuckDB binds nothing.
_STORED_SQL = """
    SELECT view_name FROM duckdb_views() WHERE database_name = 'catalog' AND NOT internal
    UNION ALL SELECT function_name FROM duckdb_functions() WHERE database_name = 'catalog' AND NOT internal
"""


class DuckDBMetadata(CatalogFile):
    """A catalog in a DuckDB file: only one process can have it open."""

    kind: ClassVar[str] = "DuckDB"
    type: Literal["duckdb"] = "duckdb"
    metadata_schema: Annotated[
        Text | None,
        Field(examples=["lake"], description="Schema of the catalog's tables in the file; default `main`."),
    ] = None

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file is enough
        schema: dict[str, Value] = {"metadata_schema": self.metadata_schema} if self.metadata_schema else {}
        return {"metadata_path": f"duckdb:{self.uri}", **schema}

    def prepare(self, *, read_only: bool) -> None:
        super().prepare(read_only=read_only)
        path = self.file()
        # Other processes may write to the file while this process does not have it open, so check it every time.
        if path.is_file() and path.stat().st_size > 0:
            self.look_into(path)

    @classmethod
    def init_template(cls) -> InitTemplate:
        return InitTemplate({"uri": ".lakeconf/catalog.duckdb"})

    def make_empty(self, path: Path) -> None:
        import duckdb

        duckdb.connect(str(path)).close()

    def look_into(self, path: Path) -> None:
        import duckdb

        try:
            with duckdb.connect() as connection:
                connection.execute(f"ATTACH {literal(str(path))} AS catalog (READ_ONLY)")
                query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'catalog'"
                tables = [name for (name,) in connection.execute(query).fetchall()]
                stored = connection.execute(_STORED_SQL).fetchall()
        except duckdb.BinderException:
            return  # this process has it open, and reading it in another way would drop DuckDB's lock
        except duckdb.Error:
            super().look_into(path)
            return  # another process has the file open, or it has another version: ATTACH reports it
        refuse_foreign(path, self.kind, tables)
        for (name,) in stored:
            raise CatalogError(
                f"the catalog {path} contains the view or macro {name!r}, which DuckDB would run when it reads the "
                "catalog. Anyone who can write to the file could use it to read your files or steal your credentials",
                hint="drop it (DROP VIEW …, DROP MACRO …), and keep views and macros in the lake or in another file",
            )
