"""Data files in Azure Blob Storage, for DuckDB."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lakeconf.backends.backend import (
    SecretName,
    SecretParameters,
    StorageBackend,
    StoreNames,
    Text,
    fault,
)
from lakeconf.errors import UnsupportedError
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret, Value


class AzureStorage(StorageBackend):
    """A container of Azure Blob Storage.

    Source: https://duckdb.org/docs/stable/core_extensions/azure
    """

    type: Literal["azure"] = "azure"
    secret_name: SecretName | None = None
    container: Annotated[str, Field(pattern=r"^[a-z0-9-]{3,63}$", description="Name of the container.")]
    prefix: Annotated[Text | None, Field(description="Folder in the container.")] = None
    connection_string: Annotated[
        Secret | None, Field(description="The connection string; write it as a variable, `${AZURE_CONNECTION_STRING}`.")
    ] = None
    account_name: Annotated[Text | None, Field(description="The account, for a credential chain.")] = None
    secret_parameters: SecretParameters = {}  # noqa: RUF012 - pydantic copies it

    @model_validator(mode="after")
    def _has_one_kind_of_credentials(self) -> Self:
        given = [name for name in ("connection_string", "account_name", "secret_name") if getattr(self, name)]
        if not given:
            message = "no credentials: give connection_string, account_name, or the name of an existing secret"
            raise fault(message, wanted="secret_name", credentials=True)
        if self.connection_string and self.account_name:
            hint = "remove account_name, or connection_string"
            raise fault("give connection_string or account_name, not both", "connection_string", hint=hint)
        return self

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("azure",)

    @property
    def location(self) -> str:
        folder = f"{self.prefix.strip('/')}/" if self.prefix else ""
        return f"az://{self.container}/{folder}"

    def secrets(self, names: StoreNames) -> tuple[CreateSecret, ...]:
        options: dict[str, Value] = {}
        if self.connection_string is not None:
            options["connection_string"] = self.connection_string
        elif self.account_name is not None:
            options |= {"provider": "credential_chain", "account_name": self.account_name}
        else:
            return ()
        scope = {"scope": f"az://{self.container}/"}
        name = self.secret_name or names.storage_secret
        key = f"stores.{names.store}.storage_backend"
        return (CreateSecret(name, "azure", {**options, **self.secret_parameters, **scope}, key=key),)

    def hadoop_settings(self) -> dict[str, str | Secret]:
        raise UnsupportedError(
            "this example gives DuckDB the container, not Spark: Hadoop calls the files abfss://…, and DuckLake az://…",
            hint="open the store with DuckDB: store.open()",
        )
