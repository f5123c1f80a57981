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

# Names alone: nothing is bound.
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

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file says it all
        schema: dict[str, Value] = {"metadata_schema": self.metadata_schema} if self.metadata_schema else {}
        return {"metadata_path": f"duckdb:{self.uri}", **schema}

    def prepare(self, *, read_only: bool) -> None:
        super().prepare(read_only=read_only)
        path = self.file()
        # Others may write to the file whenever this process does not have it open, so that one look is not enough.
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
            return  # this process has it open, and to read it in another way would drop DuckDB's lock
        except duckdb.Error:
            super().look_into(path)
            return  # a DuckDB file that another process has open, or of another version: ATTACH will say so
        refuse_foreign(path, self.kind, tables)
        for (name,) in stored:
            raise CatalogError(
                f"the catalog {path} has a view or a macro, {name!r}, which DuckDB would run whenever it reads the "
                "catalog: whoever can write to the file could read your files or send your credentials away by it",
                hint="keep views and macros in the lake or in another file: DROP VIEW …, DROP MACRO …",
            )
