"""The SQL of a PostgreSQL server that keeps catalogs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakeconf.backends.server import CatalogServer, is_loopback
from lakeconf.sql import identifier, literal

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
# The server cuts off longer names.
_LONGEST_NAME = 63


@dataclass(frozen=True, kw_only=True)
class PostgresServer(CatalogServer):
    """A PostgreSQL server, with advisory locks.

    Attributes:
        requires_tls: True if no connection is made without TLS.
    """

    requires_tls: bool = False

    @property
    def url(self) -> str | None:
        if self.address is None:
            return None
        host, port, database, user = self.address
        return f"postgres://{user}@{host}:{port}/{database}"

    @property
    def tls_hint(self) -> str | None:
        # By default, libpq connects without TLS if the server offers none, so an attacker in between can prevent TLS.
        if self.requires_tls or self.address is None:
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
        return _query(database, f"SELECT 1 FROM (SELECT {calls}, {newer}) AS settings")  # noqa: S608 - settings of this module

    def take_lock(self, database: str, key: int, *, shared: bool) -> str:
        # Held until the transaction ends: a session lock would outlive its holder behind a connection pool.
        kind = "_shared" if shared else ""
        return _query(database, f"SELECT 1 FROM (SELECT pg_advisory_xact_lock{kind}({key})) AS held")  # noqa: S608 - a number

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
        query = f"SELECT {holder} AS holder FROM {tables} WHERE {held} AND {among} ORDER BY a.xact_start LIMIT 5"  # noqa: S608 - numbers
        return _query(database, query)

    def check_connection(self, database: str) -> str:
        return _query(database, "SELECT 1")

    def unwritable(self, database: str, schema: str | None) -> str:
        return _query(database, _UNWRITABLE.format(literal(schema or DEFAULT_SCHEMA)))

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
