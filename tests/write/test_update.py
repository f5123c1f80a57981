"""Large updates: Spark writes the rows and a staged commit commits them, with the outcome of DuckDB's UPDATE."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pytest
from lake_parts import session_of
from local_stores import on_catalog, store_of
from merge_cases import OTHERS, WriteOutcome, commit_info, committer, fetched, outcome_of, random_case
from plain_sql import run_plain
from strength import PROVE
from twin_checks import check_partitions, filtered

from lakeconf.errors import SchemaError, StorageError
from lakeconf.write import strategy as rule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store, Table

# The types whose files a staged commit takes, and some that it leaves to DuckDB.
TYPES = [name for name in OTHERS if name not in ("UUID", "UBIGINT", "JSON")]
CONDITIONS = ["n >= 0", "k IS NOT NULL", "true", "s = 'a' OR n IS NULL", "n % 2 = 0", "false", "rtrim(s) = 'a'"]
COMPUTED = [nw.col("n") + 1, nw.col("n") * 2, nw.when(nw.col("n") > 0).then(nw.lit(5)).otherwise(nw.col("n"))]


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_catalog(request, tmp_path), data_inlining_row_limit=5)


def constant_of(random: Random, type_name: str) -> object:
    if random.random() < 0.2:
        return None
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        text = random.choice(OTHERS[type_name])
        ((value,),) = connection.execute(f"SELECT CAST({text} AS {type_name})").fetchall()
    return value


def random_update(random: Random, columns: dict[str, str]) -> dict[str, object]:
    """New values of some columns: constants, and for numbers also expressions."""
    names = random.sample(sorted(columns), random.randint(1, 2))
    values = {name: constant_of(random, columns[name]) for name in names}
    return values | ({"n": random.choice(COMPUTED)} if random.random() < 0.5 else {})


def updated(table: Table, change: tuple[dict[str, object], str]) -> None:
    table.update(*change)


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
def test_twins_stay_equal(store: Store, spark: SparkSession) -> None:
    """Random tables with partitions, rows in the catalog, deletes and evolved columns; each is updated twice."""
    seen = Counter[str]()
    first = 1000 * ("sqlite", "duckdb", "postgres").index(store.metadata_backend.type)
    for seed in range(first, first + (60 if PROVE else 2)):
        random = Random(seed)  # noqa: S311 - not for cryptography
        case = random_case(random, TYPES, partitioned=0.5, evolved=0.4)
        names = {twin: f"{twin}_{seed}" for twin in ("public", "staged")}
        with store.connect() as connection:
            for statement in case.setup:
                for name in names.values():
                    connection.execute(statement.replace("§", name))
        updates = [(random_update(random, case.columns), random.choice(CONDITIONS)) for _ in range(2)]
        with store.open(spark) as lake:
            found: dict[str, list[WriteOutcome]] = {}
            for twin, name in names.items():
                session_of(lake).committer = twin
                found[twin] = []
                for change in updates:
                    before = lake.refresh()
                    found[twin].append(outcome_of(lake, name, partial(updated, change=change))[0])
                    if lake.snapshot_id > before:
                        seen[committer(lake)] += 1
            assert found["staged"] == found["public"], (updates, case)
            seen["partitions"] += check_partitions(lake, names["staged"])
        with store.connect() as connection:
            public, staged = (filtered(connection, name, case.columns) for name in names.values())
            assert public == staged, (updates, case)
    assert seen["staged"] > 0


@pytest.fixture
def local(tmp_path: Path) -> Store:
    """A store with the table `t`: twenty rows with an id, a text and a day."""
    found = store_of(tmp_path, data_inlining_row_limit=0)
    with found.connect() as connection:
        connection.execute("CREATE TABLE t (id BIGINT, s VARCHAR NOT NULL, day DATE)")
        connection.execute("ALTER TABLE t SET PARTITIONED BY (s)")
        connection.execute("INSERT INTO t SELECT i, 'old', DATE '2024-01-01' + i::INT FROM range(20) AS r(i)")
    return found


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(fetched(lake, "SELECT rowid, id, s FROM t"))


@pytest.mark.slow
def test_auto_stages_updates_of_many_bytes(local: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with local.open(spark) as lake:
        lake.table("t").update({"s": "new"}, "id < 3")
        assert committer(lake) == "public"
        monkeypatch.setattr(rule, "LEAST_BYTES", 1)
        changes: list[dict[str, object]] = [{"s": "newer"}, {"id": nw.col("id") + 100}]
        for number, values in enumerate(changes):
            lake.table("t").update(values, "id < 3")
            assert committer(lake) == "staged", number
        assert rows(lake) == [(i, i + 100, "newer") if i < 3 else (i, i, "old") for i in range(20)]


def test_newer_rows_are_updated_too(local: Store, spark: SparkSession) -> None:
    """The lake was opened before they were added: a write starts from the latest snapshot."""
    with replace(local, committer="staged").open(spark) as lake:
        run_plain(lake, "INSERT INTO t VALUES (99, 'old', NULL)")
        lake.table("t").update({"s": "new"}, "id > 15")
        assert committer(lake) == "staged"
        assert [row[1:] for row in rows(lake)][-5:] == [*((i, "new") for i in range(16, 20)), (99, "new")]


@pytest.mark.slow
def test_a_full_disk_is_no_reason_to_update_with_duckdb(
    local: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageError("no space left")

    with replace(local, committer="staged").open(spark) as lake:
        monkeypatch.setattr(type(session_of(lake).engine), "stage_rows", full)
        before = lake.snapshot_id
        with pytest.raises(StorageError, match="no space left"):
            lake.table("t").update({"s": "new"}, "id > 15")
        assert lake.refresh() == before
        assert {s for _, _, s in rows(lake)} == {"old"}


@pytest.mark.parametrize("committer", ["public", "staged"])
def test_null_in_a_required_column_is_refused(local: Store, spark: SparkSession, committer: str) -> None:
    with replace(local, committer=committer).open(spark) as lake:
        expected = rows(lake)
        with pytest.raises(Exception, match="NOT NULL") as raised:
            lake.table("t").update({"s": None}, "id > 15")
        assert committer == "public" or raised.type is SchemaError
        assert rows(lake) == expected


def test_transaction_updates_by_a_statement(local: Store, spark: SparkSession) -> None:
    with replace(local, committer="staged").open(spark) as lake:
        with lake.transaction() as transaction:
            transaction.table("t").update({"s": "new"}, "id = 1")
            transaction.table("t").update({"s": "newer"}, "id = 2")
        assert committer(lake) == "public"
        assert [row[2] for row in rows(lake)][:4] == ["old", "new", "newer", "old"]


@pytest.mark.slow
@pytest.mark.parametrize("committer", ["auto", "staged"])
def test_condition_that_spark_refuses_is_left_to_duckdb(
    local: Store, spark: SparkSession, committer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """DuckDB casts texts that Spark may read differently; with few rows, and before staged updates, it did."""
    monkeypatch.setattr(rule, "LEAST_BYTES", 1)
    with replace(local, committer=committer).open(spark) as lake:
        lake.table("t").update({"s": " 1.0"}, "id = 3")
        lake.refresh()
        before = {*tmp_path.rglob("*.parquet")}
        lake.table("t").update({"id": 99}, "s <> 'old' AND CAST(s AS INTEGER) = 1")
        assert commit_info(lake)["committer"] == "public"
        assert rows(lake)[3] == (3, 99, " 1.0")
        added = {path.name for path in {*tmp_path.rglob("*.parquet")} - before}
        assert [name for name in added if not name.startswith("ducklake-")] == []


@pytest.mark.slow
def test_computed_update_with_a_condition_that_spark_refuses_is_duckdbs(local: Store, spark: SparkSession) -> None:
    with local.open(spark) as lake:
        engines: tuple[Any, ...] = (None, "duckdb")
        for rest, (committer, engine) in enumerate(itertools.product(("auto", "public", "staged"), engines)):
            session_of(lake).committer = committer
            changes = {key: key + (key % 2 == rest % 2) for _, key, _ in rows(lake)}
            expected = [(row_id, changes[key], s) for row_id, key, s in rows(lake)]
            before = lake.snapshot_id
            lake.table("t").update({"id": nw.col("id") + 1}, f"id % 2 = {rest % 2}", engine=engine)
            assert (rows(lake), lake.snapshot_id) == (expected, before + 1), (committer, engine)


@pytest.mark.slow("on_spark")
@pytest.mark.prove("sqlite-on_spark", "duckdb-on_spark")
@pytest.mark.parametrize("value", [nw.col("id") * nw.col("day"), nw.col("id").list.len()], ids=["operator", "function"])
def test_an_expression_that_the_engine_cannot_compute_is_refused(store: Store, engine: Any, value: nw.Expr) -> None:
    with store.open(engine) as lake:
        table = lake.create_table("t", {"id": "BIGINT", "day": "DATE"})
        table.append([{"id": 1, "day": None}])
        with pytest.raises(SchemaError) as refused:
            table.update({"id": value}, where="id = 1")
        assert len(refused.value.message.splitlines()) == 1
        assert "__lakeconf" not in str(refused.value)
