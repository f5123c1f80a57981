"""A catalog in a DuckDB file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lakeconf.backends.base import StoreNames, Text
from lakeconf.backends.metadata.catalog_file import CatalogFile, refuse_foreign
from lakeconf.sql import Value, literal


class DuckDBMetadata(CatalogFile):
    """A catalog in a DuckDB file: only one process can have it open."""

    kind: ClassVar[str] = "DuckDB"
    type: Literal["duckdb"] = "duckdb"
    metadata_schema: Annotated[
        Text | None,
        Field(examples=["lake"], description="Schema of the catalog's tables inside the file; `main` unless given."),
    ] = None

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file says it all
        schema: dict[str, Value] = {"metadata_schema": self.metadata_schema} if self.metadata_schema else {}
        return {"metadata_path": f"duckdb:{self.uri}", **schema}

    def look_into(self, path: Path) -> None:
        import duckdb

        try:
            with duckdb.connect() as connection:
                connection.execute(f"ATTACH {literal(str(path))} AS catalog (READ_ONLY)")
                query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'catalog'"
                tables = [name for (name,) in connection.execute(query).fetchall()]
        except duckdb.BinderException:
            return  # this process has it open, and to read it in another way would drop DuckDB's lock
        except duckdb.Error:
            super().look_into(path)
            return  # a DuckDB file that another process has open, or of another version: ATTACH will say so
        refuse_foreign(path, self.kind, tables)
