"""A catalog in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lakeconf.backends.base import (
    MetadataBackend,
    SecretName,
    SecretParameters,
    StoreNames,
    Text,
)
from lakeconf.backends.metadata.libpq import default_password
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret, Value, identifier


class PostgresMetadata(MetadataBackend):
    """A catalog in PostgreSQL: many processes on many machines may read and write."""

    type: Literal["postgres"] = "postgres"
    secret_name: SecretName | None = None
    host: Annotated[Text | None, Field(examples=["${PGHOST}"], description="Host name or address of the server.")] = (
        None
    )
    port: Annotated[
        int | None, Field(ge=1, le=65535, examples=[5432], description="Port of the server; default 5432.")
    ] = None
    database: Annotated[Text | None, Field(examples=["lake"], description="Name of the database.")] = None
    user: Annotated[Text | None, Field(examples=["lake"], description="Name of the role.")] = None
    password: Annotated[
        Secret | None,
        Field(
            examples=["${LAKE_PG_PASSWORD}"],
            description="Password of the role; use a variable, such as `${LAKE_PG_PASSWORD}`.",
        ),
    ] = None
    metadata_schema: Annotated[
        Text,
        Field(
            examples=["lake"],
            description="Schema of the catalog's tables; stores with different schemas are separate lakes.",
        ),
    ] = "public"
    secret_parameters: SecretParameters = {}

    @model_validator(mode="after")
    def _credentials_are_whole(self) -> Self:
        given = [name for name in ("host", "database", "user") if getattr(self, name) is not None]
        missing = [name for name in ("host", "database", "user") if getattr(self, name) is None]
        if given and missing:
            raise ValueError(f"half-given credentials: {', '.join(given)} without {', '.join(missing)}")
        if not given:
            self._check_reference()
        return self

    def _check_reference(self) -> None:
        for name in ("password", "port"):
            if getattr(self, name) is not None:
                raise ValueError(f"half-given credentials: {name} without host, database and user")
        if self.secret_parameters:
            raise ValueError("secret_parameters need host, database and user: an existing secret is not changed")
        if self.secret_name is None:
            raise ValueError("no credentials: give host, database and user, or the secret_name of an existing secret")

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("postgres_scanner",)

    def secrets(self, names: StoreNames) -> tuple[CreateSecret, ...]:
        if self.host is None:
            return ()
        fields = ("host", "port", "database", "user", "password")
        given: dict[str, Value] = {name: getattr(self, name) for name in fields if getattr(self, name) is not None}
        options = given | self.secret_parameters
        key = f"stores.{names.store}.metadata_backend"
        return (CreateSecret(self.secret_name or names.metadata_secret, "postgres", options, key=key),)

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:
        return {
            "metadata_path": "",
            "metadata_schema": self.metadata_schema,
            "metadata_parameters": {"TYPE": "postgres", "SECRET": self.secret_name or names.metadata_secret},
        }

    def with_own_credentials(self) -> Self:
        own = self.password is not None or {"password", "passfile"} & self.secret_parameters.keys()
        if own or self.host is None or self.database is None or self.user is None:
            return self
        found = default_password(self.host, self.port or 5432, self.database, self.user)
        return self if not found else self.model_copy(update={"password": Secret(found)})

    def lock_sql(self, key: int, *, shared: bool = False) -> str | None:
        # Held to the end of a transaction: a lock of the session would outlive it in a pool of connections.
        kind = "_shared" if shared else ""
        return f"SELECT 1 FROM (SELECT pg_advisory_xact_lock{kind}({key})) AS held"

    def barrier_sql(self) -> str | None:
        # This mode waits for everybody who has written to the table and has not ended, and for nobody who reads it.
        table = f"{identifier(self.metadata_schema)}.ducklake_snapshot"
        return f"SET LOCAL lock_timeout = '10s'; LOCK TABLE {table} IN SHARE MODE"
