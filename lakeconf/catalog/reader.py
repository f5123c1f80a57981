"""The way to the metadata database of an attached lake."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakeconf.connection.connection import Connection
from lakeconf.ducklake import metadata_database, version_sentence
from lakeconf.errors import CatalogError, LakeconfError, QueryError, UnknownNameError
from lakeconf.sql import identifier, literal

SUPPORTED_VERSION = "1.0"


@dataclass(frozen=True)
class CatalogReader:
    """A lake that is attached to a connection, and its metadata database.

    DuckLake attaches the metadata database beside the lake and hides it; it is reached by name alone.

    Attributes:
        connection: Where the lake is attached. Its time zone is the one of the lake's reads.
        alias: The name that the lake is attached as.
        metadata_schema: The schema of the metadata tables; None where ATTACH says it, or says nothing.
    """

    connection: Connection = field(repr=False)
    alias: str
    metadata_schema: str | None = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[MetadataTransaction]:
        """One read transaction on the metadata: all that it reads is of one moment.

        It runs on a cursor of its own, sees nothing that is not committed, and must be short: on SQLite it keeps
        writers from committing.

        Raises:
            CatalogError: The catalog's version is not the one that lakeconf knows.
        """
        metadata, data_path = self.metadata, self.data_path
        with self.lake_cursor() as cursor:
            self._begin(cursor, metadata)
            try:
                yield MetadataTransaction(cursor, self.alias, data_path)
            finally:
                with contextlib.suppress(LakeconfError):
                    cursor.execute("ROLLBACK")

    @contextlib.contextmanager
    def lake_cursor(self) -> Iterator[Connection]:
        """A connection for reading the lake through DuckDB, in the time zone of the reader's own."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET TimeZone = {literal(self.time_zone)}")
            yield cursor

    @cached_property
    def metadata(self) -> str:
        """The metadata database and, where it is known, its schema, quoted.

        Raises:
            CatalogError: No lake is attached by this name, or its metadata schema cannot be known.
        """
        options = self.connection.rows(
            "SELECT options['metadata_catalog'], options['metadata_schema'] FROM duckdb_databases() "
            "WHERE database_name = ? AND type = 'ducklake'",
            [self.alias],
        )
        if not options:
            raise CatalogError(f"no DuckLake is attached as {self.alias!r}")
        _, schema = options[0]
        schema = self.metadata_schema or schema
        if schema is None and self._a_secret_names_a_schema():
            # The schema that a secret gives does not show in the attached database, and the default schema of the
            # same server may hold another lake.
            raise CatalogError(
                f"the metadata schema of {self.alias!r} is not known, since a DuckLake secret may set it",
                hint="pass metadata_schema",
            )
        database = identifier(self.metadata_database)
        return database if schema is None else f"{database}.{identifier(schema)}"

    @cached_property
    def metadata_database(self) -> str:
        """The name of the metadata database, which DuckLake hides."""
        options = self.connection.rows(
            "SELECT options['metadata_catalog'] FROM duckdb_databases() "  # noqa: S608
            f"WHERE database_name = {literal(self.alias)} AND type = 'ducklake'"
        )
        named = options[0][0] if options else None
        return metadata_database(self.alias, named)

    def _a_secret_names_a_schema(self) -> bool:
        found = self.connection.rows(
            "SELECT 1 FROM duckdb_secrets() WHERE type = 'ducklake' AND secret_string LIKE '%;metadata_schema=_%'"
        )
        return bool(found)

    @cached_property
    def data_path(self) -> str:
        """The folder of the lake's files, absolute, ending in `/`; what ATTACH overrides is taken into account."""
        with self.connection.cursor() as cursor:
            ((path,),) = cursor.rows("SELECT data_path FROM ducklake_settings(?)", [self.alias])
        if "://" not in path and not os.path.isabs(path):
            path = os.path.abspath(path)
        return str(path) if path.endswith("/") else f"{path}/"

    @cached_property
    def lake_id(self) -> str:
        """The id of the lake: the UUID that DuckLake gives to the first schema of every catalog.

        Raises:
            CatalogError: The catalog has no schema.
        """
        query = "SELECT schema_uuid FROM ducklake_schema ORDER BY schema_id, begin_snapshot LIMIT 1"
        with self.transaction() as transaction:
            found = transaction.rows(query)
        if not found or found[0][0] is None:
            raise CatalogError(f"the catalog of {self.alias!r} has no schema, so that the lake has no id")
        return str(found[0][0])

    @property
    def time_zone(self) -> str:
        """The zone in which DuckDB casts naive timestamps to zoned ones."""
        ((zone,),) = self.connection.rows("SELECT system.main.current_setting('TimeZone')")
        return str(zone)

    @cached_property
    def encrypted(self) -> bool:
        """True where the lake encrypts the files that it writes."""
        with self.transaction() as transaction:
            found = transaction.rows("SELECT value FROM ducklake_metadata WHERE key = 'encrypted' AND scope IS NULL")
        return [str(value).lower() for (value,) in found] == ["true"]

    def _begin(self, cursor: Connection, metadata: str) -> None:
        try:
            cursor.execute(f"USE {metadata}")
            cursor.execute("BEGIN")
            found = cursor.rows("SELECT value FROM ducklake_metadata WHERE key = 'version' AND scope IS NULL")
        except QueryError as error:
            raise CatalogError(
                f"{metadata} does not hold the metadata of a DuckLake: {error.message}",
                hint="check metadata_schema",
            ) from error
        versions = [version for (version,) in found]
        if versions != [SUPPORTED_VERSION]:
            found_version = ", ".join(map(str, versions)) or "unknown"
            raise CatalogError(f"{self.alias!r}: {version_sentence(found_version, SUPPORTED_VERSION, 'lakeconf')}")


@dataclass(frozen=True)
class MetadataTransaction:
    """An open read transaction whose default schema is the metadata's: `ducklake_table` and so on need no prefix.

    Functions of DuckLake must not be called in it: they see a newer snapshot, on a connection of their own.

    Attributes:
        cursor: The connection that the transaction is open on.
        alias: The name that the lake is attached as.
        data_path: The folder of the lake's files, absolute, ending in `/`.
    """

    cursor: Connection = field(repr=False)
    alias: str
    data_path: str

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Runs a query on the metadata tables."""
        return self.cursor.rows(sql, parameters)

    def has_table(self, name: str) -> bool:
        """True where the metadata database has this table, at this moment; some are made only when they are needed."""
        try:
            self.cursor.execute(f"SELECT 1 FROM {identifier(name)} LIMIT 0")  # noqa: S608
        except UnknownNameError:
            return False
        return True
