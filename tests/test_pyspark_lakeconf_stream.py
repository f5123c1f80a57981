"""A streaming query reads the rows of a table, and then the changes of each snapshot, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from source_project import open_lake, stream_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake

pytestmark = pytest.mark.needs_spark("4.2")
COLUMNS = {"id": "BIGINT", "kind": "VARCHAR"}


@pytest.fixture
def lake(project: Path) -> Any:
    """The lake of the project with a table of two files."""
    with open_lake(project) as opened:
        table = opened.create_table("raw.events", COLUMNS)
        table.append([{"id": 1, "kind": "view"}])
        table.append([{"id": 2, "kind": "view"}])
        yield opened


def drained(spark: SparkSession, folder: Path, **options: Any) -> list[list[Any]]:
    """The rows of each batch that is available, in the order of their ids."""
    batches: list[list[Any]] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append(sorted(map(tuple, batch.collect())))

    writer = stream_of(spark, folder, **options).load().writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return [batch for batch in batches if batch]


def test_a_stream_returns_the_table_and_then_inserted_rows(spark: SparkSession, project: Path, lake: Lake) -> None:
    assert drained(spark, project) == [[(1, "view"), (2, "view")]]
    table = lake.table("raw.events")
    for number in (3, 4):
        table.append([{"id": number, "kind": "buy"}])
    table.update({"kind": "seen"}, where="id = 1")
    table.delete("id = 2")
    lake.maintenance.compact()
    table.append([{"id": 5, "kind": "buy"}])
    assert drained(spark, project) == [[(3, "buy"), (4, "buy"), (5, "buy")]]


def test_a_stream_returns_all_changes_in_batches(spark: SparkSession, project: Path, lake: Lake) -> None:
    first = lake.snapshot_id
    table = lake.table("raw.events")
    table.delete("id = 2")
    table.update({"kind": "seen"}, where="id = 1")
    batches = drained(spark, project, since=first, changes="true", snapshots_per_batch=1)
    assert [[(kind, *row) for _, _, kind, *row in batch] for batch in batches] == [
        [("insert", 2, "view")],
        [("delete", 2, "view")],
        [("update_postimage", 1, "seen"), ("update_preimage", 1, "view")],
    ]
    assert [{snapshot for snapshot, *_ in batch} for batch in batches] == [{first}, {first + 1}, {first + 2}]
