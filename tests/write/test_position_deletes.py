"""Deletes on Spark: executors find the rows, and few of them are deleted by statements with their positions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from commit_hooks import during
from deleted_rows import COLUMNS, damage, frame, ids
from lake_parts import data_path_of
from plain_sql import plain_rows

import lakeconf
from lakeconf.errors import PredicateError, SchemaError
from lakeconf.write import strategy as rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    """A table with three days and without a delete."""
    with store.open(spark) as lake:
        lake.create_table("t", COLUMNS, partitioned_by=["day"]).append(frame(90))
        yield lake


@pytest.mark.usefixtures("searching")
def test_rows_of_other_files_are_deleted_by_position(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = during(lake, monkeypatch, 'DELETE FROM "dev"')
    version = lake.table("t").delete("day = '2024-01-01' OR x > 40")
    (positions,) = sent
    assert "file_row_number" in positions
    assert '"x"' not in positions
    left = [number for number in range(90) if number % 3 and not (number % 5 and number / 2 > 40)]
    assert ids(lake) == left
    assert ids(lake, version=version - 1) == list(range(90))
    feed = plain_rows(lake, f"SELECT id, change_type FROM dev.table_changes('t', {version}, {version})")
    assert sorted(feed) == [(number, "delete") for number in range(90) if number not in left]
    assert not list(Path(data_path_of(lake)).rglob("lakeconf-*/*"))
    assert not list(Path(data_path_of(lake), "main", "t").glob("lakeconf-*"))


def driver_reads(run: Callable[[], object]) -> int:
    """The bytes that this process reads; Spark is another process."""

    def read() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["rchar"])

    before = read()
    run()
    return read() - before


@pytest.mark.slow
def test_driver_reads_positions_only(lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = spark.range(0, 2_000_000, 1, 2).selectExpr("id", "rand(7) AS x")
    table = lake.create_table("big", numbers)
    table.append(numbers)
    size = sum(file.bytes for file in table.files())
    by_duckdb = driver_reads(lambda: table.delete("x < 0.01"))
    monkeypatch.setattr(rule, "ROWS_PER_STATEMENT", 0)
    monkeypatch.setattr(rule, "MOST_FILE_BYTES", 0)
    by_spark = driver_reads(lambda: table.delete("x < 0.02"))
    assert by_duckdb > size / 2
    assert by_spark < size / 8


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
def test_duckdb_finds_the_rows_in_a_transaction(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = during(lake, monkeypatch, 'DELETE FROM "dev"')
    with lake.transaction() as tx:
        tx.table("t").delete("day = '2024-01-01'")
        tx.table("t").append(frame(3))
        tx.table("t").delete("id > 2 AND day = '2024-01-02'")
        tx.create_table("new", COLUMNS).append(frame(6))
        tx.table("new").delete("id > 6")
        tx.table("t").evolve(add={"more": "BIGINT"})
        tx.table("t").delete("more = 1")
    assert ["file" in sql for sql in sent] == [False] * 4
    assert ids(lake) == sorted([0, 1, 1, 2, *(number for number in range(90) if number % 3 == 2)])
    assert ids(lake, "new") == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize("name", ["filename", "FILE_ROW_NUMBER"])
def test_column_that_hides_a_virtual_one_leaves_the_search_to_duckdb(lake: Lake, name: str) -> None:
    table = lake.create_table("odd", {"id": "BIGINT", name: "VARCHAR"})
    table.append(pa.table({"id": pa.array(range(9), pa.int64()), name: ["x"] * 9}))
    table.delete(f"id < 3 OR {name} = 'y'")
    table.delete("id < 5")
    assert ids(lake, "odd") == [5, 6, 7, 8]


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
def test_overwrite_of_a_condition_replaces_the_found_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = during(lake, monkeypatch, 'DELETE FROM "dev"')
    for nothing in ("id > 3 AND id < 5 AND x < 0", "id > 1000"):
        assert lake.table("t").delete(nothing) == lake.snapshot_id == 2, "no snapshot"
    rows = frame(3).slice(1, 1)
    version = lake.table("t").overwrite(rows, where="day = '2024-01-02' OR x = 1.0")
    assert ["file_row_number" in sql for sql in sent] == [True]
    assert ids(lake) == sorted([1, *(number for number in range(90) if number % 3 != 1 and number != 2)])
    (info,) = [snapshot.extra_info for snapshot in lake.snapshots() if snapshot.snapshot_id == version]
    assert '"rows": 1' in str(info)


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
def test_failed_overwrite_leaves_no_staged_file(lake: Lake) -> None:
    before = sorted(Path(data_path_of(lake)).rglob("*"))
    with pytest.raises(PredicateError):
        lake.table("t").overwrite(frame(3), where="day = '2024-01-02' OR x = 1.0")
    with pytest.raises(SchemaError):
        lake.table("t").overwrite(frame(3).drop_columns("x"), where="x = 1.0")
    damage(lake, "day = '2024-01-03'")
    with pytest.raises(lakeconf.LakeconfError):
        lake.table("t").overwrite(frame(3).slice(1, 1), where="day = '2024-01-02' OR x = 1.0")
    assert sorted(Path(data_path_of(lake)).rglob("*")) == before
    assert lake.refresh() == lake.snapshot_id


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
def test_condition_that_spark_refuses_is_left_to_duckdb(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark refuses to cast texts that it may read differently."""
    lake.create_table("texts", {"s": "VARCHAR"}).append([{"s": " 1.0"}, {"s": "2"}, {"s": "3"}])
    sent = during(lake, monkeypatch, 'DELETE FROM "dev"')
    lake.table("texts").delete("CAST(s AS INTEGER) < 3")
    assert ["filename" in sql for sql in sent] == [False]
    assert lake.table("texts").scan().collect("pyarrow").rows() == [("3",)]
