"""PostgreSQL terminates the connections of a writer: zero or one snapshot, no lost files, a specific error."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import config_of, ids, on_postgres, store_of

import lakeconf
from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitError, ConnectionFailed, LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import PostgresServer

    from lakeconf import Table

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
WRITES: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(ROWS),
    "keyed append": lambda table: table.append(ROWS, idempotency_key="once"),
    "overwrite": lambda table: table.overwrite(ROWS),
}
# Terminates all connections from within COMMIT, its own last.
SUICIDE = """
    CREATE FUNCTION suicide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() ORDER BY pid = pg_backend_pid();
      RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER suicide AFTER INSERT ON ducklake_snapshot DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION suicide()
"""
# The connections are terminated before (or after) this statement of the writer; the value is the raised error.
# None: the write succeeds, because lakeconf acquires its locks again before the transaction begins.
POINTS: dict[str, type[LakeconfError] | None] = {
    "BEGIN": None,
    "CALL ducklake_set_commit_message": ConnectionFailed,
    "COMMIT": CommitError,
    "inside COMMIT": CommitError,
    "after COMMIT": None,
}


class FragileDatabase:
    """A database whose connections can be terminated; `ended` counts how often they were."""

    def __init__(self, server: PostgresServer) -> None:
        self.server, self.name, self.ended = server, server.create_database(), 0

    def sql(self, statement: str) -> str:
        return self.server.sql(statement, self.name)

    def end_connections(self) -> None:
        """Terminates every connection, and waits for their ends; a thread of lakeconf may open another one at once."""
        # Not those of the server itself, such as autovacuum.
        clients = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
        others = f"FROM pg_stat_activity WHERE datname = current_database() AND {clients}"
        ended = self.sql(f"SELECT pg_terminate_backend(pid, 10000) {others}").splitlines()
        assert set(ended) == {"t"}
        self.ended += 1

    def end_at(self, point: str, patch: pytest.MonkeyPatch) -> None:
        """Terminates the connections once, when a write reaches the given point."""
        execute, before = Connection.execute, self.ended

        def executing(connection: Connection, sql: str, parameters: Any = None) -> Any:
            strikes = self.ended == before and sql.startswith(point.removeprefix("after "))
            if strikes and not point.startswith("after "):
                self.end_connections()
            done = execute(connection, sql, parameters)
            if strikes and point.startswith("after "):
                self.end_connections()
            return done

        patch.setattr(Connection, "execute", executing)


@pytest.fixture
def database(postgres_server: PostgresServer) -> FragileDatabase:
    return FragileDatabase(postgres_server)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.parquet")}


def known_files(database: FragileDatabase) -> set[str]:
    found = database.sql("SELECT path FROM ducklake_data_file UNION ALL SELECT path FROM ducklake_delete_file")
    return {Path(path).name for path in found.splitlines()}


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_write_survives_or_reports_terminated_connections(
    database: FragileDatabase,
    postgres_server: PostgresServer,
    point: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = store_of(tmp_path, on_postgres(postgres_server, database.name, postgres_server.port))
    raised = POINTS[point]
    with store.open() as lake:
        lake.create_table("t", ROWS).append(ROWS, idempotency_key="first")
        rows = [1, 2]
        for number, (name, write) in enumerate(WRITES.items(), start=1):
            version = lake.refresh()
            with monkeypatch.context() as patch:
                if point == "inside COMMIT":
                    database.sql(SUICIDE)
                else:
                    database.end_at(point, patch)
                if raised is None:
                    assert write(lake.table("t")) == version + 1, name
                else:
                    with pytest.raises(raised, match=r"nothing was written") as caught:
                        write(lake.table("t"))
                    assert type(caught.value) is raised
                    assert caught.value.hint, name
            if point == "inside COMMIT":
                database.sql("DROP FUNCTION suicide CASCADE")
            else:
                assert database.ended == number
            rows = rows if raised else [1, 2] if name == "overwrite" else sorted([*rows, 1, 2])
            assert (lake.refresh(), ids(lake)) == (version + (raised is None), rows), name
            # DuckLake cannot remove its files if the connection is lost before the rollback.
            lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
            assert files(tmp_path) == known_files(database), name
        # The locks of lost connections do not block, and the key is recorded only if its write was committed.
        lake.table("t").append(ROWS, idempotency_key="once")
        assert ids(lake) == (sorted([1, 2, 1, 2]) if raised else rows)


def test_commit_rejected_by_the_server_is_not_retried(
    database: FragileDatabase, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    store = store_of(tmp_path, on_postgres(postgres_server, database.name, postgres_server.port))
    with store.open() as lake:
        lake.create_table("t", ROWS)
        version = lake.snapshot_id
        database.sql("CREATE SEQUENCE attempts")
        database.sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM nextval('attempts'); RAISE EXCEPTION 'not today'; END $$; "
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON ducklake_snapshot DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        for attempts, write in enumerate(WRITES.values(), start=1):
            with pytest.raises(CommitError, match="not today"):
                write(lake.table("t"))
            assert database.sql("SELECT last_value FROM attempts") == str(attempts)
        assert (lake.refresh(), ids(lake), files(tmp_path)) == (version, [], set())


# Refreshes until an error, and then again.
REFRESHING = """
import json, sys
import lakeconf
lake = lakeconf.init(json.loads(sys.argv[1])).get_store("dev").open()
print("ready", flush=True)
try:
    while True:
        lake.refresh()
except lakeconf.LakeconfError as error:
    print(type(error).__name__, lake.refresh())
"""
# Terminates all connections once one of them waits for a lock on a table.
WAITED_FOR = """
    BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE;
    DO $$ BEGIN
      WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP;
      PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid();
    END $$; COMMIT
"""


@pytest.mark.slow
@pytest.mark.parametrize("table", ["ducklake_metadata", "ducklake_snapshot", "ducklake_snapshot_changes"])
def test_connection_that_ends_during_a_read_is_an_error(
    database: FragileDatabase, postgres_server: PostgresServer, table: str, tmp_path: Path
) -> None:
    """DuckDB ends the process if it closes a connection whose transaction cannot be rolled back any more."""
    config = config_of(tmp_path, on_postgres(postgres_server, database.name, postgres_server.port))
    with lakeconf.init(config).get_store("dev").open() as lake:
        lake.create_table("t", ROWS)
    command = [sys.executable, "-c", REFRESHING, json.dumps(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        database.sql(WAITED_FOR.format(table))
        said, errors = process.communicate()
    assert (process.returncode, said) == (0, f"ConnectionFailed {lake.snapshot_id}\n"), errors
