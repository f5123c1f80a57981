"""A killed writer or compaction leaves the lake in the state before or after it, and cleanup removes other files."""

from __future__ import annotations

import datetime as dt
import random
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import writing_process
from killed_writers import after, check, known_files
from local_stores import config_of, on_postgres, store_of
from maintaining_process import AFTER, BEFORE, INSIDE, NEVER, Death, Maintainers
from plain_sql import run_plain
from spark_classes import spark_settings
from strength import PROVE
from writing_process import FIRST_BYTES, MOVES, OPERATIONS, TABLE, WAITS, PreparedWriters, frame, read, start

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servers import FaultProxy, PostgresServer
    from writing_process import Rows

    from lakeconf import Lake, Store


# For each point, whether the writer has committed when it is killed.
POINTS = {
    "prepare": False,
    "begin": False,
    "in the statements": False,
    "before the commit": False,
    "at the first byte of the commit": False,
    "in the middle of the commit": False,
    "after the commit": True,
    "resolve": True,
}
# A writer is killed at a random time up to this limit; the longest write here takes less.
LONGEST_SECONDS = 0.3


@pytest.fixture(params=["sqlite", "duckdb"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return config_of(tmp_path, {"type": request.param, "uri": str(tmp_path / "catalog")})


@pytest.fixture
def sqlite(tmp_path: Path) -> dict[str, Any]:
    return config_of(tmp_path)


def written(store: Store, partitioned_by: Sequence[str] = ()) -> Rows:
    """The rows of a new table after two writes."""
    with store.open() as lake:
        lake.create_table(TABLE, frame(0), partitioned_by=partitioned_by)
        for number in range(2):
            lake.table(TABLE).append(frame(number))
        return read(lake)


def kill_forks(config: dict[str, Any], tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    """Kills a writer for each (operation, point) pair; each writer first reports the rows it finds."""
    store = lakeconf.init(config).get_store("dev")
    rows = written(store)
    with PreparedWriters() as writers:
        for number, (operation, point) in enumerate(pairs, start=2):
            found, word, code = writers.write(config, operation, number, point)
            assert found == rows, (operation, point)
            # Inside COMMIT a file size limit kills the writer (SIGXFSZ); at all other points it kills itself.
            inside = point in FIRST_BYTES
            assert (word, code) == (("committing", -25) if inside else ("rows", -9)), (operation, point)
            rows = after(rows, operation, number) if POINTS[point] else rows
            if operation == "keyed":
                with store.open() as lake:
                    writing_process.write(lake, operation, number)
                rows = after(rows, operation, number) if not POINTS[point] else rows
            if len(pairs) == number - 1 or pairs[number - 1][0] != operation:
                rows = check(store, tmp_path, [rows])


def every_pair() -> list[tuple[str, str]]:
    return [(operation, point) for operation in OPERATIONS for point in POINTS]


def each_once() -> list[tuple[str, str]]:
    """The fewest pairs that contain each operation and each point."""
    count = max(len(OPERATIONS), len(POINTS))
    points = list(POINTS)
    return [(OPERATIONS[index % len(OPERATIONS)], points[index % len(POINTS)]) for index in range(count)]


@pytest.mark.slow
@pytest.mark.prove("sqlite")
def test_writer_killed_at_each_point_leaves_a_consistent_lake(config: dict[str, Any], tmp_path: Path) -> None:
    is_sqlite = config["stores"]["dev"]["metadata_backend"]["type"] == "sqlite"
    kill_forks(config, tmp_path, every_pair() if is_sqlite or PROVE else each_once())


@pytest.mark.slow
def test_killed_spark_writer_of_a_partitioned_table_leaves_a_consistent_lake(
    sqlite: dict[str, Any], tmp_path: Path
) -> None:
    """Each writer is a process with its own JVM; `make prove` runs every (operation, point) pair."""
    settings = {**spark_settings(), "spark.master": "local[2]"}
    store = lakeconf.init(sqlite).get_store("dev")
    rows = written(store, partitioned_by=["id"])
    pairs = every_pair() if PROVE else [("overwrite", "in the middle of the commit"), ("two_tables", "resolve")]
    for number, (operation, point) in enumerate([("append", MOVES), *pairs], start=2):
        writer = start(sqlite, settings, operation=operation, number=number, point=point)
        writer.communicate()
        assert writer.returncode == (-25 if point in FIRST_BYTES else -9), (operation, point)
        placed = [path for path in (tmp_path / "data").rglob("lakeconf-*.parquet") if "=" in path.parent.name]
        assert placed or point != MOVES
        rows = check(store, tmp_path, [after(rows, operation, number) if POINTS.get(point) else rows])


def test_writer_killed_at_a_random_time_leaves_a_consistent_lake(config: dict[str, Any], tmp_path: Path) -> None:
    store = lakeconf.init(config).get_store("dev")
    rows = written(store)
    chance = random.Random(0)  # noqa: S311 - the same kills every time
    for number in range(2, 42 if PROVE else 4):
        operation = chance.choice(OPERATIONS)
        writer = start(config, None, operation=operation, number=number, point=None)
        try:
            writer.wait(timeout=chance.uniform(0, LONGEST_SECONDS))
        except subprocess.TimeoutExpired:
            writer.kill()
        writer.communicate()
        rows = check(store, tmp_path, [rows, after(rows, operation, number)])


@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True])
def test_writer_killed_during_a_postgresql_commit(
    committed: bool, postgres_server: PostgresServer, postgres_proxy: FaultProxy, tmp_path: Path
) -> None:
    """The writer is killed after sending COMMIT: the server never receives it, or its reply is lost."""
    database = postgres_server.create_database()
    store = store_of(tmp_path, on_postgres(postgres_server, database))
    with store.open() as lake:
        lake.create_table(TABLE, frame(0))
        for number in range(2):
            writing_process.write(lake, "keyed", number)
        rows = read(lake)
    proxied = config_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))
    for number, operation in enumerate(("keyed", "overwrite"), start=2):
        writer = start(proxied, None, operation=operation, number=number, point=WAITS)
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "committing\n"
        postgres_proxy.hold_on(b"COMMIT", forward=committed)
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert postgres_proxy.wait_until_held()
        writer.kill()
        writer.communicate()
        rows = check(store, tmp_path, [after(rows, operation, number) if committed else rows])
    # The locks of killed writers do not block others, and the first key is recorded only if its write committed.
    with store.open() as lake:
        writing_process.write(lake, "keyed", 2)
        assert read(lake) == (rows if committed else after(rows, "keyed", 2))


KILLS = {"sqlite": 20, "duckdb": 4, "postgres": 4}
TABLES = ("raw.plain", "raw.parts", "raw.other")
# A killed process takes at most this number of steps; four steps are a transaction of DuckLake, twenty a staged commit.
MOST_STEPS = 60
# The share of the files of a table that have no values in a column.
_EMPTY = 0.3
KILLED = (-signal.SIGKILL, -signal.SIGXFSZ)

State = list[tuple[int, int, str]]


@pytest.fixture(params=list(KILLS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def maintained(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Small deletes go to the catalog, so that a compaction flushes them; larger ones make files that it rewrites."""
    catalog: dict[str, Any] = {"type": kind, "uri": str(tmp_path / "catalog")}
    if kind == "postgres":
        catalog = on_postgres(request.getfixturevalue("postgres_server"))
    maintained = config_of(tmp_path, catalog)
    maintained["stores"]["dev"]["attach_options"] = {"data_inlining_row_limit": 3}
    return maintained


def state(lake: Lake, table: str, version: int | None = None) -> State:
    """The rows of a table with their row ids, as plain DuckDB reads them."""
    at = "" if version is None else f" AT (VERSION => {version})"
    found = lake.sql(f"SELECT rowid, id, kind FROM {table}{at} ORDER BY id").collect("pyarrow")
    return [(int(row[0]), int(row[1]), str(row[2])) for row in found.rows()]


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "data").rglob("*.parquet")}


class History:
    """What the lake must contain: the rows of each table, now and at earlier snapshots."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now: dict[str, State] = {}
        self.past: list[tuple[int, str, State]] = []
        self._rows = 0

    def create(self, lake: Lake) -> None:
        for table in TABLES:
            partitioned_by = ["kind"] if table == "raw.parts" else []
            lake.create_table(table, {"id": "BIGINT", "kind": "VARCHAR"}, partitioned_by=partitioned_by)
        run_plain(lake, "CALL dev.set_option('rewrite_delete_threshold', 0.3)")
        for _ in range(4):
            self.change(lake)

    def change(self, lake: Lake) -> None:
        """Adds files to each table, and deletes few or many rows of one."""
        with lake.transaction() as tx:
            for table in TABLES * 3:
                ids = range(self._rows, self._rows + 10)
                self._rows += 10
                # DuckLake would forget the bounds of a table with files of which some have no values.
                is_empty = table == "raw.other" and self.chance.random() < _EMPTY
                kinds = [None if is_empty else f"k{id_ % 2}" for id_ in ids]
                tx.table(table).append(
                    pa.table({"id": pa.array(ids, pa.int64()), "kind": pa.array(kinds, pa.string())})
                )
        table = self.chance.choice(TABLES)
        first = self.chance.choice(state(lake, table))[1]
        lake.table(table).delete(f"id >= {first} AND id < {first + self.chance.choice((1, 8))}")
        for each in TABLES:
            self.now[each] = state(lake, each)
            self.past.append((lake.snapshot_id, each, self.now[each]))

    def check(self, lake: Lake, tmp_path: Path, *, versions: int) -> None:
        """Checks rows, row ids, numbers of rows and files, and some of the earlier snapshots."""
        for table in TABLES:
            assert state(lake, table) == self.now[table]
            assert lake.sql(f"SELECT count(*) FROM {table}").collect("pyarrow").rows() == [(len(self.now[table]),)]
        for version, table, rows in self.chance.sample(self.past, min(versions, len(self.past))):
            assert state(lake, table, version) == rows, (table, version)
        assert known_files(lake) <= files(tmp_path)


@pytest.mark.slow
@pytest.mark.prove("sqlite", "duckdb")
def test_kills_during_maintenance_lose_nothing(kind: str, maintained: dict[str, Any], tmp_path: Path) -> None:
    chance = random.Random(kind)  # noqa: S311 - the same kills every time
    store, history = lakeconf.init(maintained).get_store("dev"), History(chance)
    with store.open() as lake:
        history.create(lake)
        before = lake.snapshot_id
    kills, committed = KILLS[kind] * (10 if PROVE else 1), 0
    with Maintainers() as maintainers:
        for _ in range(kills):
            how = chance.choice((BEFORE, INSIDE, AFTER))
            death = Death(how, chance.randint(1, MOST_STEPS), chance.randint(1, 2000))
            assert maintainers.run(maintained, death) in KILLED, death
            with store.open() as lake:
                committed += lake.snapshot_id - before
                history.check(lake, tmp_path, versions=2)
                lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
                assert files(tmp_path) == known_files(lake)
                history.change(lake)
                before = lake.snapshot_id
        assert maintainers.run(maintained, NEVER) == 0
    # Each process continued where the one before was killed.
    assert committed > kills
    with store.open() as lake:
        assert lake.maintenance.plan_compaction() == []
        history.check(lake, tmp_path, versions=30)
