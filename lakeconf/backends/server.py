"""The PostgreSQL server that keeps catalogs."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from lakeconf.sql import identifier, literal

DEFAULT_SCHEMA = "public"
_TLS_HINT = 'write secret_parameters = { sslmode = "verify-full", sslrootcert = "system" }'
# The owner of a schema on the search path can add functions and operators that fit the types of arguments better than
# those of PostgreSQL, and so runs them with the role of whoever asks. So functions have their schema here, and no
# operator needs a conversion: `name || text` would.
_CLOCK = "SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8 AS now"
_IDLE_TIMEOUT = """
    SELECT coalesce(pg_catalog.max(setting::bigint), 0)::bigint AS milliseconds FROM pg_settings
    WHERE name = 'idle_in_transaction_session_timeout'
"""
# A dump restored elsewhere has other numbers or another server.
_CATALOG_ID = """
    SELECT pg_catalog.concat(d.oid, '/', n.oid) AS place FROM pg_database AS d, pg_namespace AS n
    WHERE d.datname = pg_catalog.current_database() AND n.nspname = {}
"""
_SERVER_ID = "SELECT system_identifier::text AS place FROM pg_catalog.pg_control_system()"
# Tables with inlined rows are left out: they belong to the role that created them.
_UNWRITABLE = """
    SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = {} AND c.relkind = 'r' AND c.relname::text ~ '^ducklake_(?!inlined_)'
    AND NOT (pg_catalog.has_table_privilege(c.oid, 'INSERT') AND pg_catalog.has_table_privilege(c.oid, 'UPDATE')
        AND pg_catalog.has_table_privilege(c.oid, 'DELETE')) ORDER BY 1 LIMIT 1
"""
# Without the schema, the first write creates it.
_UNCREATABLE = """
    SELECT CASE WHEN n.oid IS NULL THEN 'CREATE on the database ' || pg_catalog.current_database()::text
    ELSE 'CREATE and USAGE on the schema ' || n.nspname::text END AS name
    FROM (SELECT {0}::text AS wanted) AS w LEFT JOIN pg_namespace AS n ON n.nspname = w.wanted
    WHERE NOT CASE WHEN n.oid IS NULL THEN pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
    ELSE pg_catalog.has_schema_privilege(n.oid, 'CREATE') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') END
"""
# The server cuts off longer names.
LONGEST_NAME = 63


class ServerAddress(NamedTuple):
    """The address of a catalog's database."""

    host: str  # host name or address; a path is that of a socket
    port: int
    database: str
    user: str  # the role


@dataclass(frozen=True, kw_only=True)
class CatalogServer:
    """A PostgreSQL server that keeps a catalog: its name, its clock, its timeouts and its advisory locks.

    The methods return statements for DuckDB. `database` is the name under which DuckDB has attached the catalog's
    database, `schema` that of the schema with its tables, or None for the server's default.
    """

    name: str  # what messages call the server if its address is not known, such as `service lake`; never a secret
    # The address; None if the backend refers to an existing secret or to a file of this machine.
    address: ServerAddress | None = None
    # The DuckDB secret that the configuration names; other stores may refer to it. None without a name.
    secret: str | None = None
    verifies_server: bool = False  # True if TLS proves that the server is the one that the store names

    @property
    def description(self) -> str:
        """The location of the catalog, for messages; contains no secret."""
        if self.address is None:
            return self.name
        return f"{self.address.host}:{self.address.port}/{self.address.database}"

    @property
    def url(self) -> str | None:
        """The URL of the database without a password, as other tools write it; None if the address is not known."""
        if self.address is None:
            return None
        host, port, database, user = self.address
        return f"postgres://{user}@{host}:{port}/{database}"

    @property
    def tls_hint(self) -> str | None:
        """How to require TLS; None if connections always use TLS or do not leave this machine."""
        # By default, libpq connects without TLS if the server offers none, and `require` accepts any certificate.
        if self.verifies_server or self.address is None:
            return None
        hosts = [host.strip() for host in self.address.host.split(",") if host.strip()]
        return None if not hosts or all(map(_is_this_machine, hosts)) else _TLS_HINT

    def clock(self, database: str) -> str:
        """The query for the server's time, in seconds since 1970."""
        return _query(database, _CLOCK)

    def idle_timeout(self, database: str) -> str:
        """The query for the milliseconds after which the server ends an idle transaction; 0 without a limit."""
        return _query(database, _IDLE_TIMEOUT)

    def catalog_id(self, database: str, schema: str | None) -> str:
        """The query for a string that differs between a catalog and a copy of it on the same server."""
        return _query(database, _CATALOG_ID.format(literal(schema or DEFAULT_SCHEMA)))

    def server_id(self, database: str) -> str:
        """The query for a string that differs between servers. It may fail if the role lacks the right."""
        return _query(database, _SERVER_ID)

    def prepare_locks(self, database: str, *, wait_seconds: float, holder: str) -> str:
        """The query that prepares a transaction for locks: it may stay idle for hours.

        An attempt to take a lock fails after some seconds. `holder` describes this process to others that wait.
        """
        settings = {
            "lock_timeout": f"{wait_seconds * 1000:.0f}",
            # Hours may pass between the lock and the commit, and the server must not end the transaction in between.
            "idle_in_transaction_session_timeout": "0",
            "application_name": holder[:LONGEST_NAME],
        }
        calls = ", ".join(
            f"pg_catalog.set_config({literal(name)}, {literal(text)}, true)" for name, text in settings.items()
        )
        # This setting exists since PostgreSQL 17.
        is_supported = "pg_catalog.current_setting('transaction_timeout', true) <> ''"
        newer = f"CASE WHEN {is_supported} THEN pg_catalog.set_config('transaction_timeout', '0', true) END"
        return _query(database, f"SELECT 1 FROM (SELECT {calls}, {newer}) AS settings")

    def take_lock(self, database: str, key: int, *, shared: bool) -> str:
        """The query that takes a lock, alone or shared, until its transaction ends; its key is below 2**63."""
        # Held until the transaction ends: a session lock would outlive its holder behind a connection pool.
        kind = "_shared" if shared else ""
        return _query(database, f"SELECT 1 FROM (SELECT pg_catalog.pg_advisory_xact_lock{kind}({key})) AS held")

    def lock_holders(self, database: str, keys: Collection[int], most: int = 5) -> str:
        """The query that describes who holds locks, one text for each holder, of at most so many."""
        # The server shows fewer details to roles without privileges.
        lock_ids = ", ".join(f"({key >> 32}, {key & 0xFFFFFFFF})" for key in keys)
        holder = (
            "pg_catalog.concat(a.application_name, ' (server process ', l.pid, ', from ', "
            "coalesce(pg_catalog.host(a.client_addr), 'its own machine'), ', since ' || "
            "pg_catalog.to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SSOF'), ')')"
        )
        here = "(SELECT oid FROM pg_database WHERE datname = pg_catalog.current_database())"
        is_held = f"l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = {here}"
        tables = "pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid"
        among = f"(l.classid::bigint, l.objid::bigint) IN ({lock_ids})"
        query = (
            f"SELECT {holder} AS holder FROM {tables} WHERE {is_held} AND {among} ORDER BY a.xact_start LIMIT {most}"
        )
        return _query(database, query)

    def check_connection(self, database: str) -> str:
        """The query that fails if the connection was lost."""
        return _query(database, "SELECT 1")

    def unwritable(self, database: str, schema: str | None) -> str:
        """The query for a table of the catalog that the role may not change: one text, or no row.

        Without it, the server refuses a write only when it is committed, and its outcome is unknown until the server
        was asked again.
        """
        return _query(database, _UNWRITABLE.format(literal(schema or DEFAULT_SCHEMA)))

    def uncreatable(self, database: str, schema: str | None) -> str:
        """The query for what the role lacks to create a catalog: one text, or no row."""
        return _query(database, _UNCREATABLE.format(literal(schema or DEFAULT_SCHEMA)))

    def await_commits(self, database: str, schema: str | None) -> str:
        """The statement that waits until no commit is in progress.

        It runs in its own transaction. Other commits continue when the transaction ends.
        """
        # This mode waits for open transactions that have written to the table, but not for readers.
        table = f"{identifier(schema or DEFAULT_SCHEMA)}.ducklake_snapshot"
        wait = f"SET LOCAL lock_timeout = '10s'; LOCK TABLE {table} IN SHARE MODE"
        return f"CALL postgres_execute({literal(database)}, {literal(wait)})"


def _query(database: str, sql: str) -> str:
    return f"FROM postgres_query({literal(database)}, {literal(sql)})"


def _is_this_machine(host: str) -> bool:
    # A path is that of a socket on this machine.
    return host.startswith("/") or is_loopback(host if ":" not in host else f"[{host}]")


def is_loopback(endpoint: str) -> bool:
    """True if an endpoint, host or host and port, is an address of this machine."""
    try:
        host = urlsplit(f"//{endpoint}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
