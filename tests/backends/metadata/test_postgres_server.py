"""The SQL of a PostgreSQL server, which runs on a real one through DuckDB."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from lakeconf.backends.server import CatalogServer, ServerAddress
from lakeconf.catalog.admission import _NO_TABLES
from lakeconf.connection.connection import Connection, load_extension
from lakeconf.errors import LakeconfError
from lakeconf.sql import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import servers

SERVER = CatalogServer(name="secret mine")
HINT = 'write secret_parameters = { sslmode = "verify-full", sslrootcert = "system" }'
ALIAS = "it's"
KEY = 2**62 + 2**33 + 7


def at(host: str, *, verifies_server: bool = False) -> CatalogServer:
    return CatalogServer(name="x", address=ServerAddress(host, 5433, "shop", "me"), verifies_server=verifies_server)


def test_server_of_an_existing_secret_has_no_address() -> None:
    assert (SERVER.url, SERVER.tls_hint, SERVER.description) == (None, None, "secret mine")


def test_url_has_no_password() -> None:
    assert at("db").url == "postgres://me@db:5433/shop"


@pytest.mark.parametrize("host", ["db.example.com", "10.0.0.1", "localhost,db.example.com", "/run,db", "fd00::1"])
def test_hint_for_a_connection_that_may_lack_tls(host: str) -> None:
    assert at(host).tls_hint == HINT
    assert at(host, verifies_server=True).tls_hint is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "/run/postgresql", "localhost, ::1 ,/run", ",", " "])
def test_connection_within_this_machine_needs_no_tls(host: str) -> None:
    assert at(host).tls_hint is None


@pytest.fixture(scope="module")
def database(postgres_server: servers.PostgresServer) -> str:
    """A database with two schemas and the table of the snapshots."""
    name = postgres_server.create_database()
    table = "ducklake_snapshot (i INT)"
    postgres_server.sql(f'CREATE TABLE {table}; CREATE SCHEMA "it\'s"; CREATE TABLE "it\'s".{table}', name)
    return name


@pytest.fixture
def connect(postgres_server: servers.PostgresServer, database: str) -> Iterator[Callable[[], Connection]]:
    """Opens connections to the database, each with its own session on the server."""
    opened = []

    def connect() -> Connection:
        native = duckdb.connect()
        opened.append(native)
        connection = Connection(native)
        load_extension(connection, "postgres_scanner")
        connection.execute(
            f"CREATE SECRET pg (TYPE postgres, HOST '{postgres_server.host}', PORT {postgres_server.port}, "
            f"DATABASE '{database}', USER '{postgres_server.user}', PASSWORD '{postgres_server.password}')"
        )
        connection.execute("ATTACH '' AS \"it's\" (TYPE postgres, SECRET pg)")
        return connection

    yield connect
    for native in opened:
        native.close()


def value(connection: Connection, query: str) -> Any:
    ((found,),) = connection.rows(query)
    return found


def setting(connection: Connection, name: str) -> Any:
    return value(connection, f"FROM postgres_query('it''s', 'SELECT current_setting(''{name}'', true)')")


def test_clock_is_that_of_the_server(connect: Callable[[], Connection]) -> None:
    before = time.time()
    now = value(connect(), SERVER.clock(ALIAS))
    assert isinstance(now, float)
    assert before - 1 <= now <= time.time() + 1


def test_idle_timeout_is_in_milliseconds(
    connect: Callable[[], Connection], postgres_server: servers.PostgresServer, database: str
) -> None:
    assert value(connect(), SERVER.idle_timeout(ALIAS)) == 0
    postgres_server.sql(f"ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '3min'")
    try:
        assert value(connect(), SERVER.idle_timeout(ALIAS)) == 180_000
    finally:
        postgres_server.sql(f"ALTER DATABASE {database} RESET idle_in_transaction_session_timeout")


def test_tables_that_the_role_may_not_change(
    connect: Callable[[], Connection], postgres_server: servers.PostgresServer, database: str
) -> None:
    for table in ("ducklake_a", "ducklake_b", "ducklake_inlined_data_1_1", "another"):
        postgres_server.sql(f'CREATE TABLE {table} (i int); CREATE SCHEMA IF NOT EXISTS "it\'s"', database)
    postgres_server.sql('CREATE TABLE "it\'s".ducklake_c (i int)', database)
    role = f"{database}_reader"
    postgres_server.sql(f"CREATE ROLE {role}; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}", database)
    postgres_server.sql(f'GRANT {role} TO {postgres_server.user}; GRANT USAGE ON SCHEMA "it\'s" TO {role}', database)
    postgres_server.sql(f"REVOKE DELETE ON ducklake_inlined_data_1_1, another FROM {role}", database)
    connection = connect()
    connection.execute("BEGIN")
    connection.rows(f"FROM postgres_query('it''s', 'SELECT set_config(''role'', ''{role}'', true)')")
    for schema in (None, "public"):
        assert connection.rows(SERVER.unwritable(ALIAS, schema)) == []
    assert value(connection, SERVER.unwritable(ALIAS, "it's")) == "ducklake_c"
    for privilege in ("INSERT", "UPDATE", "DELETE"):
        postgres_server.sql(f"REVOKE {privilege} ON ducklake_b FROM {role}", database)
        assert value(connection, SERVER.unwritable(ALIAS, None)) == "ducklake_b"
        postgres_server.sql(f"GRANT {privilege} ON ducklake_b TO {role}", database)
    assert connection.rows(SERVER.unwritable(ALIAS, "missing")) == []


def test_catalog_and_server_have_different_ids(
    connect: Callable[[], Connection], postgres_server: servers.PostgresServer, database: str
) -> None:
    connection = connect()
    oid = postgres_server.sql(f"SELECT oid FROM pg_database WHERE datname = '{database}'")
    default = value(connection, SERVER.catalog_id(ALIAS, None))
    assert default == value(connection, SERVER.catalog_id(ALIAS, "public"))
    assert default.startswith(f"{oid}/")
    other = value(connection, SERVER.catalog_id(ALIAS, "it's"))
    assert other != default
    assert other.startswith(f"{oid}/")
    assert connection.rows(SERVER.catalog_id(ALIAS, "missing")) == []
    assert value(connection, SERVER.server_id(ALIAS)) == postgres_server.sql(
        "SELECT system_identifier FROM pg_control_system()"
    )


def test_transaction_with_locks_may_stay_idle(connect: Callable[[], Connection]) -> None:
    connection = connect()
    connection.execute("BEGIN")
    holder = "it's " + "x" * 80
    assert connection.rows(SERVER.prepare_locks(ALIAS, wait_seconds=0.25, holder=holder)) == [(1,)]
    names = ("lock_timeout", "idle_in_transaction_session_timeout", "application_name")
    assert [setting(connection, name) for name in names] == ["250ms", "0", holder[:63]]
    assert setting(connection, "transaction_timeout") in (None, "", "0")
    connection.execute("COMMIT")
    assert setting(connection, "lock_timeout") == "0", "the settings end with the transaction"


@pytest.mark.parametrize(
    ("first", "second", "waits"), [(True, True, False), (True, False, True), (False, True, True), (False, False, True)]
)
def test_only_shared_locks_are_held_together(
    first: bool, second: bool, waits: bool, connect: Callable[[], Connection]
) -> None:
    one, other = connect(), connect()
    for connection in (one, other):
        connection.execute("BEGIN")
        connection.rows(SERVER.prepare_locks(ALIAS, wait_seconds=0.01, holder="test"))
    assert one.rows(SERVER.take_lock(ALIAS, KEY, shared=first)) == [(1,)]
    if waits:
        with pytest.raises(LakeconfError, match="lock timeout"):
            other.rows(SERVER.take_lock(ALIAS, KEY, shared=second))
        other.execute("ROLLBACK")
        one.execute("COMMIT")
        other.execute("BEGIN")
    assert other.rows(SERVER.take_lock(ALIAS, KEY, shared=second)) == [(1,)]


def test_holders_of_a_lock_are_described(connect: Callable[[], Connection]) -> None:
    one, other = connect(), connect()
    one.execute("BEGIN")
    one.rows(SERVER.prepare_locks(ALIAS, wait_seconds=1, holder="a job of Ann's"))
    for key in (KEY, 5):
        one.rows(SERVER.take_lock(ALIAS, key, shared=key == 5))
    found = value(other, SERVER.lock_holders(ALIAS, [1, KEY]))
    assert found.startswith("a job of Ann's (server process ")
    assert ", from 127.0.0.1, since 20" in found
    assert [len(other.rows(SERVER.lock_holders(ALIAS, keys))) for keys in ([5], [KEY, 5], [6], [KEY + 1])] == [
        1,
        2,
        0,
        0,
    ]
    one.execute("COMMIT")
    assert other.rows(SERVER.lock_holders(ALIAS, [KEY, 5])) == []


def test_lock_of_another_database_is_not_reported(
    connect: Callable[[], Connection], postgres_server: servers.PostgresServer
) -> None:
    connection = connect()
    held = f"SELECT pg_advisory_lock({KEY}); SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    assert postgres_server.sql(held).split() == ["1"]
    assert connection.rows(SERVER.lock_holders(ALIAS, [KEY])) == []


def test_lost_connection_fails_the_check(
    connect: Callable[[], Connection], postgres_server: servers.PostgresServer, database: str
) -> None:
    connection = connect()
    connection.execute("BEGIN")
    assert connection.rows(SERVER.check_connection(ALIAS)) == [(1,)]
    postgres_server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    with pytest.raises(LakeconfError, match=r"terminat|connection|closed"):
        connection.rows(SERVER.check_connection(ALIAS))
    # Otherwise DuckDB rolls back when the connection is closed, and terminates the process.
    with contextlib.suppress(LakeconfError):
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("schema", [None, "it's"])
def test_waiting_for_commits_ends_with_the_last_one(schema: str | None, connect: Callable[[], Connection]) -> None:
    reader, writer, waiter = connect(), connect(), connect()
    table = f'"it\'s"."{schema or "public"}".ducklake_snapshot'
    writer.execute("BEGIN")
    writer.execute(f"INSERT INTO {table} VALUES (1)")
    reader.execute("BEGIN")
    reader.rows(f"FROM {table}")
    statement = SERVER.await_commits(ALIAS, schema)
    assert statement is not None
    started, done = threading.Event(), threading.Event()

    def wait() -> None:
        waiter.execute("BEGIN")
        started.set()
        waiter.rows(statement)
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    other = SERVER.await_commits(ALIAS, "it's" if schema is None else None)
    assert other is not None
    connect().rows(other)  # the table of the other schema is free
    assert not done.is_set()
    writer.execute("COMMIT")
    thread.join(30)
    assert done.is_set(), "a reader does not delay it"


# What may stand in front of a parenthesis without a schema.
KEYWORDS = {"and", "coalesce", "exists", "extract", "from", "in", "not", "or", "select"}
OPERATORS = r"""
DO $do$
DECLARE
    types text[] := '{name,text,oid,"char",int2,int4,int8,bool,float8,timestamptz}';
    l text; r text; o text;
BEGIN
    FOREACH l IN ARRAY types LOOP FOREACH r IN ARRAY types LOOP
        EXECUTE format('CREATE FUNCTION own(%I, %I) RETURNS bool LANGUAGE plpgsql COST 0.0001
            AS $f$BEGIN RAISE EXCEPTION $$called$$; END$f$', l, r);
        FOREACH o IN ARRAY '{=,<>,>,<=,||,~,~~,!~~}'::text[] LOOP
            IF to_regoperator(format('pg_catalog.%s(%I,%I)', o, l, r)) IS NULL THEN
                EXECUTE format('CREATE OPERATOR %s (LEFTARG = %I, RIGHTARG = %I, FUNCTION = own)', o, l, r);
            END IF;
        END LOOP;
    END LOOP; END LOOP;
END $do$
"""
QUERIES = [
    SERVER.clock(ALIAS),
    SERVER.idle_timeout(ALIAS),
    SERVER.catalog_id(ALIAS, None),
    SERVER.server_id(ALIAS),
    SERVER.prepare_locks(ALIAS, wait_seconds=1, holder="me"),
    SERVER.take_lock(ALIAS, 7, shared=True),
    SERVER.take_lock(ALIAS, KEY, shared=False),
    SERVER.lock_holders(ALIAS, [KEY]),
    SERVER.check_connection(ALIAS),
    SERVER.unwritable(ALIAS, None),
    SERVER.uncreatable(ALIAS, "missing"),
    SERVER.uncreatable(ALIAS, None),
    f"FROM postgres_query({literal(ALIAS)}, {literal(_NO_TABLES.format(schema='public'))})",
]


def test_functions_and_operators_of_others_are_not_called(
    connect: Callable[[], Connection], postgres_server: servers.PostgresServer, database: str
) -> None:
    """A schema on the search path has an operator for each pair of types for which PostgreSQL has none."""
    names = {name for name, one in vars(CatalogServer).items() if callable(one) and not name.startswith("_")}
    assert len(names) == 11  # those above, and `await_commits`, which calls no function
    for query in QUERIES:
        called = re.findall(r"([\w.]+) ?\(", re.sub(r"''[^']*''", "", query.partition("postgres_query(")[2]))
        assert [name for name in called if not name.startswith("pg_catalog.") and name.lower() not in KEYWORDS] == []
    postgres_server.sql(OPERATORS, database)
    server = connect()
    with pytest.raises(LakeconfError, match="called"):
        server.rows(f"FROM postgres_query({literal(ALIAS)}, 'SELECT 1 AS x FROM pg_class WHERE relname || relname')")
    for query in QUERIES:
        server.rows(query)
