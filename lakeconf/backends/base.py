"""The two contracts that a backend fulfils."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, model_validator

from lakeconf.backends.attach_options import reads_only
from lakeconf.backends.init_template import InitTemplate
from lakeconf.backends.secrecy import holds_credentials
from lakeconf.backends.server import CatalogServer
from lakeconf.secret import Secret
from lakeconf.sql import Attach, CreateSecret, SetOption, Statement, Value


class StoreNames(NamedTuple):
    """The names that a store gives to what it makes in DuckDB.

    Attributes:
        store: The store's name; it has no double underscore, so the names of two stores never collide.
        alias: The name under which the lake is attached.
    """

    store: str
    alias: str

    @property
    def ducklake_secret(self) -> str:
        """The DuckLake secret, which holds no credential."""
        return f"lakeconf_{self.store}"

    @property
    def metadata_secret(self) -> str:
        """The secret of the metadata backend, where the configuration does not name it."""
        return f"lakeconf_{self.store}__metadata"

    @property
    def storage_secret(self) -> str:
        """The secret of the storage backend, where the configuration does not name it."""
        return f"lakeconf_{self.store}__storage"


class Backend(BaseModel, ABC):
    """What both kinds of backend have in common.

    A subclass has a field `type: Literal["…"] = "…"`, and every other field with a description, from which the
    reference and the JSON Schema are made. Relative paths have been made absolute before it is built.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, strict=True, defer_build=True)

    type: str

    @property
    @abstractmethod
    def extensions(self) -> tuple[str, ...]:
        """The DuckDB extensions that it needs, besides `ducklake`."""

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        """The fields that are paths on this machine, which a configuration file makes absolute."""
        return ()

    @classmethod
    def init_template(cls) -> InitTemplate:
        """What `lakeconf init` asks for and writes; by default the required fields."""
        return InitTemplate({name: None for name, field in cls.model_fields.items() if field.is_required()})

    def prepare(self, *, read_only: bool) -> None:
        """Checks or makes what must be there before the lake is attached, such as a folder.

        Args:
            read_only: True where nothing may be made.

        Raises:
            CatalogError: What is there is something else.
            StorageError: It cannot be read or made.
        """

    @model_validator(mode="after")
    def _parameters_are_no_fields(self) -> Self:
        parameters = [key.lower() for key in getattr(self, "secret_parameters", {})]
        for key in parameters:
            if key in type(self).model_fields:
                raise ValueError(f"{key} is a key of the backend itself: move it out of secret_parameters")
            if parameters.count(key) > 1:
                raise ValueError(f"secret_parameters give {key} twice")
        return self

    @model_validator(mode="after")
    def _what_is_shown_holds_no_credentials(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name in self.path_fields():
                continue  # a path may be called anything, and has no scheme
            for text in _texts_in(value):
                if holds_credentials(name, text):
                    raise ValueError(f"{name} holds a user or a password: give them by keys of their own")
        return self

    def secrets_held(self) -> tuple[Secret, ...]:
        """Every secret value of the backend, for the scrubber."""
        return tuple(_secrets_in([getattr(self, name) for name in type(self).model_fields]))


def _secrets_in(value: Any) -> list[Secret]:
    if isinstance(value, Secret):
        return [value]
    if isinstance(value, Mapping):
        return _secrets_in(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [secret for item in value for secret in _secrets_in(item)]
    return []


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return _texts_in(list(value.values()))
    return [text for item in value for text in _texts_in(item)] if isinstance(value, list | tuple) else []


class StorageBackend(Backend):
    """Where the Parquet files are."""

    # True if only this machine, and those that mount the same path, reach the files.
    on_this_machine: ClassVar[bool] = False

    @property
    @abstractmethod
    def location(self) -> str:
        """The folder of the lake's files: an absolute path or canonical URI that ends in `/`."""

    @property
    def namespace(self) -> str:
        """The service in which `location` is unique; by default the scheme of its URI.

        Two stores have the same files if both the service and the location are equal.
        """
        return self.location.partition("://")[0]

    @property
    def duckdb_settings(self) -> tuple[SetOption, ...]:
        """Settings with which DuckDB reaches the files; they hold for its whole instance."""
        return ()

    def secrets(self, names: StoreNames, *, in_motherduck: bool = False) -> tuple[CreateSecret, ...]:  # noqa: ARG002
        """The secrets to create; none where an existing one is referred to.

        Args:
            names: The store's names.
            in_motherduck: True where MotherDuck keeps them.
        """
        return ()

    def hadoop_settings(self) -> dict[str, str | Secret]:
        """The Hadoop settings, without the prefix `spark.hadoop.`, with which Spark reaches the same files."""
        return {}

    def spark_packages(self) -> dict[str, str]:
        """The settings, `spark.jars.packages` and the like, with which the installed Spark gets what that takes."""
        return {}


class MetadataBackend(Backend):
    """Where the catalog is."""

    # Options of ATTACH that are set for writing only, where the store does not set them otherwise.
    write_defaults: ClassVar[Mapping[str, Value]] = {}
    # True if the backend can keep the Parquet files itself. It then composes with no storage on this machine.
    keeps_files: ClassVar[bool] = False

    def refusal(self, storage: StorageBackend | None) -> str | None:
        """Why this backend does not compose with `storage`, in one sentence; None where it does."""
        return "needs a storage_backend: say where the Parquet files are" if storage is None else None

    @classmethod
    def default_alias(cls, store: str, fields: Mapping[str, Any]) -> str:  # noqa: ARG003 - for those that name it
        """The alias of a store without one.

        Args:
            store: The store's name.
            fields: The fields of the backend; some may be missing or wrong.
        """
        return store

    @property
    def attach_defaults(self) -> Mapping[str, Value]:
        """Options of ATTACH, where the store does not set them otherwise."""
        # Positions of rows in files are stable, and nested text keeps its quotes, only where nothing is inlined.
        return {"data_inlining_row_limit": 0}

    def secrets(self, names: StoreNames) -> tuple[CreateSecret, ...]:  # noqa: ARG002 - for those that have some
        """The secrets to create; none where an existing one is referred to."""
        return ()

    def statements(
        self, names: StoreNames, storage: StorageBackend | None, attach_options: Mapping[str, Value]
    ) -> tuple[Statement, ...]:
        """Secrets first, then ATTACH.

        Args:
            names: The store's names.
            storage: The storage backend that `refusal` has let pass.
            attach_options: Options of ATTACH.

        Returns:
            The statements between the loading of extensions and `USE`.
        """
        write_defaults = {} if reads_only(attach_options) else self.write_defaults
        attach_options = {**self.attach_defaults, **write_defaults, **attach_options}
        options = dict(self.ducklake_options(names))
        if storage is not None:
            options["data_path"] = storage.location
        of_secret = {key: attach_options[key] for key in DUCKLAKE_SECRET_OPTIONS if key in attach_options}
        of_attach = {key: value for key, value in attach_options.items() if key not in of_secret}
        return (
            *self.secrets(names),
            *(storage.secrets(names) if storage is not None else ()),
            CreateSecret(names.ducklake_secret, "ducklake", options | of_secret),
            Attach(
                f"ducklake:{names.ducklake_secret}", names.alias, of_attach, key=f"stores.{names.store}.attach_options"
            ),
        )

    @abstractmethod
    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:
        """The options of the DuckLake secret that say where the catalog is: `METADATA_PATH` and its like."""

    def with_own_credentials(self) -> Self:
        """The same backend, but with credentials of its own where it would take them from the environment."""
        return self

    def catalog_schema(self, names: StoreNames) -> str | None:
        """The schema of the catalog's tables; None for the default of the metadata database."""
        schema = self.ducklake_options(names).get("metadata_schema")
        return None if schema is None else str(schema)

    def file(self) -> Path | None:
        """The catalog's file, if it is one on this machine."""
        return None

    def server(self) -> CatalogServer | None:
        """The server that keeps the catalog; None if the catalog is a file, or the server has no locks."""
        return None

    def description(self) -> str:
        """Where the catalog is, for messages; never a secret."""
        file, server = self.file(), self.server()
        if file is not None:
            return str(file)
        return self.type if server is None else f"{self.type} {server.description}"

    def make_private(self) -> None:
        """Creates the catalog's file, if it does not exist, for its owner only: it will hold encryption keys."""


DUCKLAKE_SECRET_OPTIONS: Sequence[str] = ("encrypted", "metadata_catalog")
