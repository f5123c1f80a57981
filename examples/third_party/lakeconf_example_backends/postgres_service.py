"""A catalog in a PostgreSQL database that is configured in a service file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from lakeconf.backends.backend import MetadataBackend, StoreNames, Text
from lakeconf.backends.server import CatalogServer
from lakeconf.sql import Value


class PostgresServiceMetadata(MetadataBackend):
    """A catalog in PostgreSQL whose host, user and password are in the service file of this machine.

    Source: https://www.postgresql.org/docs/current/libpq-pgservice.html
    """

    type: Literal["postgres_service"] = "postgres_service"
    service: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_.-]+$", description="Name of the service in `pg_service.conf`.")
    ]
    metadata_schema: Annotated[Text, Field(description="Schema of the catalog's tables.")] = "public"

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("postgres_scanner",)

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - there is no secret to name
        return {"metadata_path": f"postgres:service={self.service}", "metadata_schema": self.metadata_schema}

    def server(self) -> CatalogServer:
        return CatalogServer(name=f"service {self.service}")
