"""Offsets and batches of a stream."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakeconf
from lakeconf.datasource.planning import Options, resolve
from lakeconf.datasource.stream_reader import batch, initial_offset, latest_offset
from lakeconf.engines.spark.read.parts import Changes, Files, read_part
from lakeconf.engines.spark.spark_types import spark_schema
from lakeconf.engines.spark.versions import arrow_schema
from lakeconf.errors import LakeconfError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.catalog.tables import Column

OPTIONS = Options("t")


@pytest.fixture
def lake(project: Path) -> Iterator[Lake]:
    """The lake of the project, with the table `t` of one row at snapshot 2."""
    assert project.exists()
    with lakeconf.init().get_store().open() as opened:
        opened.create_table("t", {"id": "BIGINT"}).append([{"id": 1}])
        yield opened


def columns() -> Sequence[Column]:
    return resolve(OPTIONS)[0]


def ids(start: dict[str, Any], end: dict[str, Any], wanted: Sequence[Column] | None = None) -> list[Any]:
    """The ids of a batch."""
    own = columns() if wanted is None else wanted
    schema = arrow_schema(spark_schema(own))
    rows = [rows for part in batch(OPTIONS, own, start, end) for rows in read_part(part, schema)]
    return sorted(pa.Table.from_batches(rows, schema).column("id").to_pylist())


def at(offset: dict[str, Any], snapshot: int) -> dict[str, Any]:
    return {**offset, "snapshot": snapshot, "time": None}


def test_the_first_batch_is_the_table_and_the_next_ones_its_changes(lake: Lake) -> None:
    start = initial_offset(OPTIONS)
    end = latest_offset(OPTIONS, columns(), start, None)
    (part,) = batch(OPTIONS, columns(), start, end)
    assert isinstance(part, Files)
    assert ids(start, end) == [1]
    assert batch(OPTIONS, columns(), end, latest_offset(OPTIONS, columns(), end, None)) == []
    lake.table("t").append([{"id": 2}])
    later = latest_offset(OPTIONS, columns(), end, None)
    (part,) = batch(OPTIONS, columns(), end, later)
    assert isinstance(part, Changes)
    assert ids(end, later) == [2]


def test_a_stream_can_begin_with_a_snapshot(lake: Lake) -> None:
    lake.table("t").append([{"id": 2}])
    start = initial_offset(Options("t", since=lake.snapshot_id))
    assert ids(start, latest_offset(OPTIONS, columns(), start, None)) == [2]
    # Snapshot 0 has no changes, but it is not the same as no snapshot.
    everything = initial_offset(Options("t", since=0))
    (part,) = batch(OPTIONS, columns(), everything, latest_offset(OPTIONS, columns(), everything, None))
    assert isinstance(part, Changes)
    with pytest.raises(LakeconfError, match="a stream of all changes begins with a snapshot"):
        initial_offset(Options("t", changes=True))


def test_batches_have_at_most_the_given_number_of_snapshots(lake: Lake) -> None:
    start = latest_offset(OPTIONS, columns(), initial_offset(OPTIONS), 1)
    assert start["snapshot"] == lake.snapshot_id
    for number in range(2, 7):
        lake.table("t").append([{"id": number}])
    found = []
    while (end := latest_offset(OPTIONS, columns(), start, 2)) != start:
        found.append(ids(start, end))
        start = end
    assert found == [[2, 3], [4, 5], [6]]


def test_a_target_ends_the_stream(lake: Lake) -> None:
    start = initial_offset(OPTIONS)
    target = lake.snapshot_id
    lake.table("t").append([{"id": 2}])
    end = latest_offset(OPTIONS, columns(), start, None, target)
    assert ids(start, end) == [1]
    assert latest_offset(OPTIONS, columns(), end, None, target) == end
    assert latest_offset(OPTIONS, columns(), at(end, target + 1), None, target) == at(end, target + 1)


def test_a_batch_that_is_repeated_has_the_same_rows_after_maintenance_and_new_columns(lake: Lake) -> None:
    first, before = initial_offset(OPTIONS), columns()
    start = latest_offset(OPTIONS, before, first, None)
    for number in (2, 3):
        lake.table("t").append([{"id": number}])
    end = latest_offset(OPTIONS, before, start, None)
    lake.table("t").delete("id = 2")
    lake.maintenance.compact()
    lake.maintenance.rewrite()
    lake.table("t").append([{"id": 4}])
    assert ids(start, end) == [2, 3]
    lake.table("t").evolve(add={"kind": "VARCHAR"})
    assert [column.name for column in columns()] == ["id", "kind"]
    assert ids(start, end) == [2, 3]
    with pytest.raises(SchemaError, match=r"the columns of main\.t have changed since the stream started"):
        latest_offset(OPTIONS, before, first, None)


def test_batches_that_end_while_the_table_had_another_name_have_its_rows(lake: Lake) -> None:
    start, since = initial_offset(OPTIONS), lake.snapshot_id
    lake.rename_table("t", "away").append([{"id": 2}])
    between = lake.snapshot_id
    lake.rename_table("away", "t").append([{"id": 3}])
    assert ids(start, at(start, between)) == [1, 2]
    assert ids(at(start, since), at(start, between)) == [2]
    assert ids(at(start, between), latest_offset(OPTIONS, columns(), start, None)) == [3]


def test_another_table_of_the_same_name_stops_a_stream(lake: Lake) -> None:
    start = latest_offset(OPTIONS, columns(), initial_offset(OPTIONS), None)
    lake.drop_table("t")
    with pytest.raises(TableNotFoundError, match=r"no table 'main\.t'"):
        latest_offset(OPTIONS, [], start, None)
    lake.create_table("t", {"id": "BIGINT"})
    with pytest.raises(TableNotFoundError, match=r"main\.t is another table than the one that the stream has read"):
        latest_offset(OPTIONS, columns(), start, None)


def test_expired_snapshots_stop_a_stream(lake: Lake) -> None:
    start = latest_offset(OPTIONS, columns(), initial_offset(OPTIONS), None)
    lake.table("t").update({"id": 2}, where="id = 1")
    updated = latest_offset(OPTIONS, columns(), start, None)
    assert ids(start, updated) == []
    for number in (3, 4):
        lake.table("t").append([{"id": number}])
    end = latest_offset(OPTIONS, columns(), start, None)
    lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    # Rows whose former values have expired are not new.
    for expired in (updated, end):
        with pytest.raises(SnapshotNotFoundError, match=r"the stream cannot continue: .* expired") as stopped:
            batch(OPTIONS, columns(), start, expired)
        assert "start the stream again with a new checkpoint" in str(stopped.value.hint)
    # What was read already may expire.
    assert ids(at(end, end["snapshot"] - 1), end) == [4]


def test_an_older_catalog_stops_a_stream(project: Path, lake: Lake) -> None:
    shutil.copy(project / "catalog.sqlite", project / "backup.sqlite")
    lake.table("t").append([{"id": 2}])
    start = latest_offset(OPTIONS, columns(), initial_offset(OPTIONS), None)
    lake.close()
    shutil.copy(project / "backup.sqlite", project / "catalog.sqlite")
    with pytest.raises(SnapshotNotFoundError, match="but the newest snapshot of the lake is"):
        latest_offset(OPTIONS, columns(), start, None)
    with lakeconf.init().get_store().open() as restored:
        for number in (3, 4):
            restored.table("t").append([{"id": number}])
    # Snapshot 3 now has other rows, which the stream would never return.
    with pytest.raises(SnapshotNotFoundError, match="the lake has another snapshot 3 than the one that the stream has"):
        latest_offset(OPTIONS, columns(), start, None)
    before = initial_offset(OPTIONS)
    with pytest.raises(SnapshotNotFoundError, match="the lake has another snapshot 3"):
        batch(OPTIONS, columns(), before, start)


def test_checkpoint_of_another_lake_or_of_something_else_is_refused(project: Path, lake: Lake) -> None:
    with pytest.raises(LakeconfError, match="the checkpoint is not that of a stream of a lake"):
        latest_offset(OPTIONS, columns(), {"offset": 1}, None)
    start = latest_offset(OPTIONS, columns(), initial_offset(OPTIONS), None)
    lake.close()
    (project / "catalog.sqlite").unlink()
    shutil.rmtree(project / "data")
    with lakeconf.init().get_store().open() as other:
        other.create_table("t", {"id": "BIGINT"}).append([{"id": 2}])
    with pytest.raises(LakeconfError, match="another lake than the one of the store 'dev'"):
        latest_offset(OPTIONS, columns(), start, None)


def test_a_stream_that_cannot_continue_does_not_begin(lake: Lake) -> None:
    lake.create_table("hidden", {"rowid": "BIGINT"})
    with pytest.raises(UnsupportedError, match="hides a column of the change feed"):
        initial_offset(Options("hidden"))
    assert initial_offset(Options("t", since=lake.snapshot_id + 1))["snapshot"] == lake.snapshot_id
    with pytest.raises(LakeconfError, match="the option since is 99, but the newest snapshot is 3"):
        initial_offset(Options("t", since=99))
