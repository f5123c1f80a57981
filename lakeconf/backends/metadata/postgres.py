"""A catalog in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lakeconf.backends.base import MetadataBackend, StoreNames
from lakeconf.backends.fields import SecretName, SecretParameters, Text
from lakeconf.backends.init_template import InitTemplate
from lakeconf.backends.metadata.libpq import default_password
from lakeconf.backends.metadata.postgres_server import DEFAULT_SCHEMA, PostgresServer
from lakeconf.backends.server import ServerAddress
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret, Value

DEFAULT_PORT = 5432
_WITH_TLS = ("require", "verify-ca", "verify-full")


class PostgresMetadata(MetadataBackend):
    """A catalog in PostgreSQL, for concurrent reads and writes from several machines."""

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
    ] = DEFAULT_SCHEMA
    secret_parameters: SecretParameters = {}

    @model_validator(mode="after")
    def _credentials_are_whole(self) -> Self:
        given = [name for name in ("host", "database", "user") if getattr(self, name) is not None]
        missing = [name for name in ("host", "database", "user") if getattr(self, name) is None]
        if given and missing:
            raise ValueError(f"incomplete credentials: {', '.join(given)} without {', '.join(missing)}")
        if not given:
            self._check_reference()
        return self

    def _check_reference(self) -> None:
        for name in ("password", "port"):
            if getattr(self, name) is not None:
                raise ValueError(f"incomplete credentials: {name} without host, database and user")
        if self.secret_parameters:
            raise ValueError(
                "secret_parameters need host, database and user: lakeconf does not change existing secrets"
            )
        if self.secret_name is None:
            raise ValueError("no credentials: set host, database and user, or the secret_name of an existing secret")

    @classmethod
    def init_template(cls) -> InitTemplate:
        # libpq sends PGPASSWORD to any server that asks for a password, so the variable has another name. It also
        # connects without TLS if the server offers none, unless sslmode requires TLS.
        password = "${LAKE_PG_PASSWORD}"  # noqa: S105 - a variable
        return InitTemplate(
            {"host": "${PGHOST}", "database": "lake", "user": "${PGUSER}", "password": password},
            secret_parameters={"sslmode": "${LAKE_PG_SSLMODE:-require}"},
        )

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
        found = default_password(self.host, self.port or DEFAULT_PORT, self.database, self.user)
        return self if not found else self.model_copy(update={"password": Secret(found)})

    def server(self) -> PostgresServer:
        parameters = {key.lower(): value for key, value in self.secret_parameters.items()}
        address = None
        if self.host is not None and self.database is not None and self.user is not None:
            address = ServerAddress(self.host, self.port or DEFAULT_PORT, self.database, self.user)
        return PostgresServer(
            name=f"secret {self.secret_name}",
            address=address,
            secret=self.secret_name,
            requires_tls=parameters.get("sslmode") in _WITH_TLS,
        )
