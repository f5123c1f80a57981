"""Statistics that do not cover the files of a table: plain DuckDB hides rows, and the check names the columns."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
from strength import some

from lakeconf.catalog.health import stale_bounds

if TYPE_CHECKING:
    from lakeconf import Lake, Store

# Each type with two values, the first of which is not between the bounds of the second.
VALUES = {
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


def found(store: Store) -> dict[tuple[str, str], list[str]]:
    with store.open(read_only=True) as lake:
        return stale_bounds(lake._session.reader)


def append(lake: Lake, kind: str, *values: str) -> None:
    rows = ", ".join(f"({value}::{kind})" for value in values)
    lake.table("raw.t").append(lake.sql(f"SELECT v FROM (VALUES {rows}) AS t(v)"))


def without_bounds(folder: Path) -> None:
    """What a writer leaves whose files have no bounds."""
    with sqlite3.connect(folder / "catalog") as catalog:
        for table in ("ducklake_file_column_stats", "ducklake_table_column_stats"):
            catalog.execute(f"UPDATE {table} SET min_value = NULL, max_value = NULL")
    catalog.close()


@pytest.mark.parametrize("kind", some(VALUES, 5))
def test_hidden_rows_are_found_before_and_after_the_insert_that_hides_them(kind: str, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    hidden, visible = VALUES[kind]

    def matching() -> int:
        with store.connect() as connection:
            return len(connection.execute(f"FROM raw.t WHERE v = {hidden}::{kind}").fetchall())

    with store.open() as lake:
        lake.create_table("raw.t", {"v": kind})
        append(lake, kind, hidden, "NULL", "NULL")
    assert found(store) == {}
    without_bounds(tmp_path)
    assert found(store) == {("raw", "t"): ["v"]}
    assert matching() == 1
    with store.open() as lake:
        append(lake, kind, visible)
        assert matching() == 0
        assert found(store) == {("raw", "t"): ["v"]}
        lake.maintenance.compact()  # the new file has bounds, the table still has not
        assert matching() == 0
        assert found(store) == {("raw", "t"): ["v"]}
        assert len(lake.sql(f"FROM raw.t WHERE v = {hidden}::{kind}").to_native().fetchall()) == 1
        lake.table("raw.t").overwrite(lake.table("raw.t").scan())
    assert matching() == 1
    assert found(store) == {}


def test_columns_without_values_with_nan_only_or_without_bounds_of_their_type_are_no_finding(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    with store.open() as lake:
        table = lake.create_table(
            "raw.t",
            {
                "n": "VARCHAR",
                "f": "DOUBLE",
                "i": "INTERVAL",
                "l": "INTEGER[]",
                "s": "STRUCT(a VARCHAR)",
                "h": "HUGEINT",
            },
        )
        for number in ("'NaN'", "1.5"):
            table.append(
                lake.sql(
                    f"SELECT NULL::VARCHAR AS n, {number}::DOUBLE AS f, INTERVAL 1 DAY AS i, []::INTEGER[] AS l, "
                    "NULL::STRUCT(a VARCHAR) AS s, 5::HUGEINT AS h"
                )
            )
        table.append(lake.table("raw.t").scan())
    assert found(store) == {}


def test_dropped_tables_and_columns_and_removed_files_are_no_finding(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    with store.open() as lake:
        for name in ("raw.t", "raw.dropped"):
            lake.create_table(name, {"v": "VARCHAR", "w": "VARCHAR"})
            lake.table(name).append(lake.sql("SELECT 'a' AS v, 'b' AS w"))
    without_bounds(tmp_path)
    assert found(store) == {("raw", "dropped"): ["v", "w"], ("raw", "t"): ["v", "w"]}
    with store.open() as lake:
        lake.drop_table("raw.dropped")
        lake.table("raw.t").evolve(drop=["w"])
    assert found(store) == {("raw", "t"): ["v"]}
    with store.open() as lake:
        lake.table("raw.t").delete("v IS NOT NULL")
    assert found(store) == {}


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
        assert found(store) == {}
        connection.execute("CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)")
    assert found(store) == {("raw", "t"): ["v"]}
    with store.connect() as connection:
        connection.execute("INSERT INTO raw.t VALUES (50, 7)")
    assert found(store) == {("raw", "t"): ["v"]}
