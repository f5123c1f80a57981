"""Catalogs in a PostgreSQL database."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import model_validator

from lakeconf.backends.backend import (
    ALL_CREDENTIALS,
    ANY_CREDENTIALS,
    InitTemplate,
    MetadataBackend,
    SecretName,
    SecretParameters,
    StoreNames,
    Text,
    described,
    fault,
)
from lakeconf.backends.server import CatalogServer, ServerAddress, is_loopback
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret, Value, identifier, literal

DEFAULT_SCHEMA = "public"
_TLS_HINT = 'write secret_parameters = { sslmode = "verify-full", sslrootcert = "system" }'
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8 AS now"
_IDLE_TIMEOUT = """
    SELECT coalesce(max(setting::bigint), 0)::bigint AS milliseconds FROM pg_settings
    WHERE name = 'idle_in_transaction_session_timeout'
"""
# A dump restored elsewhere has other numbers or another server.
_CATALOG_ID = """
    SELECT concat(d.oid, '/', n.oid) AS place FROM pg_database AS d, pg_namespace AS n
    WHERE d.datname = current_database() AND n.nspname = {}
"""
_SERVER_ID = "SELECT system_identifier::text AS place FROM pg_control_system()"
# Tables with inlined rows are left out: they belong to the role that created them.
_UNWRITABLE = """
    SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = {} AND c.relkind = 'r' AND starts_with(c.relname, 'ducklake_')
    AND NOT starts_with(c.relname, 'ducklake_inlined_') AND NOT (has_table_privilege(c.oid, 'INSERT')
    AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) ORDER BY 1 LIMIT 1
"""
# Without the schema, the first write creates it.
_UNCREATABLE = """
    SELECT CASE WHEN n.oid IS NULL THEN 'CREATE on the database ' || current_database()
    ELSE 'CREATE and USAGE on the schema ' || n.nspname END AS name
    FROM (SELECT {0}::text AS wanted) AS w LEFT JOIN pg_namespace AS n ON n.nspname = w.wanted
    WHERE NOT CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
    ELSE has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE') END
"""
# The server cuts off longer names.
_LONGEST_NAME = 63


@dataclass(frozen=True, kw_only=True)
class PostgresServer(CatalogServer):
    """A PostgreSQL server, with advisory locks.

    Attributes:
        verifies_server: True if TLS proves that the server is the one that the store names.
    """

    verifies_server: bool = False

    @property
    def url(self) -> str | None:
        if self.address is None:
            return None
        host, port, database, user = self.address
        return f"postgres://{user}@{host}:{port}/{database}"

    @property
    def tls_hint(self) -> str | None:
        # By default, libpq connects without TLS if the server offers none, and `require` accepts any certificate.
        if self.verifies_server or self.address is None:
            return None
        hosts = [one.strip() for one in self.address.host.split(",") if one.strip()]
        return None if not hosts or all(map(_is_this_machine, hosts)) else _TLS_HINT

    def clock(self, database: str) -> str:
        return _query(database, _CLOCK)

    def idle_timeout(self, database: str) -> str:
        return _query(database, _IDLE_TIMEOUT)

    def catalog_id(self, database: str, schema: str | None) -> str:
        return _query(database, _CATALOG_ID.format(literal(schema or DEFAULT_SCHEMA)))

    def server_id(self, database: str) -> str:
        return _query(database, _SERVER_ID)

    def prepare_locks(self, database: str, *, wait_seconds: float, holder: str) -> str:
        settings = {
            "lock_timeout": f"{wait_seconds * 1000:.0f}",
            # Hours may pass between the lock and the commit, and the server must not end the transaction in between.
            "idle_in_transaction_session_timeout": "0",
            "application_name": holder[:_LONGEST_NAME],
        }
        calls = ", ".join(f"set_config({literal(name)}, {literal(text)}, true)" for name, text in settings.items())
        # This setting exists since PostgreSQL 17.
        known = "current_setting('transaction_timeout', true) <> ''"
        newer = f"CASE WHEN {known} THEN set_config('transaction_timeout', '0', true) END"
        return _query(database, f"SELECT 1 FROM (SELECT {calls}, {newer}) AS settings")

    def take_lock(self, database: str, key: int, *, shared: bool) -> str:
        # Held until the transaction ends: a session lock would outlive its holder behind a connection pool.
        kind = "_shared" if shared else ""
        return _query(database, f"SELECT 1 FROM (SELECT pg_advisory_xact_lock{kind}({key})) AS held")

    def lock_holders(self, database: str, keys: Collection[int]) -> str:
        # The server shows fewer details to roles without privileges.
        wanted = ", ".join(f"({key >> 32}, {key & 0xFFFFFFFF})" for key in keys)
        holder = (
            "concat(a.application_name, ' (server process ', l.pid, ', from ', coalesce(host(a.client_addr), "
            "'its own machine'), ', since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SSOF'), ')')"
        )
        here = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        held = f"l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = {here}"
        tables = "pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid"
        among = f"(l.classid::bigint, l.objid::bigint) IN ({wanted})"
        query = f"SELECT {holder} AS holder FROM {tables} WHERE {held} AND {among} ORDER BY a.xact_start LIMIT 5"
        return _query(database, query)

    def check_connection(self, database: str) -> str:
        return _query(database, "SELECT 1")

    def unwritable(self, database: str, schema: str | None) -> str:
        return _query(database, _UNWRITABLE.format(literal(schema or DEFAULT_SCHEMA)))

    def uncreatable(self, database: str, schema: str | None) -> str:
        return _query(database, _UNCREATABLE.format(literal(schema or DEFAULT_SCHEMA)))

    def await_commits(self, database: str, schema: str | None) -> str | None:
        # This mode waits for open transactions that have written to the table, but not for readers.
        table = f"{identifier(schema or DEFAULT_SCHEMA)}.ducklake_snapshot"
        wait = f"SET LOCAL lock_timeout = '10s'; LOCK TABLE {table} IN SHARE MODE"
        return f"CALL postgres_execute({literal(database)}, {literal(wait)})"


def _query(database: str, sql: str) -> str:
    return f"FROM postgres_query({literal(database)}, {literal(sql)})"


def _is_this_machine(host: str) -> bool:
    # A path is that of a socket on this machine.
    return host.startswith("/") or is_loopback(host if ":" not in host else f"[{host}]")


# https://www.postgresql.org/docs/current/libpq-envars.html: variables with credentials or their location.
_REMOVED = ("PGPASSWORD", "PGSERVICE", "PGSYSCONFDIR", "PGSSLPASSWORD")
# A path below a device: nobody can create it.
_NO_FILE = os.path.join(os.devnull, "lakeconf")
_REPLACED = ("PGPASSFILE", "PGSERVICEFILE")


@contextlib.contextmanager
def hidden_credentials() -> Iterator[None]:
    """Hides the passwords of this process and its user from libpq, so that SQL cannot send them to a server.

    It changes the environment of the whole process, and restores it at the end.
    """
    before = {name: os.environ.get(name) for name in (*_REMOVED, *_REPLACED)}
    for name in _REMOVED:
        os.environ.pop(name, None)
    for name in _REPLACED:
        os.environ[name] = _NO_FILE
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def default_password(host: str, port: int, database: str, user: str) -> str | None:
    """The password that libpq would use for a connection without a configured password."""
    given = os.environ.get("PGPASSWORD")
    if given:
        return given
    path = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if path.stat().st_mode & 0o077 or not path.is_file():
            return None  # like libpq, ignore a file that others can read
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    wanted = (host, str(port), database, user)
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", field) for field in re.split(r"(?<!\\):", line)]
        if len(fields) == 5 and all(field in ("*", value) for field, value in zip(fields, wanted, strict=False)):
            return fields[4]
    return None


DEFAULT_PORT = 5432


class PostgresMetadata(MetadataBackend):
    """A catalog in PostgreSQL, for concurrent reads and writes from several machines."""

    type: Literal["postgres"] = "postgres"
    secret_name: SecretName | None = None
    host: Annotated[Text | None, described("Host name or address of the server.", example="${PGHOST}")] = None
    port: Annotated[int | None, described("Port of the server; default 5432.", example=5432, ge=1, le=65535)] = None
    database: Annotated[Text | None, described("Name of the database.", example="lake")] = None
    user: Annotated[Text | None, described("Name of the role.", example="lake")] = None
    password: Annotated[
        Secret | None,
        described(
            "Password of the role; use a variable, such as `${LAKE_PG_PASSWORD}`.", example="${LAKE_PG_PASSWORD}"
        ),
    ] = None
    metadata_schema: Annotated[
        Text,
        described("Schema of the catalog's tables; stores with different schemas are separate lakes.", example="lake"),
    ] = DEFAULT_SCHEMA
    secret_parameters: SecretParameters = {}

    @model_validator(mode="after")
    def _credentials_are_whole(self) -> Self:
        given = [name for name in ("host", "database", "user") if getattr(self, name) is not None]
        missing = [name for name in ("host", "database", "user") if getattr(self, name) is None]
        if given and missing:
            message = f"incomplete credentials: {', '.join(given)} without {', '.join(missing)}"
            raise fault(message, *given, hint=ALL_CREDENTIALS, credentials=True)
        if not given:
            self._check_reference()
        return self

    def _check_reference(self) -> None:
        for name in ("password", "port"):
            if getattr(self, name) is not None:
                message = f"incomplete credentials: {name} without host, database and user"
                raise fault(message, name, hint=ALL_CREDENTIALS, credentials=True)
        if self.secret_parameters:
            message = "secret_parameters need host, database and user: lakeconf does not change existing secrets"
            raise fault(message, "secret_parameters", hint=ANY_CREDENTIALS, credentials=True)
        if self.secret_name is None:
            message = "no credentials: set host, database and user, or the secret_name of an existing secret"
            raise fault(message, hint=ANY_CREDENTIALS, credentials=True)

    @classmethod
    def init_template(cls) -> InitTemplate:
        # libpq sends PGPASSWORD to any server that asks for a password, so the variable has another name. It
        # verifies the server only with verify-full.
        password = "${LAKE_PG_PASSWORD}"  # noqa: S105 - a variable
        return InitTemplate(
            {"host": "${PGHOST}", "database": "lake", "user": "${PGUSER}", "password": password},
            secret_parameters={"sslmode": "${LAKE_PG_SSLMODE:-verify-full}", "sslrootcert": "${LAKE_PG_CA:-system}"},
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
            verifies_server=parameters.get("sslmode") == "verify-full",
        )
