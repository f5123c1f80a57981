"""The contracts of metadata backends and storage backends, and the types of their keys."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lakeconf.backends.secrecy import guard_parameters, holds_credentials
from lakeconf.backends.server import CatalogServer
from lakeconf.backends.store_options import reads_only
from lakeconf.connection.connection import Connection
from lakeconf.logs import escaped
from lakeconf.secret import Secret
from lakeconf.sql import Attach, CreateSecret, SetOption, Statement, Value

# What somebody may do with a lake. A maintainer may also remove files.
Role = Literal["reader", "writer", "maintainer"]
# Hints of faults in credentials, and in all of them.
ALL_CREDENTIALS = "set all of them, or omit them all to use the existing secret that secret_name names"
ANY_CREDENTIALS = "set all credentials, or omit them all to use the existing secret that secret_name names"
DUCKLAKE_SECRET_OPTIONS: Sequence[str] = ("encrypted",)
_REFERENCE = "Name of the DuckDB secret. Without credentials, the name of an existing secret."
_CHAIN = {"provider": "credential_chain"}


def fault(
    message: str, *keys: str, hint: str | None = None, wanted: str | None = None, credentials: bool = False
) -> PydanticCustomError:
    """An error about several keys of a backend, for its validators: `validate` shows the first key that is given.

    In the hint, `{table}` stands for the table. By default, it says how to write the key `wanted`, or the first key.
    """
    context = {"message": message, "keys": keys, "hint": hint, "wanted": wanted, "credentials": credentials}
    return PydanticCustomError("fault", "{message}", context)


def described(description: str, *, example: object, **limits: Any) -> Any:
    """A field of a backend, as the reference, the JSON Schema and hints show it."""
    return Field(description=description, examples=[example], **limits)


class StoreNames(NamedTuple):
    """The names of the objects that a store creates in DuckDB."""

    store: str  # the store's name. It contains no double underscore, so names of two stores never collide
    alias: str  # the name under which the lake is attached

    @property
    def ducklake_secret(self) -> str:
        """The name of the DuckLake secret, which contains no credentials."""
        return f"lakeconf_{self.store}"

    @property
    def metadata_secret(self) -> str:
        """The default name of the metadata backend's secret."""
        return f"lakeconf_{self.store}__metadata"

    @property
    def storage_secret(self) -> str:
        """The default name of the storage backend's secret."""
        return f"lakeconf_{self.store}__storage"


class Backend(BaseModel, ABC):
    """The base class of both kinds of backend.

    A subclass has a field `type: Literal["…"] = "…"`. Every other field has a description, from which the reference and
    the JSON Schema are generated. Relative paths are made absolute before a backend is created.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, strict=True, defer_build=True)

    type: str

    @property
    @abstractmethod
    def extensions(self) -> tuple[str, ...]:
        """The DuckDB extensions that the backend needs, in addition to `ducklake`."""

    @property
    def duckdb_settings(self) -> tuple[SetOption, ...]:
        """The DuckDB settings that the backend needs; they apply to the whole instance."""
        return ()

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        """The fields that contain local paths; a relative path is resolved against the configuration file."""
        return ()

    def prepare(self, *, read_only: bool) -> None:
        """Checks or creates files and folders that must exist before the lake is attached.

        Args:
            read_only: True if nothing may be created.

        Raises:
            CatalogError: The catalog file is something else.
            StorageError: A file or folder cannot be read or created.
        """

    def admit(self, connection: Connection) -> None:
        """Checks that attaching the lake to a connection, which has the extensions, runs no SQL of others.

        Raises:
            CatalogError: The catalog contains more than plain tables.
        """

    @model_validator(mode="after")
    def _parameters_are_no_fields(self) -> Self:
        parameters = [key.lower() for key in getattr(self, "secret_parameters", {})]
        for key in parameters:
            if key in type(self).model_fields:
                message = f"{key} is a key of the backend: move it out of secret_parameters"
                hint = f"move {key} from secret_parameters to [{{table}}]"
                raise fault(message, "secret_parameters", hint=hint, credentials=True)
            if parameters.count(key) > 1:
                message, hint = f"secret_parameters contain {key} twice", "upper and lower case are the same"
                raise fault(message, "secret_parameters", hint=f"remove one {key}: {hint}", credentials=True)
        return self

    @model_validator(mode="after")
    def _what_is_shown_holds_no_credentials(self) -> Self:
        for name, value in self:
            # A path can have any name, and has no scheme.
            texts = () if name in self.path_fields() else (leaf for leaf in _leaves(value) if isinstance(leaf, str))
            if any(holds_credentials(name, text) for text in texts):
                raise fault(f"{name} contains a user or a password: use separate keys for them", name)
        return self

    def secrets(self, names: StoreNames) -> tuple[CreateSecret, ...]:  # noqa: ARG002 - for those that have some
        """The secrets to create; empty if the backend refers to an existing secret.

        Args:
            names: The store's names.
        """
        return ()

    def grants(self, role: Role, name: str) -> str:  # noqa: ARG002 - for services that have roles
        """What an administrator runs or pastes to give a role its access; empty if the service has no such text.

        Args:
            role: What the role may do.
            name: The name of the role, for services with named roles.
        """
        return ""

    def secrets_held(self) -> tuple[Secret, ...]:
        """All secret values of the backend, to be scrubbed from messages."""
        return tuple(value for value in _leaves([field for _, field in self]) if isinstance(value, Secret))


def _leaves(value: Any) -> Iterator[Any]:
    """The values in a value, at every depth."""
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(item)
    else:
        yield value


class StorageBackend(Backend):
    """The contract of a storage backend, which defines where the Parquet files are."""

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

    @classmethod
    def hadoop_schemes(cls) -> tuple[str, ...]:
        """The schemes of DuckDB's URIs of this service that Hadoop spells in another way, as `hadoop_uri` does."""
        return ()

    @classmethod
    def hadoop_uri(cls, uri: str) -> str:
        """Hadoop's spelling of a URI of DuckDB with one of the `hadoop_schemes`; what follows the folder stays."""
        return uri

    def hadoop_settings(self) -> dict[str, str | Secret]:
        """The Hadoop settings with which Spark accesses the same files, without the prefix `spark.hadoop.`."""
        return {}

    def spark_packages(self) -> dict[str, str]:
        """The settings, such as `spark.jars.packages`, with which the installed Spark downloads its packages."""
        return {}


class MetadataBackend(Backend):
    """The contract of a metadata backend, which defines where the catalog is."""

    # Default ATTACH options for stores that are not read-only.
    write_defaults: ClassVar[Mapping[str, Value]] = {}
    # SQL that returns `ok` if the file of a database is whole; empty if DuckDB itself checks what it reads.
    integrity: ClassVar[str] = ""

    def refusal(self, storage: StorageBackend | None) -> str | None:
        """The reason why this backend cannot be combined with `storage`, in one sentence; None if it can."""
        return "needs a storage_backend, which defines where the Parquet files are" if storage is None else None

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
        """Default ATTACH options."""
        # Without inlined rows, positions of rows in files are stable, and nested strings keep their quotes.
        return {"data_inlining_row_limit": 0}

    def statements(
        self, names: StoreNames, storage: StorageBackend | None, attach_options: Mapping[str, Value]
    ) -> tuple[Statement, ...]:
        """Secrets first, then ATTACH.

        Args:
            names: The store's names.
            storage: The storage backend, accepted by `refusal`.
            attach_options: The ATTACH options.

        Returns:
            The statements that run after the extensions are loaded and before `USE`.
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
        """The options of the DuckLake secret that define where the catalog is, such as `METADATA_PATH`."""

    def with_own_credentials(self) -> Self:
        """This backend, with explicit credentials instead of those that it would take from the environment."""
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
        """The location of the catalog, for messages; contains no secret."""
        file, server = self.file(), self.server()
        if file is not None:
            return str(file)
        return self.type if server is None else f"{self.type} {server.description}"

    def make_private(self) -> None:
        """Creates a missing catalog file, accessible only to its owner, because it will contain encryption keys."""


def _no_control(text: str) -> str:
    # A line break would add a line to files that lakeconf writes for other tools.
    if escaped(text) != text:
        raise ValueError("must not contain control characters, such as line ends")
    return text


def _option_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        allowed = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_")
        hint = f"rename it to {allowed}" if allowed else "remove it"
        message = "the name of an option must contain only letters, digits and underscores"
        raise fault(message, hint=hint)
    return text


def _secret_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("the name of a secret must contain only letters, digits and underscores")
    if text.lower().startswith("lakeconf_"):
        raise ValueError("names that start with lakeconf_ are reserved for secrets that lakeconf creates")
    return text


# Not `Field(min_length=1)`: pydantic 2.9 stores the default of a field in a `Field` that other fields share.
Text = Annotated[str, StringConstraints(min_length=1), AfterValidator(_no_control)]
OptionName = Annotated[str, AfterValidator(_option_name)]
SecretName = Annotated[str, AfterValidator(_secret_name), Field(examples=["lake_secret"], description=_REFERENCE)]
ParameterValue = bool | int | float | Text | list[Text] | dict[str, Text]


def _guard_checked(value: Any, check: ValidatorFunctionWrapHandler) -> dict[str, Value]:
    # pydantic returns plain strings, but a secret must keep the name of its variable.
    check(_plain(value))
    return guard_parameters(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.reveal() if isinstance(value, Secret) else value


SecretParameters = Annotated[
    dict[OptionName, ParameterValue],
    WrapValidator(_guard_checked),
    Field(examples=[_CHAIN], description="Additional parameters of DuckDB's CREATE SECRET."),
]
