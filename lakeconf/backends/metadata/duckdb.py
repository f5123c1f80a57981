"""A catalog in a DuckDB file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lakeconf.backends.base import StoreNames, Text
from lakeconf.backends.metadata.catalog_file import CatalogFile
from lakeconf.sql import Value


class DuckDBMetadata(CatalogFile):
    """A catalog in a DuckDB file: only one process can have it open."""

    kind: ClassVar[str] = "DuckDB"
    type: Literal["duckdb"] = "duckdb"
    metadata_schema: Annotated[
        Text | None, Field(description="Schema of the catalog's tables inside the file; `main` unless given.")
    ] = None

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the file says it all
        schema: dict[str, Value] = {"metadata_schema": self.metadata_schema} if self.metadata_schema else {}
        return {"metadata_path": f"duckdb:{self.uri}", **schema}
