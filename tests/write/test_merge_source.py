"""A merge on Spark is computed by DuckDB if little data can change; the frame is computed once in any case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from merge_cases import commit_info

from lakeconf.errors import CommitConflictError
from lakeconf.write import decision as rule
from lakeconf.write.merge_clauses import Delete, Update

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

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


def test_size_of_the_frame_and_of_the_files_that_can_match_decides(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = lake.table("t").merge
    merge(CHANGES, on="id")
    assert decision(lake).startswith("duckdb: the frame has ")
    assert "; the files that can match (1) have " in decision(lake)
    assert names(lake) == {1: "a", 2: "B", 3: None, 9: "i"}
    assert lake._session.writer.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory'") == []
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


@pytest.mark.parametrize("limit", [rule.MOST_FRAME_BYTES, -1], ids=["by duckdb", "by spark"])
def test_change_by_another_writer_is_a_conflict_however_the_merge_is_computed(
    lake: Lake, store: Store, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", limit)
    with store.open() as other:
        other.table("t").update({"name": "other"}, "id = 2")
    with pytest.raises(CommitConflictError):
        lake.table("t").merge(CHANGES, on="id")
    assert names(lake) == {1: "a", 2: "other", 3: None}
    lake.refresh()
    lake.table("t").merge(CHANGES, on="id")
    assert names(lake) == {1: "a", 2: "B", 3: None, 9: "i"}


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
