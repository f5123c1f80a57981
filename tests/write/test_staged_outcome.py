"""The same merges by statements and by a staged commit have the same rows, row ids, feed and history."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import on_postgres, store_of
from merge_cases import KEYS, OTHERS, Case, fetched, merged, random_case, shown
from plain_sql import run_plain
from strength import PROVE

from lakeconf.engines import small_merges
from lakeconf.write.merge import Update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

# The types whose files a staged commit takes, and some that it leaves to DuckDB.
TYPES = [name for name in OTHERS if name not in ("UUID", "UBIGINT", "JSON")]
# What other writers do later. Ids of inserted rows differ between the twins, so no statement uses them.
LATER = (
    "UPDATE {0} SET n = n + 1 WHERE n >= 0",
    "INSERT INTO {0} SELECT * FROM {0} WHERE n IS NULL",
    "DELETE FROM {0} WHERE s = 'a' OR k IS NULL",
    "CALL ducklake_flush_inlined_data('dev', table_name => '{0}')",
    "CALL ducklake_merge_adjacent_files('dev', '{0}')",
    "UPDATE {0} SET s = 'later' WHERE n = 3",
    # DuckLake cannot rewrite a table with floats in a catalog on SQLite or PostgreSQL.
    "CALL ducklake_flush_inlined_data('dev', table_name => '{0}')",
    "CALL ducklake_rewrite_data_files('dev', '{0}', delete_threshold => 0.0)",
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgres":
        return store_of(tmp_path, on_postgres(request.getfixturevalue("postgres_server")), data_inlining_row_limit=5)
    catalog = {"type": "duckdb", "uri": str(tmp_path / "catalog.ducklake")} if request.param == "duckdb" else None
    return store_of(tmp_path, catalog, data_inlining_row_limit=5)


def committer(lake: Lake) -> str:
    return str(json.loads(lake.snapshots()[-1].extra_info or "{}")["committer"])


def contents(lake: Lake, name: str, newest: int, version: int) -> list[str]:
    """The rows at a snapshot, with their ids, except for the ids of rows that the merge or later writers inserted."""
    table = f"dev.{name} AT (VERSION => {version})"
    found = fetched(lake, f"SELECT CASE WHEN rowid <= {newest} THEN rowid END, COLUMNS(*)::VARCHAR FROM {table}")
    return sorted(shown(list(row)) for row in found)


def filtered(lake: Lake, name: str, columns: dict[str, str]) -> dict[str, object]:
    """The number of rows for conditions that DuckDB answers with statistics, which must not lose rows."""
    counts: dict[str, object] = {}
    for column, found in columns.items():
        # DuckDB's dictionaries of Parquet files contain one of 0.0 and -0.0 for both.
        values = [f"CAST({text} AS {found})" for text in OTHERS[found] if "0.0" not in text]
        asked = [f"{column} IS NULL", f"{column} IS NOT NULL", *(f"{column} = {value}" for value in values)]
        asked += [f"{column} {sign} {value}" for value in values if found in KEYS for sign in ("<=", ">")]
        for condition in asked:
            ((pruned, whole),) = fetched(
                lake,
                f"SELECT (SELECT count(*) FROM dev.{name} WHERE {condition}), "
                f"(SELECT count(*) FROM (SELECT {column}, random() AS r FROM dev.{name}) WHERE r < 2 AND {condition})",
            )
            assert pruned == whole, (condition, pruned, whole)
            counts[condition] = pruned
    return counts


def check(store: Store, spark: SparkSession, cases: dict[str, Case], seen: Counter[str]) -> None:
    with store.connect() as connection:
        for key, case in cases.items():
            for statement in case.setup:
                for twin in ("public", "staged"):
                    connection.execute(statement.replace("§", f"{twin}_{key}"))
    with store.open(spark) as lake:
        for key, case in cases.items():
            ((newest,),) = fetched(lake, f"SELECT coalesce(max(rowid), -1) FROM public_{key}")
            versions: dict[str, list[int]] = {}
            outcomes = {}
            for twin in ("public", "staged"):
                lake._session.committer = twin
                before = lake.snapshot_id
                outcomes[twin], _ = merged(lake, f"{twin}_{key}", case)
                if lake.snapshot_id > before:
                    seen[committer(lake) if twin == "staged" else "public"] += 1
                versions[twin] = [before, lake.snapshot_id]
                for statement in LATER:
                    run_plain(lake, statement.format(f"{twin}_{key}"))
                    versions[twin].append(lake.refresh())
            assert outcomes["staged"] == outcomes["public"], case
            public, staged = (
                [contents(lake, f"{twin}_{key}", newest, version) for version in versions[twin]] for twin in versions
            )
            for at, pair in enumerate(zip(public, staged, strict=True)):
                assert pair[0] == pair[1], (at, set(pair[0]) ^ set(pair[1]), case)
            assert filtered(lake, f"staged_{key}", case.columns) == filtered(lake, f"public_{key}", case.columns)


def test_twins_stay_equal(store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random tables with rows in the catalog, deletes, evolved columns and NULLs; other writers change them later."""
    monkeypatch.setattr(small_merges, "MOST_FRAME_BYTES", -1)
    seen, number = Counter[str](), iter(range(10**6))
    first = 1000 * ("sqlite", "duckdb", "postgres").index(store.metadata_backend.type)
    for seed in range(first, first + (40 if PROVE else 1)):
        random = Random(seed)  # noqa: S311 - not for cryptography
        cases = {str(next(number)): random_case(random, TYPES, partitioned=0.1) for _ in range(3 if PROVE else 2)}
        check(store, spark, cases, seen)
    assert seen["staged"] > 0


# Each with the table, and how a merge into it is called; none can be carried by a staged commit.
OTHERWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "key": ("CREATE TABLE § (k BIGINT, v VARCHAR)", {"idempotency_key": "once"}),
    "list": ("CREATE TABLE § (k BIGINT, v VARCHAR, l INTEGER[])", {}),
    "partitions": ("CREATE TABLE § (k BIGINT, v VARCHAR); ALTER TABLE § SET PARTITIONED BY (v)", {}),
    "hidden": ("CREATE TABLE § (k BIGINT, v VARCHAR, filename VARCHAR)", {}),
    "field": ('CREATE TABLE § (k BIGINT, v VARCHAR, a STRUCT(b INTEGER), "a, b" INTEGER)', {}),
}


def test_other_merges_are_rewritten_by_duckdb(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_merges, "MOST_FRAME_BYTES", -1)
    store = store_of(tmp_path)
    frame = pa.table({"k": pa.array([2], pa.int64()), "v": ["new"]})
    with store.open(spark) as lake:
        lake._session.committer = "staged"
        for name, (definition, arguments) in OTHERWISE.items():
            run_plain(lake, definition.replace("§", name), f"INSERT INTO {name} (k, v) VALUES (1, 'old'), (2, 'old')")
            lake.refresh()
            lake.table(name).merge(frame, on="k", matched=[Update()], not_matched=None, **arguments)
            assert committer(lake) == "public", name
            assert sorted(fetched(lake, f"SELECT k, v FROM {name}")) == [(1, "old"), (2, "new")], name


@pytest.mark.parametrize("way", ["append", "staged"])
def test_texts_of_every_kind_hide_no_rows_from_duckdb(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A file without bounds makes DuckLake forget those of the table; it then takes the bounds of the next insert."""
    monkeypatch.setattr(small_merges, "MOST_FRAME_BYTES", -1)
    store = store_of(tmp_path)
    with store.connect() as connection:
        connection.execute("CREATE TABLE t (id BIGINT, s VARCHAR, u VARCHAR)")
        connection.execute("INSERT INTO t SELECT i, 'v' || i, 'v' || i FROM range(20) AS r(i)")
    frame = spark.sql(r"SELECT 4L AS id, repeat('l', 9000) AS s, 'C:\\xy' AS u UNION ALL SELECT 99L, 'x', 'y'")
    with store.open(spark) as lake:
        if way == "append":
            lake.table("t").append(frame)
        else:
            lake._session.committer = way
            lake.table("t").merge(frame, on="id")
            assert committer(lake) == "staged"
    with store.connect() as connection:
        connection.execute("INSERT INTO t VALUES (200, 'm', 'm')")
        query = "SELECT (SELECT count(*) FROM t WHERE s = 'v7'), (SELECT count(*) FROM t WHERE u < 'D')"
        assert connection.execute(query).fetchall() == [(1, 1)]
