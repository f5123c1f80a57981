"""Large deletes and overwrites: a staged commit has the outcome of DuckDB's statements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import at_staged_commit
from lake_parts import catalog_of, session_of
from local_stores import config_of, in_bucket, on_catalog, store_of
from merge_cases import WriteOutcome, committer, fetched, outcome_of, unknown_files
from plain_sql import plain_rows, run_plain
from strength import PROVE

import lakeconf
from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.write import strategy as rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import S3Server

    from lakeconf import Lake, Store, Table

ROWS = "SELECT i AS id, 's' || i AS s, DATE '2024-01-01' + (i % 4)::INT AS day FROM range({}, {}) AS r(i)"
SETUP = (
    "CREATE TABLE § (id BIGINT, s VARCHAR, day DATE, x STRUCT(a INT))",
    "ALTER TABLE § DROP COLUMN x",
    "ALTER TABLE § SET PARTITIONED BY (day)",
    f"INSERT INTO § {ROWS.format(0, 40)}",
    f"INSERT INTO § {ROWS.format(40, 80)}",
    # A delete file, a second one for the same file, and a file without rows that are left.
    "DELETE FROM § WHERE id = 3",
    "DELETE FROM § WHERE id IN (1, 5)",
    "DELETE FROM § WHERE id % 4 = 2 AND id < 40 AND id > 2",
)
NEW = pa.table({"id": [7, 8], "s": ["x", None], "day": pa.array([19724, 19724], pa.date32())})
WRITES: dict[str, Callable[[Table], object]] = {
    "overwrite": lambda table: table.overwrite(NEW),
    "overwrite without rows": lambda table: table.overwrite(NEW.slice(0, 0)),
    "overwrite of a day": lambda table: table.overwrite(NEW, where="day = DATE '2024-01-02'"),
    "overwrite_partitions": lambda table: table.overwrite_partitions(NEW),
    "delete of a day": lambda table: table.delete("day = DATE '2024-01-01'"),
    "delete of days": lambda table: table.delete("day >= DATE '2024-01-02' AND id >= 0"),
    "delete of all rows": lambda table: table.delete("id >= 0"),
    # Only some rows of their files.
    "delete of parts": lambda table: table.delete("s LIKE 's1%'"),
    "delete of a day and parts": lambda table: table.delete("day = DATE '2024-01-01' OR id >= 60"),
    "overwrite of parts": lambda table: table.overwrite(NEW, where="id < 20"),
}
# Others delete all rows of a file with deletes in the catalog, or have rows of such a file among theirs.
STAGED_IF_INLINED = ("delete of parts", "overwrite of parts")
# Rows and deletes in the catalog.
INLINED = (
    "CALL dev.set_option('data_inlining_row_limit', 5, table_name => '§')",
    "DELETE FROM § WHERE id IN (8, 9)",
    "INSERT INTO § VALUES (6, 'in the catalog', DATE '2024-01-01'), (90, 'too', DATE '2024-01-02')",
    "DELETE FROM § WHERE id = 12",
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_catalog(request, tmp_path), data_inlining_row_limit=0)


@pytest.fixture
def local(tmp_path: Path) -> Store:
    """A store with the table `t`."""
    made = store_of(tmp_path, data_inlining_row_limit=0)
    create(made, "t")
    return made


def create(store: Store, *names: str, setup: Iterable[str] = SETUP) -> None:
    with store.connect() as connection:
        for name in names:
            for statement in setup:
                connection.execute(statement.replace("§", name))


def at_version(lake: Lake, name: str, version: int) -> list[tuple[Any, ...]]:
    return sorted(fetched(lake, f"SELECT rowid, * FROM {name} AT (VERSION => {version})"), key=str)


def feed(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """All changes of a table since it was created, without their snapshots."""
    query = f"SELECT * EXCLUDE (snapshot_id) FROM dev.table_changes('{name}', 0, {lake.refresh()})"
    return sorted(fetched(lake, query), key=str)


@pytest.mark.slow
@pytest.mark.prove("sqlite", "duckdb", "also in the catalog")
@pytest.mark.parametrize("inlined", [False, True], ids=["in files", "also in the catalog"])
def test_twins_stay_equal(store: Store, spark: SparkSession, *, inlined: bool) -> None:
    # Each second one, with rows in the catalog among them those of STAGED_IF_INLINED.
    writes = list(WRITES.items())
    for number, (what, write) in enumerate(writes if PROVE else writes[int(inlined) :: 2]):
        names = {twin: f"{twin}_{number}" for twin in ("public", "staged")}
        create(store, *names.values(), setup=(*SETUP, *(INLINED if inlined else ())))
        with store.open(spark) as lake:
            found: dict[str, WriteOutcome] = {}
            history = {}
            for twin, name in names.items():
                before = lake.refresh()
                earlier = at_version(lake, name, before)
                session_of(lake).committer = twin
                found[twin], _ = outcome_of(lake, name, write)
                # DuckLake's feed would be wrong if such a file were dropped, or deleted by positions.
                by_statements = inlined and what not in STAGED_IF_INLINED
                assert committer(lake) == ("public" if by_statements else twin), what
                assert at_version(lake, name, before) == earlier, what
                # Later writes of DuckDB meet the files of both.
                run_plain(lake, f"INSERT INTO {name} {ROWS.format(80, 84)}", f"UPDATE {name} SET s = 'u' WHERE id = 81")
                run_plain(lake, f"CALL ducklake_merge_adjacent_files('dev', '{name}')")
                history[twin] = at_version(lake, name, lake.refresh())
            assert found["staged"] == found["public"], what
            assert history["staged"] == history["public"], what
            assert feed(lake, names["staged"]) == feed(lake, names["public"]), what


def test_rows_that_duckdb_has_staged_are_inserted_by_a_statement(local: Store, spark: SparkSession) -> None:
    """The frame of a query is one of DuckDB, also if the lake is open on Spark: it has no files."""
    with replace(local, committer="staged").open(spark) as lake:
        lake.table("t").overwrite(lake.sql("SELECT id, s, day FROM dev.t WHERE id = 7"))
        assert committer(lake) == "public"
        assert [row[0] for row in fetched(lake, "SELECT id FROM t")] == [7]


@pytest.mark.slow
def test_timestamps_of_a_former_type_are_compared_in_the_time_zone_of_the_lake(
    tmp_path: Path, spark: SparkSession
) -> None:
    hours = "SELECT i AS id, TIMESTAMP '2024-01-01' + INTERVAL 1 HOUR * i AS t FROM range(24) AS r(i)"
    with store_of(tmp_path, data_inlining_row_limit=0).open(spark) as lake:
        for connection in (session_of(lake).writer, catalog_of(lake).connection):
            connection.execute("SET TimeZone = 'America/New_York'")
        for twin in ("public", "staged"):
            run_plain(lake, f"CREATE TABLE {twin} AS {hours}")
            run_plain(lake, f"ALTER TABLE {twin} ALTER COLUMN t SET DATA TYPE TIMESTAMPTZ")
            lake.refresh()
            session_of(lake).committer = twin
            lake.table(twin).delete("t < TIMESTAMPTZ '2024-01-01 12:00:00+00'")
            assert committer(lake) == twin
            assert [i for (i,) in plain_rows(lake, f"SELECT id FROM {twin} ORDER BY id")] == [*range(7, 24)]


@pytest.mark.slow
def test_few_rows_that_are_not_whole_files_are_left_to_statements(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckLake keeps few deletes in the catalog; in a file, they are wrong in its feed if the data file was flushed."""
    monkeypatch.setattr(rule, "ROWS_PER_STATEMENT", 10)
    monkeypatch.setattr(rule, "MOST_FILE_BYTES", 0)
    with store_of(tmp_path, data_inlining_row_limit=15).open(spark) as lake:
        run_plain(lake, "CREATE TABLE t AS SELECT 0::BIGINT AS id", "INSERT INTO t SELECT i FROM range(1, 15) AS r(i)")
        run_plain(lake, "CALL ducklake_flush_inlined_data('dev')")
        lake.refresh()
        lake.table("t").delete("id IN (1, 3, 5, 7, 9, 11, 13)")
        assert committer(lake) == "public"
        made = lake.snapshot_id
        query = "SELECT snapshot_id, change_type, count(*) FROM dev.table_changes('t', 3, {}) GROUP BY ALL"
        assert (made, "delete", 7) in fetched(lake, query.format(made))
        monkeypatch.setattr(rule, "FEWEST_POSITIONS", 1)
        lake.table("t").delete("id IN (2, 4)")
        assert committer(lake) == "staged"
        lake.table("t").delete("id = 0")
        assert committer(lake) == "public"
        lake.table("t").delete("id IN (6, 8)")
        assert committer(lake) == "staged"
        assert sorted(lake.table("t").to_arrow()["id"].to_pylist()) == [10, 12, 14]


DAY = "day = DATE '2024-01-02'"
# What another writer does before the commit, a write, and the ids of some rows after it.
OVERTAKEN: dict[str, tuple[str, Callable[[Table], object], str, list[int]]] = {
    "deletes": ("DELETE FROM t WHERE id < 40", lambda table: table.delete("id BETWEEN 5 AND 60"), "id < 62", [61]),
    "rewritten files": (
        "CALL ducklake_rewrite_data_files('dev', 't', delete_threshold => 0)",
        lambda table: table.delete("id BETWEEN 5 AND 60"),
        "id < 62",
        [0, 2, 4, 61],
    ),
    # An overwrite that has read nothing replaces the rows at the time of its commit, as a statement would.
    "new files": (
        f"INSERT INTO t {ROWS.format(100, 104)}",
        lambda table: table.overwrite(NEW, where=DAY),
        f"{DAY} OR id >= 100",
        [7, 8, 100, 102, 103],
    ),
    "new rows in the catalog": (
        "CALL dev.set_option('data_inlining_row_limit', 10, table_name => 't'); "
        "INSERT INTO t VALUES (99, 's', '2024-01-02')",
        lambda table: table.overwrite(NEW, where=DAY, idempotency_key="day"),
        DAY,
        [7, 8],
    ),
}


@pytest.mark.slow
@pytest.mark.prove("rewritten files", "new files")
@pytest.mark.parametrize("case", OVERTAKEN)
def test_overtaken_attempt_is_repeated_and_leaves_no_file(
    local: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str
) -> None:
    other, write, where, expected = OVERTAKEN[case]
    with local.open(spark) as lake:
        lake.table("t").append(NEW.slice(2), idempotency_key="first")
        session_of(lake).committer = "staged"
        at_staged_commit(monkeypatch, before=lambda: run_plain(lake, *other.split("; ")))
        done = write(lake.table("t"))
        assert committer(lake) == "staged"
        assert unknown_files(lake, tmp_path) == []
        assert sorted(lake.table("t").to_arrow(where=where)["id"].to_pylist()) == expected
        if "catalog" in case:
            assert lake.table("t").overwrite(NEW.slice(1), where=where, idempotency_key="day") == done


@pytest.mark.slow
@pytest.mark.hadoop_aws
@pytest.mark.usefixtures("searching")
def test_files_in_a_bucket_are_dropped_and_rows_are_found(
    tmp_path: Path, s3_server: S3Server, spark: SparkSession
) -> None:
    """The paths of the catalog are the names that DuckDB shows: otherwise the numbers of rows would differ."""
    store = lakeconf.init(config_of(tmp_path, storage=in_bucket(s3_server))).get_store("dev")
    assert store.storage_backend is not None
    configure_session(spark, store.storage_backend.hadoop_settings())
    with replace(store, committer="staged").open(spark) as lake:
        table = lake.create_table("t", {"id": "BIGINT", "s": "VARCHAR", "day": "DATE"}, partitioned_by=["day"])
        other = pa.table({"id": [1, 2], "s": ["a", "b"], "day": pa.array([19723, 19724], pa.date32())})
        table.append(other)
        before = lake.snapshot_id
        table.overwrite_partitions(NEW)
        assert committer(lake) == "staged"
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 7, 8]
        table.delete("day = DATE '2024-01-01'")
        assert committer(lake) == "staged"
        assert sorted(table.to_arrow()["id"].to_pylist()) == [7, 8]
        assert sorted(lake.at(version=before).table("t").to_arrow()["id"].to_pylist()) == [1, 2]
        session_of(lake).committer = "public"
        table.delete("id = 7")
        assert committer(lake) == "public"
        assert table.to_arrow()["id"].to_pylist() == [8]
