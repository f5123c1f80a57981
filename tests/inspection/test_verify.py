"""`verify` compares the rows that Spark and DuckDB read from a table, for every type and for inconsistent catalogs."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lake_parts import catalog_of, session_of
from local_stores import store_of
from plain_sql import run_plain

import lakeconf
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.cli.app import run
from lakeconf.engines.spark.versions import reads_file_with
from lakeconf.errors import TableNotFoundError, UnsupportedError
from lakeconf.inspection.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

# Values of each type that two engines are likely to format differently.
VALUES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768"],
    "INTEGER": ["-2147483648"],
    "BIGINT": ["9223372036854775807"],
    "HUGEINT": ["123456789012"],
    "UTINYINT": ["255"],
    "USMALLINT": ["65535"],
    "UINTEGER": ["4294967295"],
    "UBIGINT": ["18446744073709551615"],
    "FLOAT": ["'nan'", "'-inf'", "1e-40", "0.1", "'-0.0'"],
    "DOUBLE": ["'nan'", "'inf'", "1e300", "0.1", "'-0.0'", "5e-324"],
    "DECIMAL(38, 10)": ["-1234567890123456789012345678.0123456789", "0.0000000000"],
    "DECIMAL(4, 1)": ["999.9", "-0.1"],
    "VARCHAR": ["''", "'it''s'", "'été 🦆'", "'NULL'"],
    "BLOB": ["'\\x00\\xFF'::BLOB", "''::BLOB"],
    "JSON": ["'{\"a\":  [1, null]}'", "'null'"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "DATE": ["'0001-01-01'", "'1582-10-10'", "'9999-12-31'"],
    "TIME": ["'23:59:59.999999'", "'00:00:00'"],
    "TIMESTAMP": ["'1582-10-10 00:00:00.000001'", "'2024-10-27 02:30:00'"],
    "TIMESTAMP_S": ["'2024-10-27 02:30:00'"],
    "TIMESTAMP_MS": ["'1969-12-31 23:59:59.999'"],
    "TIMESTAMP_NS": ["'2024-10-27 02:30:00.123456'"],
    "TIMESTAMPTZ": ["'2024-10-27 00:30:00+00'", "'2024-10-27 01:30:00+00'", "'1900-01-01 00:00:00+00'"],
    "INTERVAL": ["INTERVAL '1 year 2 days 3 seconds'", "INTERVAL 0 DAY"],
    **({"VARIANT": ["42::VARIANT", "'a'::VARIANT"]} if reads_file_with(["variant"]) else {}),
    "GEOMETRY": ["'POINT(1 2)'", "'LINESTRING(0 0, 1 1)'"],
    "INTEGER[]": ["[1, NULL, 3]", "[]"],
    'STRUCT(a DOUBLE, "b c" VARCHAR[])': ["{'a': 'nan'::DOUBLE, 'b c': ['x''y', NULL]}", "{'a': NULL, 'b c': NULL}"],
    "MAP(VARCHAR, TIMESTAMPTZ)": ["MAP {'b': '2024-10-27 00:30:00+00'::TIMESTAMPTZ, 'a': NULL}", "MAP {}"],
    "STRUCT(g GEOMETRY)": ["{'g': 'POINT(1 2)'::GEOMETRY}"],
}
ONLY_COUNTED = {"VARIANT", "STRUCT(g GEOMETRY)"} & VALUES.keys()


@pytest.fixture
def store(project: Path) -> Store:
    return lakeconf.init(project).get_store("dev")


@pytest.fixture
def lake(store: Store, spark: Any) -> Iterator[Lake]:
    with store.open(spark) as lake:
        lake.create_table("raw.numbers", like={"id": "BIGINT", "text": "VARCHAR"})
        yield lake


def write(lake: Lake, *statements: str) -> None:
    run_plain(lake, *statements)
    lake.refresh()


@pytest.mark.slow
def test_values_of_every_type_are_compared(lake: Lake) -> None:
    names = {type_name: f"c{index}" for index, type_name in enumerate(VALUES)}
    columns = ", ".join(f'"{name}" {type_name}' for type_name, name in names.items())
    write(lake, "CALL dev.set_option('data_inlining_row_limit', 0)", f"CREATE TABLE dev.raw.types ({columns})")
    for type_name, name in names.items():
        values = ", ".join(f"(CAST({value} AS {type_name}))" for value in [*VALUES[type_name], "NULL"])
        write(lake, f'INSERT INTO dev.raw.types ("{name}") VALUES {values}')
    found = verify(lake, "raw.types")
    assert [column.name for column in found.columns if not column.equal] == []
    assert found.equal
    counts = {type_name: len(values) for type_name, values in VALUES.items()}
    by_name = {column.name: column for column in found.columns}
    assert {type_name: by_name[name].spark.values for type_name, name in names.items()} == counts
    assert found.spark_rows == found.duckdb_rows == sum(counts.values()) + len(counts)
    assert {type_name for type_name, name in names.items() if not by_name[name].is_hashed} == ONLY_COUNTED
    assert {type_name for type_name, name in names.items() if by_name[name].spark.hash == 0} == set()


@pytest.mark.slow
def test_inlined_rows_deletes_and_an_earlier_snapshot(lake: Lake) -> None:
    write(
        lake,
        "INSERT INTO dev.raw.numbers SELECT range, 't' || range FROM range(1000)",
        "CALL dev.set_option('data_inlining_row_limit', 10)",
        "INSERT INTO dev.raw.numbers VALUES (-1, NULL), (-2, '')",
        "DELETE FROM dev.raw.numbers WHERE id IN (7, -2)",
    )
    now = verify(lake, "raw.numbers")
    assert (now.equal, now.spark_rows, now.columns[1].spark.values) == (True, 1000, 999)
    past = verify(lake.at(version=lake.snapshot_id - 1), "raw.numbers")
    assert (past.equal, past.spark_rows, past.snapshot_id) == (True, 1002, lake.snapshot_id - 1)
    assert past.columns[0].spark != now.columns[0].spark


@pytest.mark.slow
def test_empty_and_missing_tables(lake: Lake, store: Store) -> None:
    found = verify(lake, "raw.numbers")
    assert (found.equal, found.spark_rows, found.columns[0].spark.hash) == (True, 0, 0)
    with pytest.raises(TableNotFoundError, match=r"raw\.numbrs"):
        verify(lake, "raw.numbrs")
    with store.open() as duckdb_lake, pytest.raises(UnsupportedError, match=r"store\.open\(spark\)"):
        verify(duckdb_lake, "raw.numbers")


@pytest.mark.slow
def test_rows_deleted_twice_are_reported_and_the_exit_code_is_1(
    project: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config = project / "lakeconf.toml"
    config.write_text(config.read_text().replace('"sqlite"', '"duckdb"'))
    store = lakeconf.init(project).get_store("dev")
    with store.open(spark) as lake:
        lake.create_table("raw.numbers", like={"id": "BIGINT"})
        write(
            lake,
            "CALL dev.set_option('data_inlining_row_limit', 0)",
            "INSERT INTO dev.raw.numbers SELECT range FROM range(100)",
        )
        # Two transactions delete the same rows: one writes a delete file, the other one inlines its deletes.
        with session_of(lake).writer.cursor() as first, session_of(lake).writer.cursor() as second:
            first.execute("BEGIN; DELETE FROM dev.raw.numbers WHERE id < 20")
            second.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
            second.execute("BEGIN; DELETE FROM dev.raw.numbers WHERE id < 5")
            first.execute("COMMIT")
            second.execute("COMMIT")
        lake.refresh()
        found = verify(lake, "raw.numbers")
    assert (found.spark_rows, found.duckdb_rows > 80, found.equal) == (80, True, False)
    assert run(["verify", "raw.numbers"]) == 1
    shown = capsys.readouterr().out
    assert "DIFFERENT" in shown
    assert f"  rows: DuckDB {found.duckdb_rows} != Spark 80" in shown


def test_deletes_undone_by_a_rewrite_are_reported(lake: Lake) -> None:
    write(
        lake,
        "INSERT INTO dev.raw.numbers SELECT range, NULL FROM range(100)",
        "DELETE FROM dev.raw.numbers WHERE id < 40",
        "CALL dev.set_option('data_inlining_row_limit', 10)",
        "DELETE FROM dev.raw.numbers WHERE id = 50",
        "CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)",
        "INSERT INTO dev.raw.numbers VALUES (100, NULL)",
    )
    found = verify(lake, "raw.numbers")
    assert (found.equal, found.sound, found.lost_deletes) == (True, True, 0)
    # The catalog now records the delete as if its transaction had committed after the rewrite.
    write(lake, "UPDATE __ducklake_metadata_dev.ducklake_inlined_delete_2 SET begin_snapshot = begin_snapshot + 2")
    found = verify(lake, "raw.numbers")
    assert (found.equal, found.sound, found.lost_deletes) == (True, False, 1)
    assert "deleted rows that are visible again: 1;" in str(found)


@pytest.mark.slow
def test_row_counts_of_files_are_compared_with_the_catalog(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """Both engines read the same rows, but the catalog records another number of rows."""
    write(lake, "CALL dev.set_option('data_inlining_row_limit', 0)")
    write(lake, "INSERT INTO dev.raw.numbers SELECT range, 'a' FROM range(100)")
    write(lake, "INSERT INTO dev.raw.numbers SELECT range, 'b' FROM range(50)")
    first, _ = (Path(file.path) for file in plan_scan(catalog_of(lake), "raw.numbers", lake.snapshot_id, []).files)
    with contextlib.closing(sqlite3.connect("catalog.sqlite")) as catalog, catalog:
        catalog.execute("UPDATE ducklake_data_file SET record_count = 90 WHERE record_count = 100")
    found = verify(lake, "raw.numbers")
    assert [(one.path, one.catalog_rows, one.file_rows) for one in found.wrong_counts] == [(str(first), 90, 100)]
    assert not found.equal
    assert f"  wrong number of rows: 100 in {first}, 90 in the catalog" in str(found)
    assert run(["verify", "raw.numbers"]) == 1
    first.unlink()
    assert run(["verify", "raw.numbers"]) == 1
    assert f"1 of the 2 data files of raw.numbers do not exist: {first}" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_with_the_row_id_of_another_row_are_counted(tmp_path: Path, spark: SparkSession) -> None:
    with store_of(tmp_path, data_inlining_row_limit=8).open(spark) as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)")
        for start, end in ((0, 30), (30, 33), (33, 48), (48, 53)):
            run_plain(lake, f"INSERT INTO t SELECT i FROM range({start}, {end}) AS r(i)")
        run_plain(lake, "DELETE FROM t WHERE id = 47", "CALL ducklake_flush_inlined_data('dev')")
        lake.refresh()
        assert verify(lake, "t").sound
        run_plain(lake, "CALL ducklake_merge_adjacent_files('dev', 't')")
        lake.refresh()
        found = verify(lake, "t")
        assert (found.equal, found.sound, found.repeated_ids) == (True, False, 5)
        assert "rows with the row id of another row: 5; write the table again" in str(found)
        lake.table("t").overwrite(lake.table("t").scan())
        assert verify(lake, "t").sound
