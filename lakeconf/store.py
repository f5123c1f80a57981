"""A store: an alias, a metadata backend, a storage backend and attach options, composed into statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from lakeconf.backends.attach_options import attach_option_problem, reads_only
from lakeconf.backends.base import MetadataBackend, StorageBackend, StoreNames
from lakeconf.backends.metadata.migration import check_merged_files
from lakeconf.backends.secrecy import guard_options
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.errors import CatalogError, CatalogMissingError, CatalogVersionError, LakeconfError
from lakeconf.secret import Secret, Settings, masked
from lakeconf.secret import hidden as hide
from lakeconf.sql import Attach, CreateSecret, LoadExtension, Masked, Portable, Revealed, Statement, Use, Value

if TYPE_CHECKING:
    import duckdb

    from lakeconf.lake.lake import Lake

Builder = TypeVar("Builder", bound="SparkBuilder")
_MIGRATION = "automatic_migration"


class SparkBuilder(Protocol):
    """What `SparkSession.builder` can do, without pyspark."""

    def config(self: Builder, key: str, value: str, /) -> Builder:
        """Sets a setting."""
        ...


class Store:
    """Where a lake is, and how it is attached.

    Args:
        name: The store's name; gives the names of the secrets.
        metadata_backend: Where the catalog is.
        storage_backend: Where the Parquet files are; None where the metadata backend keeps them.
        alias: The name under which the lake is attached; the store's name unless given.
        attach_options: Options of ATTACH, such as `{"read_only": True}`.
        hidden: Values that are secrets elsewhere in the configuration: they are masked here as well.

    Raises:
        LakeconfError: The two backends do not compose, or an attach option does not exist.
    """

    def __init__(
        self,
        name: str,
        metadata_backend: MetadataBackend,
        storage_backend: StorageBackend | None = None,
        *,
        alias: str | None = None,
        attach_options: Mapping[str, Value] | None = None,
        hidden: Iterable[Secret] = (),
    ) -> None:
        refusal = metadata_backend.refusal(storage_backend)
        if refusal is not None:
            raise LakeconfError(f"stores.{name}: {metadata_backend.type} {refusal}")
        self.name = name
        self.metadata_backend = metadata_backend
        self.storage_backend = storage_backend
        self.attach_options = guard_options(attach_options or {})
        self.hidden = tuple(hidden)
        self.alias: str = hide(alias or metadata_backend.default_alias(name), self.secrets)
        for key, value in self.attach_options.items():
            problem = attach_option_problem(key, value)
            if problem is not None:
                raise LakeconfError(f"stores.{name}.attach_options.{key}: {problem}")

    def __repr__(self) -> str:
        text = (
            f"Store({self.name!r}, metadata_backend={self.metadata_backend!r}, "
            f"storage_backend={self.storage_backend!r}, alias={self.alias!r})"
        )
        return masked(text, self.secrets)

    def __getstate__(self) -> dict[str, Any]:
        # The secrets of other stores are no part of this one.
        return self.__dict__ | {"hidden": ()}

    @property
    def read_only(self) -> bool:
        """True where the lake is attached for reading only."""
        return reads_only(self.attach_options)

    @property
    def extensions(self) -> tuple[str, ...]:
        """The DuckDB extensions that the store needs, in the order in which they are loaded."""
        needed = ("ducklake", *self.metadata_backend.extensions)
        if self.storage_backend is not None:
            needed += self.storage_backend.extensions
        if self.attach_options.get("encrypted"):
            # DuckDB's own code reads encrypted files; that of httpfs writes them too.
            needed += ("httpfs",)
        return tuple(dict.fromkeys(needed))

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything that attaches the lake, as values: extensions, secrets, ATTACH, USE."""
        names = StoreNames(self.name, self.alias)
        attach = self.metadata_backend.statements(names, self.storage_backend, self.attach_options)
        settings = () if self.storage_backend is None else self.storage_backend.duckdb_settings
        secrets = self.secrets
        made = (_hidden_in(statement, secrets) for statement in (*settings, *attach))
        return (*(LoadExtension(name) for name in self.extensions), *made, Use(self.alias))

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret value of the store, for scrubbing text that others made."""
        backends = [self.metadata_backend, *([self.storage_backend] if self.storage_backend else [])]
        held = tuple(secret for backend in backends for secret in backend.secrets_held())
        options = (value for value in self.attach_options.values() if isinstance(value, Secret))
        return tuple(dict.fromkeys((*held, *options, *self.hidden)))

    def preview_sql(self, *, show_secrets: bool = False, portable: bool = False) -> list[str]:
        """The SQL that attaches the lake; nothing is opened.

        Args:
            show_secrets: Secret values in clear in place of `'***'`.
            portable: Secrets as `getenv('X')` and `INSTALL` before `LOAD`, for the DuckDB CLI on any machine.

        Returns:
            One statement a line, in the order in which they run.

        Raises:
            LakeconfError: A portable script is asked for, and a secret is a literal of the configuration.
        """
        if show_secrets and portable:
            raise LakeconfError("a portable script holds no secret: ask for show_secrets or for portable")
        rendering = Portable() if portable else Revealed() if show_secrets else Masked()
        return [statement.render(rendering) for statement in self.statements]

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Attaches the lake to a connection that somebody else owns, and makes it the default (`USE`).

        Args:
            connection: Any connection to DuckDB. Its secrets become temporary ones of that instance.

        Raises:
            CatalogError: The alias is in use, a secret of that name is somebody else's, or the catalog is no lake.
            ConnectionFailed: The catalog cannot be reached.
        """
        self.attach_to(Connection(connection, self.secrets))

    def for_reading(self, *, read_only: bool = True) -> Store:
        """The same store, attached so that no lake is created or migrated.

        Args:
            read_only: False where DuckLake must accept dry runs of maintenance, which it refuses on a read-only lake.
        """
        options = {key: value for key, value in self.attach_options.items() if key != _MIGRATION}
        options |= {"create_if_not_exists": False} | ({"read_only": True} if read_only else {})
        return Store(
            self.name,
            self.metadata_backend,
            self.storage_backend,
            alias=self.alias,
            attach_options=options,
            hidden=self.hidden,
        )

    def attach_to(self, connection: Connection) -> None:
        """Attaches the lake to a connection of lakeconf's own; otherwise as `attach`."""
        self._check_free(connection)
        try:
            creates_nothing = self.read_only or self.attach_options.get("create_if_not_exists") is False
            if self.attach_options.get("encrypted") and not creates_nothing:
                self.metadata_backend.make_private()
            self.metadata_backend.prepare(read_only=creates_nothing)
            if self.storage_backend is not None:
                self.storage_backend.prepare(read_only=creates_nothing)
            for statement in self.statements:
                self._run(connection, statement)
        except CatalogMissingError as error:
            file = self.metadata_backend.file()
            raise CatalogMissingError(
                f"store {self.name!r} has no lake yet{f' in {file}' if file else ''}; the first write creates it",
                hint=f"if there should be one, check where the store looks for it: lakeconf doctor {self.name}",
            ) from error

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Opens an instance of DuckDB in memory with the lake attached and in use.

        Returns:
            duckdb's own connection; the caller closes it.
        """
        return self._open().detach_native()

    def open_connection(self) -> Connection:
        """As `connect`, but errors are lakeconf's and show no secret, and no macro of the lake hides a function."""
        connection = self._open()
        connection.prefer_builtins(self.alias)
        return connection

    def _open(self) -> Connection:
        connection = connect(self.secrets)
        try:
            self.attach_to(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def open(self, engine: Any = None, *, read_only: bool = False) -> Lake:
        """Opens the lake.

        Args:
            engine: None for DuckDB; a SparkSession for Spark.
            read_only: Create, migrate and change nothing; a lake that does not exist yet is an error.

        Returns:
            The lake, pinned at its latest snapshot; a context manager.

        Raises:
            ConnectionFailed: The catalog cannot be reached.
            CatalogMissingError: There is no lake yet, and the store or `read_only` does not permit to create it.
            CatalogError: What answers is no lake, or of a version that lakeconf does not read.
            SparkVersionError: The session has a version of Spark that lakeconf does not support.
            SparkError: The session cannot reach the storage backend.
        """
        from lakeconf.lake.lake import Lake

        return Lake.open(self.for_reading() if read_only else self, engine)

    def spark_conf(self, *, packages: bool = True) -> Settings:
        """The settings with which a Spark session reaches the store's files.

        Args:
            packages: With `spark.jars.packages`, as it fits the installed Spark; False where the cluster has what is
                needed, or where you name your own packages.

        Returns:
            Spark's names of the settings and their values, in clear; its `repr` shows `***` for what is secret.
        """
        if self.storage_backend is None:
            return Settings({})
        needed = self.storage_backend.spark_packages() if packages else {}
        hadoop = {f"spark.hadoop.{key}": value for key, value in self.storage_backend.hadoop_settings().items()}
        return Settings({**needed, **hadoop})

    def configure(self, builder: Builder, *, packages: bool = True) -> Builder:
        """Gives a session's builder the settings of `spark_conf`.

        What a builder is given stands in the command line of the Java process that it starts, where every user of the
        machine can read it; `lakeconf.spark_session` hands secrets over after the start.

        Args:
            builder: `SparkSession.builder`.
            packages: As for `spark_conf`.

        Returns:
            The same builder.
        """
        for key, value in self.spark_conf(packages=packages).items():
            builder = builder.config(key, value)
        return builder

    def _run(self, connection: Connection, statement: Statement) -> None:
        if not (isinstance(statement, Attach) and statement.options.get(_MIGRATION)):
            connection.run(statement)
            return
        options = {key: value for key, value in statement.options.items() if key != _MIGRATION}
        try:
            connection.run(statement._replace(options=options))
        except CatalogVersionError as error:
            if not error.can_migrate:
                raise
            names = StoreNames(self.name, self.alias)
            check_merged_files(connection, self.metadata_backend, names, statement.options)
            connection.run(statement)

    def _check_free(self, connection: Connection) -> None:
        databases = "SELECT 1 FROM duckdb_databases() WHERE database_name = ?"
        if connection.rows(databases, [self.alias]):
            raise CatalogError(
                f"stores.{self.name}: the connection has a database {self.alias!r} already",
                hint=f"DETACH it, or give the store another alias: [stores.{self.name}] alias = …",
            )
        load_extension(connection, "ducklake")
        existing = dict(connection.rows("SELECT name, secret_string FROM duckdb_secrets()"))
        made_by_lakeconf = [text for name, text in existing.items() if name.startswith("lakeconf_")]
        for statement in self.statements:
            if isinstance(statement, CreateSecret) and statement.name.lower() in existing:
                self._check_own(statement, made_by_lakeconf)

    def _check_own(self, secret: CreateSecret, made_by_lakeconf: list[str]) -> None:
        scope = secret.options.get("scope")
        marks = (f"SECRET={secret.name}", *([f"data_path={scope}"] if scope else []))
        if secret.name.startswith("lakeconf_") or any(mark in text for mark in marks for text in made_by_lakeconf):
            return
        raise CatalogError(
            f"stores.{self.name}: the connection has a secret {secret.name!r} that lakeconf did not make",
            hint="leave the credentials away to refer to it, or choose another secret_name",
        )


def _hidden_in(statement: Statement, secrets: Sequence[Secret]) -> Statement:
    # The statements of lakeconf are named tuples; those of a third party's backend may be anything.
    make = getattr(statement, "_make", None)
    made: Statement = statement if make is None else make(hide(tuple(cast("Any", statement)), secrets))
    return made
