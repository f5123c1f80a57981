"""Stores: combine an alias, a metadata backend, a storage backend and attach options into statements."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lakeconf.arguments import check_flags, native_connection
from lakeconf.backends.access import Reread
from lakeconf.backends.backend import MetadataBackend, StorageBackend, StoreNames
from lakeconf.backends.metadata.migration import check_merged_files
from lakeconf.backends.secrecy import guard_options
from lakeconf.backends.store_options import (
    StoreError,
    check_attach_options,
    check_options,
    checked_committer,
    creates_nothing,
    reads_only,
)
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.ducklake import MARKER, MOVING, PARENT, metadata_database
from lakeconf.errors import (
    BranchError,
    CatalogError,
    CatalogLostError,
    CatalogMissingError,
    CatalogVersionError,
    LakeconfError,
    QueryError,
    storage_errors,
)
from lakeconf.secret import Secret, Settings, masked
from lakeconf.secret import hidden as hide
from lakeconf.sql import (
    Attach,
    CreateSecret,
    LoadExtension,
    Masked,
    Portable,
    Revealed,
    Statement,
    Use,
    Value,
    folded,
    identifier,
    listing_sql,
)

if TYPE_CHECKING:
    import duckdb

    from lakeconf.guard.backups import Backup
    from lakeconf.guard.pins import Pin
    from lakeconf.lake.branches.branching import Branch
    from lakeconf.lake.lake import Lake
    from lakeconf.transfer.backup import BackupState
    from lakeconf.transfer.move import MovePlan
    from lakeconf.transfer.restore_lake import LakeRestorePlan

_NAME = 'pass the name of the store: Store("dev", …)'
_METADATA = 'pass a backend: SQLiteMetadata(uri="catalog.sqlite"); get_store() makes a store from TOML'
_STORAGE = 'pass a backend: LocalStorage(path="data"), or None if the metadata backend keeps the files'
_MIGRATION = "automatic_migration"
# A branch attaches the other lake under another name, and reads it at a snapshot of its own.
_OWN_OPTIONS = frozenset({"metadata_catalog", "snapshot_time", "snapshot_version"})


@dataclass(frozen=True, eq=False, repr=False)
class Store:
    """The location of a lake and how to attach it.

    Args:
        name: The store's name; it determines the names of the secrets.
        metadata_backend: The location of the catalog.
        storage_backend: The location of the Parquet files; None if the metadata backend stores them.
        alias: The name under which the lake is attached; default: the store's name.
        attach_options: Options of ATTACH, such as `{"read_only": True}`.
        committer: How merges of Spark are committed: `auto`, `public` or `staged`.
        hidden: Secrets elsewhere in the configuration, to be masked here as well.
        maintenance: Limits of maintenance, such as `{"deadline": "30m", "memory_limit": "4GB"}`.
        branch_of: The store of the lake that this one is a branch of.
        config: The file that declares the store; None if Python code made it.
        reread: Reads the storage backend again, in another process.

    Raises:
        LakeconfError: The backends cannot be combined, or an option or a limit is invalid.
    """

    name: str
    metadata_backend: MetadataBackend
    storage_backend: StorageBackend | None = None
    _: KW_ONLY
    alias: str = ""
    attach_options: Mapping[str, Value] = field(default_factory=dict)
    committer: str = "auto"
    hidden: Iterable[Secret] = ()
    maintenance: Mapping[str, str] = field(default_factory=dict)
    branch_of: Store | None = None
    config: str | None = None
    reread: Reread | None = None

    def __post_init__(self) -> None:
        check_arguments(self.name, self.metadata_backend, self.storage_backend, self.alias)
        if (refusal := self.metadata_backend.refusal(self.storage_backend)) is not None:
            raise StoreError(self.name, "", f"{self.metadata_backend.type} {refusal}")
        options = guard_options(self.attach_options or {})
        limits = dict(self.maintenance or {})
        checked_committer(self.name, self.committer)
        vars(self).update(attach_options=options, maintenance=limits, hidden=tuple(self.hidden))
        chosen = self.alias or self.metadata_backend.default_alias(self.name, dict(self.metadata_backend))
        vars(self).update(alias=chosen if chosen == self.name else hide(chosen, self.secrets))
        check_options(self.name, "attach_options", options)
        check_options(self.name, "maintenance", limits)
        check_attach_options(self.name, options, self.alias)
        if self.branch_of is not None:
            _check_branch(self, self.branch_of)

    def __repr__(self) -> str:
        text = (
            f"Store({self.name!r}, metadata_backend={self.metadata_backend!r}, "
            f"storage_backend={self.storage_backend!r}, alias={self.alias!r})"
        )
        return masked(text, self.secrets)

    def __getstate__(self) -> dict[str, Any]:
        # Do not pickle the secrets of other stores.
        return self.__dict__ | {"hidden": ()}

    @property
    def names(self) -> StoreNames:
        """The names of the objects that the store creates in DuckDB."""
        return StoreNames(self.name, self.alias)

    @property
    def read_only(self) -> bool:
        """True if the lake is attached read-only."""
        return reads_only(self.attach_options)

    @property
    def parent(self) -> Store | None:
        """The store of the lake that this one is a branch of, as the branch attaches it; None if it is no branch."""
        if self.branch_of is None:
            return None
        options = {key: value for key, value in self.branch_of.attach_options.items() if key not in _OWN_OPTIONS}
        return for_reading(self.branch_of.replace(alias=PARENT, attach_options=options))

    @property
    def extensions(self) -> tuple[str, ...]:
        """The DuckDB extensions that the store needs, in loading order."""
        storage = () if self.storage_backend is None else self.storage_backend.extensions
        needed = ("ducklake", *self.metadata_backend.extensions, *storage)
        if self.attach_options.get("encrypted"):
            # DuckDB itself can only read encrypted files; writing them needs httpfs.
            needed += ("httpfs",)
        return tuple(dict.fromkeys(needed))

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements that attach the lake: extensions, settings, secrets, ATTACH, USE; of a branch, both lakes."""
        parent = self.parent
        if parent is None:
            return self.own_statements
        before = [statement for statement in parent.statements if not isinstance(statement, Use)]
        return (*before, *(statement for statement in self.own_statements if statement not in before))

    @property
    def own_statements(self) -> tuple[Statement, ...]:
        """The same without the lake that this one is a branch of."""
        options = dict(self.attach_options)
        if self.branch_of is not None:  # only `lakeconf branch` creates it
            options["create_if_not_exists"] = False
        attach = self.metadata_backend.statements(self.names, self.storage_backend, options)
        storage = () if self.storage_backend is None else self.storage_backend.duckdb_settings
        settings = (*self.metadata_backend.duckdb_settings, *storage)
        secrets = self.secrets
        statements = (_hidden_in(statement, secrets, self.names) for statement in (*settings, *attach))
        return (*(LoadExtension(name) for name in self.extensions), *statements, Use(self.alias))

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret value of the store, to mask them in text of other programs."""
        backends = [self.metadata_backend, *([self.storage_backend] if self.storage_backend else [])]
        of_backends = tuple(secret for backend in backends for secret in backend.secrets_held())
        options = (value for value in self.attach_options.values() if isinstance(value, Secret))
        of_parent = () if self.branch_of is None else self.branch_of.secrets
        return tuple(dict.fromkeys((*of_backends, *options, *of_parent, *self.hidden)))

    def preview_sql(self, *, show_secrets: bool = False, portable: bool = False) -> list[str]:
        """Returns the SQL that attaches the lake, without connecting.

        Args:
            show_secrets: True to show secret values in clear text instead of `'***'`.
            portable: True to write secrets as `getenv('X')`, for the DuckDB CLI on any machine.

        Returns:
            The statements, in the order in which they run.

        Raises:
            LakeconfError: `portable` is set, but a secret is a literal in the configuration.
        """
        check_flags(show_secrets=show_secrets, portable=portable)
        if show_secrets and portable:
            raise LakeconfError("a portable script contains no secrets: set either show_secrets or portable")
        rendering = Portable() if portable else Revealed() if show_secrets else Masked()
        return [statement.render(rendering) for statement in self.statements]

    def attach(self, connection: Any, *, use: bool = True) -> None:
        """Attaches the lake to an existing connection of DuckDB, or to a Spark session: its SQL then names the tables.

        Args:
            connection: Any connection to DuckDB: the store's secrets become temporary secrets of its instance. Or a
                classic Spark session, in which the alias becomes a catalog; the lake is opened when a query names it.
            use: False to keep the connection's default database; True to make the lake the default (`USE`).

        Raises:
            CatalogError: The alias is in use, the connection has another secret of the same name, or the catalog is
                not a lake.
            ConnectionFailed: The catalog cannot be reached.
            SparkError: It is a session of Spark Connect, or has another catalog with the name of the alias.
        """
        check_flags(use=use)
        if hasattr(connection, "createDataFrame"):
            from lakeconf.lake.named_lake import attach_to_spark

            attach_to_spark(self, connection, use=use)
        else:
            attach_to(self, Connection(native_connection(connection), self.secrets), uses=use)

    def replace(self, **changes: Any) -> Store:
        """Returns a copy with other arguments of the constructor; everything else stays as it is.

        Args:
            **changes: The new values, such as `alias="other"`.
        """
        return replace(self, **changes)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Opens an in-memory DuckDB instance with the lake as the default database.

        Returns:
            A duckdb connection; the caller must close it. DuckDB can lose rows of older snapshots: see Guarantees.
        """
        return _opened(self).detach_native()

    def open(self, engine: Any = None, *, read_only: bool = False) -> Lake:
        """Opens the lake.

        Args:
            engine: None for DuckDB; a SparkSession for Spark.
            read_only: True to create, migrate and change nothing; the lake must exist.

        Returns:
            The lake at its latest snapshot, or at that of `snapshot_version` or `snapshot_time`; a context manager.

        Raises:
            ConnectionFailed: The catalog cannot be reached.
            CatalogMissingError: The lake does not exist, and the store or `read_only` does not allow creating it.
            CatalogError: The catalog is not a lake, or lakeconf does not support its version.
            SparkVersionError: The session has a version of Spark that lakeconf does not support.
            SparkError: The session cannot reach the storage backend.
        """
        from lakeconf.lake.lake import Lake

        check_flags(read_only=read_only)
        return Lake.open(for_reading(self) if read_only else self, engine)

    def back_up(self, to: str) -> Backup:
        """Backs up the catalog at its newest snapshot, while writers go on. The data files stay where they are.

        Args:
            to: A folder, or a URI such as `s3://bucket/backups`, which the credentials of the store's storage must
                reach. Each backup is a new folder below it.

        Returns:
            The backup.

        Raises:
            CatalogError: There is no lake, or its catalog cannot be copied.
            ConnectionFailed: The catalog cannot be reached, or this process has a catalog in DuckDB open.
            StorageError: The backup cannot be written.
            UnsupportedError: The store has no credentials for the URI, or the lake is encrypted and its files are in
                the same bucket: the backup has their keys.
        """
        from lakeconf.transfer.backup import back_up

        return back_up(self, to)

    def backups(self, place: str) -> list[BackupState]:
        """The backups in a place, newest first, each with the files that it needs and that do not exist.

        Args:
            place: The folder or URI, as for `back_up`.

        Raises:
            StorageError: The place does not exist, or cannot be read.
            UnsupportedError: The store has no credentials for the URI.
        """
        from lakeconf.transfer.backup import list_backups

        return list_backups(self, place)

    def plan_restore_lake(self, backup: str, *, adopt_later: bool = False) -> LakeRestorePlan:
        """What `restore_lake` would do, and which commits it would lose; nothing is changed.

        The errors are those of `restore_lake`.
        """
        from lakeconf.transfer.restore_lake import plan_restore_lake

        return plan_restore_lake(self, backup, adopt_later=adopt_later)

    def restore_lake(
        self, backup: str, *, plan: LakeRestorePlan | None = None, adopt_later: bool = False
    ) -> LakeRestorePlan:
        """Puts the catalog of a backup in the place of this lake's catalog, or where there is none.

        An existing catalog is backed up beside the backup before it is replaced in one transaction. Lakes that are open
        must be opened again.

        Args:
            backup: The folder or URI of the backup.
            plan: The result of `plan_restore_lake`: if the lake has changed since, nothing is done.
            adopt_later: True to bring back the files of later appends to tables that later commits only appended to,
                in one more snapshot. Nothing else of these commits comes back, such as idempotency keys.

        Returns:
            What was done.

        Raises:
            CatalogError: The backup is damaged, or is that of another lake.
            CatalogChangedError: The lake has changed since the plan, or a program without lakeconf's locks wrote to it.
            CommitError: A writer was active all the time.
            StorageError: A file that the backup needs is missing.
        """
        from lakeconf.transfer.restore_lake import restore_lake

        return restore_lake(self, backup, plan, adopt_later=adopt_later)

    def create_branch(self, *, at: int | None = None) -> Branch:
        """Makes this store's lake a branch of the lake that `branch_of` names: no data is copied.

        Its tables are those of that lake at one snapshot, which the maintenance of that lake then keeps. For a branch
        that exists, only this pin is renewed.

        Args:
            at: The snapshot; by default the newest.

        Returns:
            The branch, with the views and macros that it does not have.

        Raises:
            BranchError: The store is no branch, its lake has something else already, or it is the same lake.
            SnapshotNotFoundError: There is no such snapshot.
        """
        from lakeconf.lake.branches.branching import create_branch

        return create_branch(self, at)

    def drop_branch(self) -> None:
        """Drops everything in this branch, with its files and its pin; `BranchError` if it is none.

        An empty lake remains. After a `CommitError`, as writers were active all the time, call it again.
        """
        from lakeconf.lake.branches.branching import drop_branch

        drop_branch(self)

    def branches(self) -> list[Pin]:
        """The branches of this lake, each with the snapshot that maintenance keeps for it."""
        from lakeconf.lake.branches.branching import branches

        return branches(self)

    def plan_move(self, target: Store) -> MovePlan:
        """What `move_to` would copy; nothing is changed. The errors are those of `move_to`."""
        from lakeconf.transfer.move import plan_move

        return plan_move(self, target)

    def move_to(self, target: Store, *, progress: Callable[[int, int], None] | None = None) -> MovePlan:
        """Moves the lake with its whole history to another catalog and other storage. This lake is not changed.

        Writers of lakeconf wait until it has ended. A killed move continues when it is called again.

        Args:
            target: A store without a lake.
            progress: Called after each file with the copied bytes, and all bytes to copy.

        Returns:
            What was moved.

        Raises:
            CatalogError: The target is not empty, this lake does not exist, or its catalog has another version.
            CatalogChangedError: A program without lakeconf's locks wrote to this lake meanwhile.
            CommitError: A writer was active all the time.
            UnsupportedError: The target cannot store something of the lake, or read a file outside the data path.
            StorageError: A file is missing or damaged, or cannot be copied.
        """
        from lakeconf.transfer.move import move

        return move(self, target, progress)

    def spark_conf(self, *, packages: bool = True) -> Settings:
        """Returns the settings that a Spark session needs to access the store's files.

        `SparkSession.builder.config(map=store.spark_conf())` shows them on the command line of the session's Java
        process, which every user of the machine can read. `lakeconf.spark_session` passes secrets after the start.

        Args:
            packages: True to include `spark.jars.packages` for the installed Spark; False if the cluster provides the
                packages, or you set your own.

        Returns:
            Names and clear-text values of Spark settings; `repr` shows `***` for secret values.
        """
        check_flags(packages=packages)
        if self.storage_backend is None:
            return Settings({})
        needed = self.storage_backend.spark_packages() if packages else {}
        hadoop = {f"spark.hadoop.{key}": value for key, value in self.storage_backend.hadoop_settings().items()}
        return Settings({**needed, **hadoop})


def for_reading(store: Store, *, read_only: bool = True) -> Store:
    """A copy that creates and migrates no lake; DuckLake rejects dry runs of maintenance if it is `read_only`."""
    options = {key: value for key, value in store.attach_options.items() if key != _MIGRATION}
    options |= {"create_if_not_exists": False} | ({"read_only": True} if read_only else {})
    return store.replace(attach_options=options)


def open_connection(store: Store, *, loads: bool = True) -> Connection:
    """Like `Store.connect`, but errors are lakeconf's, without secrets, and lake macros cannot hide functions.

    Unless it `loads` the lake's tables, also the catalog of a damaged lake can be read.
    """
    connection = _opened(store, uses=False)
    try:
        if not loads:  # for the error about an unknown name, DuckDB would look for similar ones in the lake
            connection.execute("SET GLOBAL catalog_error_max_schemas = 0")
            return connection
        with _loading(store):
            connection.prefer_builtins(store.alias)
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(store: Store, *, uses: bool = True) -> Connection:
    connection = connect(store.secrets)
    try:
        attach_to(store, connection, uses=uses)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _loading(store: Store) -> Iterator[None]:
    """Says of a lake whose tables DuckDB cannot load what to do."""
    try:
        yield
    except (QueryError, CatalogError) as error:
        if error.hint is not None:
            raise
        raise CatalogError(
            f"the lake of {store.name!r} cannot be opened, because its catalog is damaged: {error.message}",
            hint=f"run `lakeconf verify --catalog --store {store.name}`: it says what is wrong, and what to do",
        ) from error


def attach_to(store: Store, connection: Connection, *, uses: bool = True) -> None:
    """Attaches the lake to a lakeconf connection; otherwise like `Store.attach`, which `uses` it or not.

    The lake that it is a branch of is attached first, and must still have the snapshot of the branch.
    """
    parent = store.parent
    if parent is None:
        _attach_own(store, connection, uses=uses)
        return
    _check_free(store, connection)
    from lakeconf.lake.opening import store_reader  # it opens stores

    _attach_own(parent, connection, uses=False)
    try:
        _attach_own(store, connection, uses=False)
        store_reader(store, connection)
        with _loading(store):
            for statement in store.own_statements if uses else ():
                if isinstance(statement, Use):
                    connection.run(statement)
    except BaseException:
        for alias in (store.alias, PARENT):
            with contextlib.suppress(LakeconfError):
                connection.execute(f"DETACH {identifier(alias)}")
        raise


def _attach_own(store: Store, connection: Connection, *, uses: bool) -> None:
    _check_free(store, connection)
    hint = "check the uri of the catalog, the path of the files, and their permissions"
    with storage_errors(f"the store {store.name!r} cannot be opened", hint=hint):
        try:
            for statement in store.own_statements:
                if isinstance(statement, Attach):
                    _attach(store, connection, statement)
                elif not isinstance(statement, Use):
                    connection.run(statement)
                elif uses:
                    with _loading(store):
                        connection.run(statement)
        except CatalogMissingError as error:
            check_not_lost(store, connection)
            if store.branch_of is not None:
                raise BranchError(
                    f"the lake of {store.name!r} is not a branch yet",
                    hint=f"make it: lakeconf branch {store.branch_of.name} {store.name}",
                ) from error
            file = store.metadata_backend.file()
            raise CatalogMissingError(
                f"store {store.name!r} has no lake yet{f' in {file}' if file else ''}; the first write creates it",
                hint=f"check the store's location if you expected a lake: lakeconf doctor --store {store.name}",
            ) from error


def _attach(store: Store, connection: Connection, statement: Attach) -> None:
    """Attaches the lake, and creates it only if the data path has no files of a lake."""
    must_exist = store.branch_of is not None or creates_nothing(store.attach_options)
    file = store.metadata_backend.file()
    is_missing = file is not None and not (file.is_file() and file.stat().st_size)
    if is_missing and not must_exist:
        check_not_lost(store, connection)
    if store.attach_options.get("encrypted") and not must_exist:
        store.metadata_backend.make_private()
    store.metadata_backend.prepare(read_only=must_exist)
    store.metadata_backend.admit(connection)
    if is_missing and must_exist:
        raise CatalogMissingError(f"the catalog {file} does not exist")
    if store.storage_backend is not None:
        store.storage_backend.prepare(read_only=must_exist or not is_missing)
    if not must_exist and store.metadata_backend.server() is not None:
        options = {**statement.options, "create_if_not_exists": False}
        try:
            return _migrate_or_run(store, connection, statement._replace(options=options))
        except CatalogMissingError:
            check_not_lost(store, connection)
            if store.storage_backend is not None:
                store.storage_backend.prepare(read_only=False)
    return _migrate_or_run(store, connection, statement)


def _migrate_or_run(store: Store, connection: Connection, statement: Attach) -> None:
    if not statement.options.get(_MIGRATION):
        return connection.run(statement)
    options = {key: value for key, value in statement.options.items() if key != _MIGRATION}
    try:
        connection.run(statement._replace(options=options))
    except CatalogVersionError as error:
        if not error.can_migrate:
            raise
        check_merged_files(connection, store.metadata_backend, store.names, statement.options)
        connection.run(statement)


def _check_free(store: Store, connection: Connection) -> None:
    databases = "SELECT 1 FROM duckdb_databases() WHERE lower(database_name) = lower(?)"
    if connection.rows(databases, [store.alias]):
        raise CatalogError(
            f"stores.{store.name}: the connection already has a database {store.alias!r}",
            hint=f"DETACH it, or set another alias below [stores.{store.name}]",
        )
    metadata = metadata_database(store.alias, store.attach_options.get("metadata_catalog"))
    own = store.own_statements
    attaches = any(isinstance(statement, Attach) and statement.alias == store.alias for statement in own)
    if attaches and connection.rows(databases, [metadata]):
        # DuckLake would replace it: another lake on this connection would then write to the catalog of this one.
        raise CatalogError(
            f"stores.{store.name}: the connection already has a database {metadata!r}, which ATTACH would replace",
            hint=f"DETACH it, or set another metadata_catalog in attach_options below [stores.{store.name}]",
        )
    load_extension(connection, "ducklake")
    existing = dict(connection.rows("SELECT name, secret_string FROM duckdb_secrets()"))
    made_by_lakeconf = [text for name, text in existing.items() if name.startswith("lakeconf_")]
    for statement in own:
        if isinstance(statement, CreateSecret) and statement.name.lower() in existing:
            _check_own(store, statement, made_by_lakeconf)


def _check_own(store: Store, secret: CreateSecret, made_by_lakeconf: list[str]) -> None:
    scope = secret.options.get("scope")
    references = (f"SECRET={secret.name}", *([f"data_path={scope}"] if scope else []))
    if secret.name.startswith("lakeconf_") or any(
        reference in text for reference in references for text in made_by_lakeconf
    ):
        return
    raise CatalogError(
        f"stores.{store.name}: the connection has a secret {secret.name!r} that lakeconf did not create",
        hint="omit the credentials to use the existing secret, or choose another secret_name",
    )


def check_not_lost(store: Store, connection: Connection) -> None:
    """Raises an error if the data path has the marker or a Parquet file of a lake, whose catalog does not exist.

    The connection has the secrets of the store.
    """
    if store.storage_backend is None:
        return
    path = store.storage_backend.location.rstrip("/") + "/"
    has_files, is_moving = False, Path(path, MOVING).exists()
    if "://" not in path:
        has_files = Path(path, MARKER).exists() or any(Path(path).rglob("*.parquet"))
    else:
        # Without a pattern, DuckDB lists a file that does not exist. If the data path cannot be read, the first write
        # says so.
        with contextlib.suppress(LakeconfError):
            marks = [str(file) for (file,) in connection.rows(listing_sql(path, "_lakeconf*.json"))]
            is_moving = path + MOVING in marks
            has_files = bool(marks) or bool(connection.rows(f"{listing_sql(path, '**/*.parquet')} LIMIT 1"))
    if is_moving:
        raise CatalogLostError(
            f"store {store.name!r}: a lake is being moved to it, according to {path}{MOVING}: nothing was created",
            hint="run the same `lakeconf move` again, unless it is still running",
        )
    if has_files:
        raise CatalogLostError(
            f"store {store.name!r}: the catalog {store.metadata_backend.description()} does not exist, but {path} has "
            "the files of a lake: nothing was created",
            hint="restore a backup of the catalog, or correct its location; a new lake needs another data path",
        )


def _hidden_in(statement: Statement, secrets: Sequence[Secret], names: StoreNames) -> Statement:
    # lakeconf's statements are named tuples; those of third-party backends may be any type.
    make = getattr(statement, "_make", None)
    if make is None:
        return statement
    # Everybody knows the names that lakeconf makes: a mask would only tell that they contain a secret.
    own = [names.store, names.ducklake_secret, names.metadata_secret, names.storage_secret]
    own += [f"ducklake:{name}" for name in own]

    def hidden(field: Any) -> Any:
        if isinstance(field, Mapping):
            return {key: hidden(value) for key, value in field.items()}
        return field if field in own else hide(field, secrets)

    copy: Statement = make(map(hidden, cast("Any", statement)))
    return copy


def check_arguments(name: object, metadata_backend: object, storage_backend: object, alias: object) -> None:
    """Checks the location and the names of a store. No error contains a value: it may be a secret."""
    _check("name", name, str, "a string", _NAME)
    if not name:
        raise LakeconfError("the name of the store is empty", hint=_NAME)
    _check("metadata_backend", metadata_backend, MetadataBackend, "a metadata backend", _METADATA)
    if storage_backend is not None:
        _check("storage_backend", storage_backend, StorageBackend, "a storage backend", _STORAGE)
    if alias:
        _check("alias", alias, str, "a string", "omit it to attach the lake under the name of the store")


def _check_branch(store: Store, parent: object) -> None:
    """Rejects a branch that cannot be attached beside the lake that it is a branch of."""
    if not isinstance(parent, Store):
        raise StoreError(store.name, "branch_of", "is not a store", hint="pass the store of the other lake")
    hint: str | None = "name the store of a lake that is no branch"
    if parent.branch_of is not None:
        problem = f"{parent.name} is a branch itself"
    elif parent.storage_backend is None or not (parent.metadata_backend.file() or parent.metadata_backend.server()):
        problem = f"{parent.name} cannot keep a snapshot for a branch: {parent.metadata_backend.type} has no locks"
        hint = "use a lake with a catalog in SQLite, DuckDB or PostgreSQL"
    elif (_catalog(parent) or ()) == _catalog(store) or _location(store) == _location(parent):
        problem, hint = f"{parent.name} has the same catalog or data path", "give the branch its own, of a new lake"
    elif folded(store.alias) == PARENT:
        problem, hint = f"{PARENT!r} is the name of the other lake in a branch", "set another alias"
    elif shared := sorted(_secret_names(store) & _secret_names(parent)):
        problem, hint = f"both stores have the secret {shared[0]!r}", "set another secret_name for the branch"
    else:
        return
    raise StoreError(store.name, "branch_of", problem, hint=hint)


def _catalog(store: Store) -> tuple[object, ...] | None:
    """Where the catalog is, as far as the store says it; two names of a server are found when the branch is made."""
    backend, names = store.metadata_backend, StoreNames("store", "alias")
    file, server = backend.file(), backend.server()
    place = file.resolve() if file is not None else None if server is None else server.address
    return None if place is None else (place, backend.catalog_schema(names))


def _location(store: Store) -> tuple[str, str] | None:
    storage = store.storage_backend
    return None if storage is None else (storage.namespace, storage.location.rstrip("/"))


def _secret_names(store: Store) -> set[str]:
    return {statement.name.lower() for statement in store.own_statements if isinstance(statement, CreateSecret)}


def _check(argument: str, value: object, kind: type, what: str, hint: str) -> None:
    if not isinstance(value, kind):
        shown = "None" if value is None else f"a value of the type {type(value).__name__}"
        raise LakeconfError(f"{argument} is {shown}, and not {what}", hint=hint)
