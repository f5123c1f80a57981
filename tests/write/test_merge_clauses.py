"""The clauses of merges and their frames: what they compute, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from merge_cases import commit_info
from plain_sql import plain_rows

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.catalog.tables import Column, PartitionField, TableInfo
from lakeconf.connection.connection import connect
from lakeconf.errors import CommitConflictError, SchemaError
from lakeconf.write import strategy as rule
from lakeconf.write.operations.merge.clauses import Delete, Update
from lakeconf.write.partitions import check_recurring, partitions_predicate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

COLUMNS = tuple(
    Column(field_id, name, "timestamp", nullable=True, initial_default=None)
    for field_id, name in ((1, "at"), (2, 'o"dd'), (3, "late"))
)


def table(*keys: tuple[int, str]) -> TableInfo:
    fields = tuple(PartitionField(index, field_id, transform) for index, (field_id, transform) in enumerate(keys))
    return TableInfo(1, "raw", "events", COLUMNS, "/data/", 1, fields)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [(1, "year")],
        [(1, "identity")],
        [(1, "bucket(4)")],
        [(1, "year"), (1, "month")],
        [(1, "day"), (1, "month"), (1, "year")],
        [(1, "year"), (1, "month"), (1, "day"), (1, "hour")],
        [(1, "identity"), (1, "month")],
    ],
)
def test_key_with_all_larger_parts_does_not_recur(keys: list[tuple[int, str]]) -> None:
    check_recurring(table(*keys))


@pytest.mark.parametrize(
    ("keys", "key", "missing", "wanted"),
    [
        ([(1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
        ([(1, "year"), (1, "day")], "day(at)", "month", '"year(at)", "month(at)", "day(at)"'),
        ([(1, "month"), (1, "day")], "day(at)", "year", '"year(at)", "month(at)", "day(at)"'),
        ([(1, "year"), (1, "month"), (1, "hour")], "hour(at)", "day", '"year(at)", "month(at)", "day(at)", "hour(at)"'),
        ([(3, "year"), (1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
        ([(3, "identity"), (1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
    ],
)
def test_key_that_recurs_is_refused(keys: list[tuple[int, str]], key: str, missing: str, wanted: str) -> None:
    with pytest.raises(SchemaError) as refused:
        check_recurring(table(*keys))
    assert refused.value.message == (
        f"{key} recurs: a partition of raw.events contains rows of every {missing}, and all of them would be replaced"
    )
    assert refused.value.hint == (
        f"use overwrite(frame, where=…), partition the table by [{wanted}], or pass recurring=True"
    )


def predicate(rows: str, *keys: tuple[int, str], type_: str = "timestamp") -> str | None:
    """The SQL of the predicate for the partitions of rows with the columns `at` and `o"dd`."""
    info = table(*keys)
    info = replace(info, columns=tuple(replace(column, type=type_) for column in info.columns))
    with connect() as connection:
        cast = duckdb_name(type_)
        source = f'SELECT CAST(a AS {cast}) AS at, CAST(b AS {cast}) AS "o""dd" FROM (VALUES {rows}) AS v(a, b)'
        found = partitions_predicate(connection, info, source)
    return None if found is None else to_duckdb_sql(found)


DAY = "CAST('2024-02-29 00:00:00' AS TIMESTAMP)"
NEXT = "CAST('2024-03-01 00:00:00' AS TIMESTAMP)"


def test_partitions_of_rows_become_a_predicate() -> None:
    rows = "('2024-02-29 12:00:00', NULL), ('2024-02-29 13:00:00', NULL)"
    parts = [(1, "day"), (1, "year"), (1, "month")]
    day = f'(("at" >= {DAY}) AND ("at" < {NEXT}))'
    assert predicate(rows, *parts) == f"({day})"
    both = f'((("at" >= {DAY}) AND ("at" < {NEXT}) AND ("o""dd" IS NULL)))'
    assert predicate(rows, *parts, (2, "identity")) == both
    year = predicate(rows, (1, "year"))
    assert year is not None
    assert "CAST('2024-01-01 00:00:00' AS TIMESTAMP)" in year
    assert "CAST('2025-01-01 00:00:00' AS TIMESTAMP)" in year
    assert predicate("('it''s', '')", (1, "identity"), type_="varchar") == "((\"at\" = CAST('it''s' AS VARCHAR)))"
    hours = predicate(rows, *parts, (1, "hour"))
    assert hours is not None
    assert hours.count(" OR ") == 1


@pytest.mark.parametrize(
    ("rows", "keys", "type_"),
    [
        ("('2024-02-29', NULL)", [(1, "month")], "timestamp"),
        ("('2024-02-29', NULL)", [(1, "identity"), (1, "month")], "timestamp"),
        ("('2024-02-29', NULL)", [(1, "year"), (2, "bucket(3)")], "timestamp"),
        ("(NULL, NULL)", [(1, "year")], "timestamp"),
        ("('infinity', NULL)", [(1, "year")], "timestamp"),
        ("('infinity', NULL)", [(1, "identity")], "timestamp"),
        ("('9999-02-01', NULL)", [(1, "year")], "date"),
        ("('0044-03-15 (BC)', NULL)", [(1, "identity")], "date"),
        ("('-0.0', NULL)", [(1, "identity")], "float64"),
        ("('2024-02-29', NULL)", [(1, "identity")], "timestamptz"),
    ],
)
def test_partitions_that_a_condition_cannot_name_have_no_predicate(
    rows: str, keys: list[tuple[int, str]], type_: str
) -> None:
    assert predicate(rows, *keys, type_=type_) is None


def test_only_few_partitions_have_a_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeconf.write.partitions._MOST_PARTITIONS", 4)
    for count, alternatives in ((4, 3), (5, None)):
        rows = ", ".join(f"({number}, NULL)" for number in range(count))
        found = predicate(rows, (1, "identity"), type_="int32")
        assert (None if found is None else found.count(" OR ")) == alternatives


ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "x": [0.5, 1.0, 1.5]})
CHANGES = pa.table({"id": [2, 9], "name": ["B", "i"], "x": [2.0, 9.0]})


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    """The table `t` with three files; the ids of the second and third begin at 100 and 200."""
    with store.open(spark) as lake:
        table = lake.create_table("t", ROWS)
        for first in (0, 100, 200):
            ids = pa.array([first + number for number in (1, 2, 3)])
            table.append(ROWS.set_column(0, "id", ids))
        yield lake


def decision(lake: Lake) -> str:
    """The recorded decision of the last commit."""
    found: str = commit_info(lake)["written_by"]["main.t"]
    return found


def names(lake: Lake) -> dict[int, str | None]:
    native: Any = lake.sql("SELECT id, name FROM dev.t WHERE id < 100").to_native()
    return dict(native.fetchall())


@pytest.mark.slow
def test_size_of_the_frame_and_of_the_files_that_can_match_decides(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = lake.table("t").merge
    merge(CHANGES, on="id")
    assert decision(lake).startswith("duckdb: the frame has ")
    assert "; the files that can match (1) have " in decision(lake)
    assert names(lake) == {1: "a", 2: "B", 3: None, 9: "i"}
    assert plain_rows(lake, "SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory'") == []
    for limit, reason in (("MOST_FRAME_BYTES", "the frame has "), ("MOST_FILE_BYTES", "the files that can match (")):
        with monkeypatch.context() as patch:
            patch.setattr(rule, limit, 0)
            merge(CHANGES, on="id")
        assert decision(lake).startswith(f"spark: {reason}")
        assert names(lake) == {1: "a", 2: "B", 3: None, 9: "i"}
    count = lake.table("t").explain().files
    assert count > 1
    merge(CHANGES, on="id", not_matched_by_source=Delete(when=nw.col("target_id") < 3))
    assert f"; the files that can match ({count}) have " in decision(lake), "those of rows without a match, too"
    assert names(lake) == {2: "B", 3: None, 9: "i"}


@pytest.mark.slow
def test_frame_of_a_merge_is_computed_once(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    """Each computation of the frame leaves a file."""
    computed = tmp_path / "computed"
    computed.mkdir()

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = len(list(computed.iterdir()))
        (computed / str(number)).touch()
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"id": [2, 9], "name": [f"run {number}"] * 2, "x": [0.0, 1.0]})

    frame = spark.range(1, numPartitions=1).mapInArrow(rows, "id LONG, name STRING, x DOUBLE")
    for matched in (Update(), Update({"name": nw.concat_str(nw.col("source_name"), nw.lit("!"))})):
        before = len(list(computed.iterdir()))
        lake.table("t").merge(frame, on="id", matched=matched)
        assert len(list(computed.iterdir())) == before + 1
    assert names(lake) == {1: "a", 2: "run 1!", 3: None, 9: "run 1!"}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [rule.MOST_FRAME_BYTES, -1], ids=["by duckdb", "by spark"])
def test_change_by_another_writer_is_a_conflict_however_the_merge_is_computed(
    lake: Lake, store: Store, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", limit)
    names(lake)
    with store.open() as other:
        other.table("t").update({"name": "other"}, "id = 2")
    with pytest.raises(CommitConflictError):
        lake.table("t").merge(CHANGES, on="id")
    assert names(lake) == {1: "a", 2: "other", 3: None}
    lake.refresh()
    lake.table("t").merge(CHANGES, on="id")
    assert names(lake) == {1: "a", 2: "B", 3: None, 9: "i"}


@pytest.mark.slow
def test_values_of_partition_keys_prune_files_between_them(store: Store, spark: SparkSession) -> None:
    rows = pa.table({"day": [n // 2 for n in range(12)], "id": list(range(12))})
    with store.open(spark) as lake:
        lake.create_table("p", rows, partitioned_by=["day"]).append(rows)
        files = len(lake.table("p").files())
        apart = pa.table({"day": [0, 5], "id": [100, 11]})
        lake.table("p").merge(apart, on=["day", "id"])
        info = commit_info(lake)
        native: Any = lake.sql("SELECT day, id FROM dev.p WHERE day IN (0, 5)").to_native()
        assert sorted(native.fetchall()) == [(0, 0), (0, 1), (0, 100), (5, 10), (5, 11)]
    assert files == 6
    assert "; the files that can match (1) have " in info["written_by"]["main.p"]  # the ids are between 11 and 100
