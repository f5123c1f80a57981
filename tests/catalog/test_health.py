"""What the health checks find: lost bounds and ids, deletes that a rewrite undid, and statistics that hide rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lake_parts import catalog_of
from local_stores import store_of
from plain_sql import run_plain
from strength import in_prove

import lakeconf
from lakeconf.catalog.health import (
    forgotten_bounds,
    lost_bounds,
    lost_deletes,
    merged_update,
    table_bounds,
)
from lakeconf.catalog.table_statistics import hiding_bounds
from lakeconf.cli import app
from lakeconf.errors import PipelineError
from lakeconf.pipelines import Append, Model, Pipeline, Query, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store


VALUES = "INSERT INTO t SELECT i, {0} FROM range({1}, {1} + 10) r(i)"
NULLS, ONES, NANS = VALUES.format("NULL", 0), VALUES.format("1", 10), VALUES.format("'nan'", 20)
PARTITIONED = "ALTER TABLE t SET PARTITIONED BY (v)"
DELETE = "DELETE FROM t WHERE id IN (15, 33)"
LOST = {
    "a file has only NULLs": ("INTEGER", [NULLS, ONES, DELETE]),
    "a file of another partition has only NULLs": ("INTEGER", [PARTITIONED, ONES, NULLS, DELETE]),
    "a file has only NaN": ("DOUBLE", [NANS, ONES, DELETE]),
    "a file has only NULLs in a field": ("STRUCT(a INTEGER)", [NULLS, VALUES.format("{'a': 1}", 10), DELETE]),
    "a file of texts has only NULLs": ("VARCHAR", [NULLS, VALUES.format("'x'", 10), DELETE]),
    "the rows that are left have only NULLs": (
        "INTEGER",
        [
            "ALTER TABLE t SET PARTITIONED BY (bucket(2, id))",
            *(VALUES.format("CASE WHEN i = 33 THEN 3 END", start) for start in (30, 40)),
            ONES,
            "DELETE FROM t WHERE id IN (33, 15) OR id BETWEEN 40 AND 48",
        ],
    ),
}
KEPT = {
    "no NULLs": ("INTEGER", [ONES, VALUES.format("2", 20), DELETE]),
    "some NULLs": ("INTEGER", [VALUES.format("CASE WHEN i % 2 = 0 THEN 3 END", 30), ONES, DELETE]),
    "no values at all": ("INTEGER", [NULLS, "DELETE FROM t WHERE id = 5"]),
    "no bounds": ("BLOB", [NULLS, "DELETE FROM t WHERE id = 5"]),
    "a column that older files lack": (
        "INTEGER",
        [ONES, "ALTER TABLE t ADD more INTEGER", "INSERT INTO t SELECT i, 1, 2 FROM range(40, 50) r(i)", DELETE],
    ),
}
BOUNDS = "SELECT column_id FROM __ducklake_metadata_dev.ducklake_table_column_stats WHERE min_value IS NOT NULL"


def found_and_lost(folder: Path, kind: str, statements: list[str]) -> tuple[dict[Any, list[str]], bool]:
    """What is found; and whether DuckLake then forgets bounds."""
    store = store_of(folder)
    with store.connect() as connection:
        connection.execute("CALL dev.set_option('data_inlining_row_limit', 0)")
        connection.execute(f"CREATE TABLE t (id BIGINT, v {kind})")
        for statement in statements:
            connection.execute(statement)
    with store.open(read_only=True) as lake:
        found = lost_bounds(catalog_of(lake))
    with store.connect() as connection:
        before = {column for (column,) in connection.execute(BOUNDS).fetchall()}
        connection.execute("CALL ducklake_rewrite_data_files('dev', 't', delete_threshold => 0.0)")
        return found, {column for (column,) in connection.execute(BOUNDS).fetchall()} != before


@pytest.mark.slow
@pytest.mark.parametrize("case", [*LOST, *KEPT])
def test_columns_whose_bounds_are_lost(case: str, tmp_path: Path) -> None:
    found, is_lost = found_and_lost(tmp_path, *(LOST | KEPT)[case])
    assert found == ({("main", "t"): ["a" if "field" in case else "v"]} if case in LOST else {})
    # DuckLake also forgets them if no row is left with a value, depending on the order of the files.
    assert is_lost == (case in LOST) or case.startswith("the rows")


def test_files_that_stay_without_bounds_make_ducklake_forget_them(tmp_path: Path) -> None:
    """Unless a file that stays has deleted rows; a file that DuckLake has removed does not count."""
    store = store_of(tmp_path)
    with store.connect() as connection:
        connection.execute("CALL dev.set_option('data_inlining_row_limit', 0)")
        connection.execute("CREATE TABLE t (id BIGINT, v INTEGER)")
        for statement in (NULLS, ONES, VALUES.format("3", 20), "DELETE FROM t WHERE id IN (11, 25)"):
            connection.execute(statement)
    with store.open() as lake, catalog_of(lake).transaction() as metadata:
        ((table_id,),) = metadata.rows("SELECT table_id FROM ducklake_table")
        assert forgotten_bounds(metadata, table_id, {1}) == {}
        assert forgotten_bounds(metadata, table_id, {1, 2}) == {0: "v"}
        assert forgotten_bounds(metadata, table_id, {0, 1, 2}) == {}
        assert forgotten_bounds(metadata, table_id + 1, {1, 2}) == {}
        assert table_bounds(metadata, table_id) == {1: ("0", "29"), 2: ("1", "3")}
        assert table_bounds(metadata, table_id + 1) == {}
    with store.connect() as connection:
        connection.execute("DELETE FROM t WHERE v = 3")
    with store.open() as lake, catalog_of(lake).transaction() as metadata:
        assert forgotten_bounds(metadata, table_id, {1}) == {0: "v"}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with the table `raw.t`, whose rows 0 to 2 exist in snapshot 2."""
    with store_of(tmp_path).open() as lake:
        found = lake.sql("SELECT range AS id, 'a' AS v FROM range(3)")
        lake.create_table("raw.t", found).append(found)
        yield lake


def changed(lake: Lake, key: int) -> None:
    """Updates a row and inserts one, in one snapshot."""
    found = lake.sql(f"SELECT * FROM (VALUES ({key}, 'b'), ({key + 100}, 'new')) AS t(id, v)")
    lake.table("raw.t").merge(found, "id")


def kinds(lake: Lake) -> set[str]:
    native: Any = lake.table("raw.t").changes(3).to_native()
    return {row[2] for row in native.fetchall()}


def merge_by_ducklake(lake: Lake) -> None:
    """Merges files without lakeconf, which would keep the ids of updated rows."""
    run_plain(lake, "CALL ducklake_merge_adjacent_files('dev')")
    lake.refresh()


def test_update_before_a_merge_of_files_is_found(lake: Lake) -> None:
    changed(lake, 1)
    changed(lake, 2)
    assert merged_update(catalog_of(lake), "raw.t", 2, lake.snapshot_id) is None
    merge_by_ducklake(lake)
    assert "update_postimage" not in kinds(lake)
    assert merged_update(catalog_of(lake), "raw.t", 2, lake.snapshot_id) == (3, lake.snapshot_id)
    # The second one ended the range of an earlier run.
    assert merged_update(catalog_of(lake), "raw.t", 4, lake.snapshot_id) is None


@pytest.mark.slow
def test_inserts_and_merges_of_lakeconf_keep_the_ids(lake: Lake) -> None:
    run_plain(lake, "ALTER TABLE dev.raw.t SET SORTED BY (id DESC)")
    lake.refresh()
    lake.table("raw.t").append(lake.sql("SELECT range + 10 AS id, 'a' AS v FROM range(3)"))
    lake.maintenance.compact()
    assert merged_update(catalog_of(lake), "raw.t", 2, lake.snapshot_id) is None
    changed(lake, 1)
    changed(lake, 2)
    lake.maintenance.compact()
    assert "update_postimage" in kinds(lake)
    assert merged_update(catalog_of(lake), "raw.t", 2, lake.snapshot_id) is None


@pytest.mark.slow
def test_model_of_new_rows_refuses_such_an_update(lake: Lake) -> None:
    pipeline = Pipeline([Model("marts.log", Append(new_rows_of="raw.t"), Query("SELECT id, v FROM raw.t"))])
    assert run(pipeline, lake)[0].rows == 3
    changed(lake, 1)
    changed(lake, 2)
    merge_by_ducklake(lake)
    (failed,) = run(pipeline, lake)
    assert isinstance(failed.error, PipelineError)
    assert failed.error.message.startswith("the new rows of raw.t cannot be told from others: snapshot 4 updated ")
    assert "lakeconf run marts.log --rebuild" in str(failed.error.hint)
    (done,) = run(pipeline, lake, rebuild=True)
    assert (done.status, done.rows) == ("done", 5)
    changed(lake, 0)
    (done,) = run(pipeline, lake)
    assert (done.status, done.rows) == ("done", 1)


CONFIG = """
[stores.dev]
metadata_backend = { type = "duckdb", uri = "catalog.duckdb" }
storage_backend = { type = "local", path = "data" }
"""


@pytest.fixture
def store(project: Path) -> Store:
    (project / "lakeconf.toml").write_text(CONFIG)
    return lakeconf.init().get_store()


def delete_beside_a_rewrite(store: Store, *, overlap: bool) -> None:
    """Deletes row 50 with plain DuckDB, and rewrites its file before or after that transaction commits."""
    with store.connect() as writer, writer.cursor() as rewriter:
        writer.execute("CREATE TABLE dev.t AS SELECT range AS i FROM range(100)")
        writer.execute("DELETE FROM dev.t WHERE i < 40")
        writer.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
        writer.execute("BEGIN; DELETE FROM dev.t WHERE i = 50")
        if not overlap:
            writer.execute("COMMIT")
        rewriter.execute("CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)")
        if overlap:
            writer.execute("COMMIT")


@pytest.mark.parametrize("overlap", [True, False], ids=["beside it", "earlier"])
def test_deletes_undone_by_a_rewrite_are_counted(
    store: Store, overlap: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    delete_beside_a_rewrite(store, overlap=overlap)
    with store.open() as lake:
        found = lake.sql("SELECT count(*) AS n FROM t WHERE i = 50").collect("pyarrow").to_native()["n"].to_pylist()
        # The result of `lost_deletes` matches the rows that DuckDB returns.
        assert found == [int(overlap)]
        reader = catalog_of(lake)
        assert lost_deletes(reader) == ({("main", "t"): 1} if overlap else {})
        assert lost_deletes(reader, lake.snapshot_id - 1) == {}
    assert app.run(["doctor"]) == 0
    assert ("deleted rows are visible again: 1 of main.t" in capsys.readouterr().out) == overlap


def test_dropped_table_has_no_lost_deletes(store: Store) -> None:
    delete_beside_a_rewrite(store, overlap=False)
    with store.connect() as writer:
        writer.execute("DELETE FROM dev.t WHERE i = 60; DROP TABLE dev.t")
        writer.execute("CREATE TABLE dev.t AS SELECT range AS i FROM range(100)")
        writer.execute("BEGIN; DELETE FROM dev.t WHERE i = 5; DELETE FROM dev.t WHERE i >= 0; COMMIT")
    with store.open() as lake:
        assert lost_deletes(catalog_of(lake)) == {}


# Each type with two values, the first of which is not between the bounds of the second.
HIDDEN = {
    "INTEGER": ("-7", "5"),
    "UBIGINT": ("18446744073709551615", "5"),
    "BIGINT": ("10", "9"),
    "DOUBLE": ("10.5", "9.25"),
    "DECIMAL(38, 2)": ("10.50", "9.25"),
    "DATE": ("'2020-01-01'", "'2021-01-01'"),
    "TIMESTAMP": ("'2020-01-01 00:00:01'", "'2021-01-01'"),
    "TIMESTAMPTZ": ("'2020-01-01 00:00:01+02'", "'2021-01-01 00:00:00+00'"),
    "VARCHAR": ("'zz'", "'aa'"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'", "'10000000-0000-0000-0000-000000000001'"),
}


def stale(store: Store) -> dict[tuple[str, str], list[str]]:
    with store.open(read_only=True) as lake:
        return hiding_bounds(catalog_of(lake))


def append_values(lake: Lake, kind: str, *values: str) -> None:
    rows = ", ".join(f"({value}::{kind})" for value in values)
    lake.table("raw.t").append(lake.sql(f"SELECT v FROM (VALUES {rows}) AS t(v)"))


def without_bounds(folder: Path) -> None:
    """What a writer leaves whose files have no bounds."""
    with sqlite3.connect(folder / "catalog") as catalog:
        for table in ("ducklake_file_column_stats", "ducklake_table_column_stats"):
            catalog.execute(f"UPDATE {table} SET min_value = NULL, max_value = NULL")
    catalog.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*list(HIDDEN)[::2], *in_prove(list(HIDDEN)[1::2])])
def test_hidden_rows_are_found_before_and_after_the_insert_that_hides_them(kind: str, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    hidden, visible = HIDDEN[kind]

    def matching() -> int:
        with store.connect() as connection:
            return len(connection.execute(f"FROM raw.t WHERE v = {hidden}::{kind}").fetchall())

    with store.open() as lake:
        lake.create_table("raw.t", {"v": kind})
        append_values(lake, kind, hidden, "NULL", "NULL")
    assert stale(store) == {}
    without_bounds(tmp_path)
    assert stale(store) == {("raw", "t"): ["v"]}
    assert matching() == 1
    with store.open() as lake:
        append_values(lake, kind, visible)
        assert matching() == 0
        assert stale(store) == {("raw", "t"): ["v"]}
        lake.maintenance.compact()  # the new file has bounds, the table still has not
        assert matching() == 0
        assert stale(store) == {("raw", "t"): ["v"]}
        assert len(lake.sql(f"FROM raw.t WHERE v = {hidden}::{kind}").to_native().fetchall()) == 1
        lake.table("raw.t").overwrite(lake.table("raw.t").scan())
    assert matching() == 1
    assert stale(store) == {}


def test_columns_without_values_with_nan_only_or_without_bounds_of_their_type_are_no_finding(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    with store.open() as lake:
        types = {
            "n": "VARCHAR",
            "f": "DOUBLE",
            "i": "INTERVAL",
            "l": "INTEGER[]",
            "s": "STRUCT(a VARCHAR)",
            "h": "HUGEINT",
        }
        table = lake.create_table("raw.t", types)
        for number in ("'NaN'", "1.5"):
            table.append(
                lake.sql(
                    f"SELECT NULL::VARCHAR AS n, {number}::DOUBLE AS f, INTERVAL 1 DAY AS i, []::INTEGER[] AS l, "
                    "NULL::STRUCT(a VARCHAR) AS s, 5::HUGEINT AS h"
                )
            )
        table.append(lake.table("raw.t").scan())
    assert stale(store) == {}


def test_dropped_tables_and_columns_and_removed_files_are_no_finding(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    with store.open() as lake:
        for name in ("raw.t", "raw.dropped"):
            lake.create_table(name, {"v": "VARCHAR", "w": "VARCHAR"})
            lake.table(name).append(lake.sql("SELECT 'a' AS v, 'b' AS w"))
    without_bounds(tmp_path)
    assert stale(store) == {("raw", "dropped"): ["v", "w"], ("raw", "t"): ["v", "w"]}
    with store.open() as lake:
        lake.drop_table("raw.dropped")
        lake.table("raw.t").evolve(drop=["w"])
    assert stale(store) == {("raw", "t"): ["v"]}
    with store.open() as lake:
        lake.table("raw.t").delete("v IS NOT NULL")
    assert stale(store) == {}


def test_bounds_that_a_rewrite_of_ducklake_forgot(tmp_path: Path) -> None:
    """DuckDB hides rows only after the next insert, which the check does not wait for."""
    store = store_of(tmp_path)
    with store.connect() as connection:
        connection.execute("CREATE SCHEMA raw")
        connection.execute("CALL dev.set_option('data_inlining_row_limit', 0)")
        connection.execute("CREATE TABLE raw.t (id INTEGER, v INTEGER)")
        connection.execute("INSERT INTO raw.t SELECT i, NULL FROM range(10) r(i)")
        connection.execute("INSERT INTO raw.t SELECT i, 1 FROM range(10, 20) r(i)")
        connection.execute("DELETE FROM raw.t WHERE id = 15")
        assert stale(store) == {}
        connection.execute("CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)")
    assert stale(store) == {("raw", "t"): ["v"]}
    with store.connect() as connection:
        connection.execute("INSERT INTO raw.t VALUES (50, 7)")
    assert stale(store) == {("raw", "t"): ["v"]}
