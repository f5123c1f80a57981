"""Offsets and batches of a stream; appends: files of executors, one commit, and nothing left behind."""

from __future__ import annotations

import pickle
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import in_bucket

import lakeconf
from lakeconf.config.toml_text import toml_value
from lakeconf.datasource.planning import Options, resolve
from lakeconf.datasource.stream_reader import batch, initial_offset, latest_offset
from lakeconf.datasource.writing import Write, abort, begin, commit, write_rows
from lakeconf.engines.spark.read.parts import ChangePart, FilePart, read_part
from lakeconf.engines.spark.spark_types import spark_schema
from lakeconf.engines.spark.versions import arrow_schema
from lakeconf.errors import (
    CommitError,
    LakeconfError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from servers import S3Server

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


@pytest.mark.slow
def test_the_first_batch_is_the_table_and_the_next_ones_its_changes(lake: Lake) -> None:
    start = initial_offset(OPTIONS)
    end = latest_offset(OPTIONS, columns(), start, None)
    (part,) = batch(OPTIONS, columns(), start, end)
    assert isinstance(part, FilePart)
    assert ids(start, end) == [1]
    assert batch(OPTIONS, columns(), end, latest_offset(OPTIONS, columns(), end, None)) == []
    lake.table("t").append([{"id": 2}])
    later = latest_offset(OPTIONS, columns(), end, None)
    (part,) = batch(OPTIONS, columns(), end, later)
    assert isinstance(part, ChangePart)
    assert ids(end, later) == [2]


@pytest.mark.slow
def test_a_stream_can_begin_with_a_snapshot(lake: Lake) -> None:
    lake.table("t").append([{"id": 2}])
    start = initial_offset(Options("t", since=lake.snapshot_id))
    assert ids(start, latest_offset(OPTIONS, columns(), start, None)) == [2]
    # Snapshot 0 has no changes, but it is not the same as no snapshot.
    everything = initial_offset(Options("t", since=0))
    (part,) = batch(OPTIONS, columns(), everything, latest_offset(OPTIONS, columns(), everything, None))
    assert isinstance(part, ChangePart)
    with pytest.raises(LakeconfError, match="a stream of all changes begins with a snapshot"):
        initial_offset(Options("t", changes=True))


@pytest.mark.slow
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


@pytest.mark.slow
def test_snapshots_of_other_tables_make_no_batch(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream into the same lake would never end: each empty batch adds a snapshot with its key."""
    start = latest_offset(OPTIONS, columns(), initial_offset(OPTIONS), None)
    lake.create_table("u", {"id": "BIGINT"}).append([{"id": 1}])
    for limit in (None, 1):
        assert latest_offset(OPTIONS, columns(), start, limit) == start
    with monkeypatch.context() as patch:
        patch.setattr("lakeconf.datasource.stream_reader._HOUR", 0)  # else the snapshot could expire
        assert latest_offset(OPTIONS, columns(), start, None)["snapshot"] == lake.snapshot_id
    lake.table("t").append([{"id": 2}])
    for limit in (None, 1):  # the first snapshot after the start is one of the other table
        assert latest_offset(OPTIONS, columns(), start, limit) != start
    assert ids(start, latest_offset(OPTIONS, columns(), start, None)) == [2]


@pytest.mark.slow
def test_a_target_ends_the_stream(lake: Lake) -> None:
    start = initial_offset(OPTIONS)
    target = lake.snapshot_id
    lake.table("t").append([{"id": 2}])
    end = latest_offset(OPTIONS, columns(), start, None, target)
    assert ids(start, end) == [1]
    assert latest_offset(OPTIONS, columns(), end, None, target) == end
    assert latest_offset(OPTIONS, columns(), at(end, target + 1), None, target) == at(end, target + 1)


@pytest.mark.slow
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
    with pytest.raises(SchemaError, match=r"the columns of main\.t have changed since the first batch was planned"):
        batch(OPTIONS, columns(), first, start)


@pytest.mark.slow
def test_batches_that_end_while_the_table_had_another_name_have_its_rows(lake: Lake) -> None:
    start, since = initial_offset(OPTIONS), lake.snapshot_id
    lake.rename_table("t", "away").append([{"id": 2}])
    between = lake.snapshot_id
    lake.rename_table("away", "t").append([{"id": 3}])
    assert ids(start, at(start, between)) == [1, 2]
    assert ids(at(start, since), at(start, between)) == [2]
    assert ids(at(start, between), latest_offset(OPTIONS, columns(), start, None)) == [3]


@pytest.mark.slow
def test_another_table_of_the_same_name_stops_a_stream(lake: Lake) -> None:
    start = latest_offset(OPTIONS, columns(), initial_offset(OPTIONS), None)
    lake.drop_table("t")
    with pytest.raises(TableNotFoundError, match=r"no table 'main\.t'"):
        latest_offset(OPTIONS, [], start, None)
    lake.create_table("t", {"id": "BIGINT"})
    with pytest.raises(TableNotFoundError, match=r"main\.t is another table than the one that the stream has read"):
        latest_offset(OPTIONS, columns(), start, None)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


TYPES = {"id": "BIGINT", "name": "VARCHAR"}


@pytest.fixture
def empty(project: Path) -> Iterator[Lake]:
    """The lake of the project, with the empty table `t`."""
    assert project.exists()
    with lakeconf.init().get_store().open() as opened:
        opened.create_table("t", TYPES)
        yield opened


def written(write: Write, *tasks: list[dict[str, Any]]) -> list[str]:
    """The files of some tasks, each in the process of an executor."""
    found = []
    for rows in tasks:
        batches = iter(pa.Table.from_pylist(rows).to_batches())
        found.append(write_rows(pickle.loads(pickle.dumps(write)), batches))  # noqa: S301 - its own pickle
    return [path for path in found if path is not None]


def ids_of(empty: Lake) -> list[int]:
    empty.refresh()
    return sorted(row["id"] for row in empty.table("t").to_arrow().to_pylist())


def staged(project: Path) -> list[str]:
    """The files and manifests of writes below the data path."""
    return sorted(path.name for path in (project / "data").rglob("*") if "lakeconf-" in str(path) and path.is_file())


def test_files_of_all_tasks_become_one_snapshot(project: Path, empty: Lake) -> None:
    before = empty.snapshot_id
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 1, "name": "a"}, {"id": 2, "name": None}], [{"id": 3, "name": "c"}], [])
    assert len(files) == 2
    assert ids_of(empty) == []
    commit(write, files)
    assert ids_of(empty) == [1, 2, 3]
    assert empty.snapshot_id == before + 1
    # The staging folder has only files of the table, and no manifest.
    assert sorted(file.path for file in empty.table("t").files()) == sorted(files)
    assert staged(project) == sorted(path.rpartition("/")[2] for path in files)


@pytest.mark.slow
def test_a_repeated_commit_or_write_with_a_key_adds_nothing_and_removes_nothing(project: Path, empty: Lake) -> None:
    for _ in range(2):
        write = begin(Options("t", idempotency_key="day 1"), TYPES)
        files = written(write, [{"id": 1, "name": "a"}])
        commit(write, files)
    assert ids_of(empty) == [1]
    assert len(staged(project)) == 1
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 2, "name": "b"}])
    for _ in range(2):
        commit(write, files)
    assert ids_of(empty) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("types", "row"),
    [
        ({"id": "BIGINT", "x": "DOUBLE"}, {"id": 1, "x": float("nan")}),
        ({"id": "BIGINT", "tags": "VARCHAR[]"}, {"id": 1, "tags": ["a"]}),
        ({"id": "BIGINT", "name": "VARCHAR"}, {"id": 1, "name": "z" * 20_000}),
        ({"id": "BIGINT", "name": "VARCHAR"}, {"id": 1, "name": "a\\x00b"}),
        ({"id": "BIGINT", "raw": "BLOB"}, {"id": 1, "raw": b"\xff\x00"}),
    ],
)
def test_rows_of_files_without_reliable_bounds_are_inserted(
    project: Path, empty: Lake, types: dict[str, str], row: dict[str, Any]
) -> None:
    empty.drop_table("t")
    empty.create_table("t", types)
    write = begin(OPTIONS, types)
    commit(write, written(write, [row]))
    assert staged(project) == []
    empty.table("t").append([{**row, "id": 2}])
    assert ids_of(empty) == [1, 2]
    assert empty.sql("SELECT count(*) FROM t WHERE t IS NOT NULL").to_native().fetchall() == [(2,)]


def test_partitioned_tables_get_files_of_one_partition(project: Path, empty: Lake) -> None:
    empty.create_table("p", TYPES, partitioned_by=["name"])
    write = begin(Options("p"), TYPES)
    commit(write, written(write, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]))
    empty.refresh()
    assert sorted(file.partition for file in empty.table("p").files()) == [("a",), ("b",)]
    assert staged(project) == []


def test_an_aborted_or_empty_write_leaves_nothing(project: Path, empty: Lake) -> None:
    write, before = begin(OPTIONS, TYPES), empty.snapshot_id
    written(write, [{"id": 1, "name": "a"}])
    assert len(staged(project)) == 2
    abort(write)
    assert staged(project) == []
    write = begin(OPTIONS, TYPES)
    commit(write, written(write, []))
    assert empty.refresh() == before
    assert staged(project) == []


@pytest.mark.slow
def test_files_of_a_commit_with_an_unknown_outcome_are_kept(
    project: Path, empty: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 1, "name": "a"}])
    with monkeypatch.context() as patch:
        patch.setattr("lakeconf.write.context.perform", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            commit(write, files)
    abort(write)
    assert len(staged(project)) == 3
    # Spark may repeat the commit.
    commit(write, files)
    assert ids_of(empty) == [1]


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_cleanup_removes_the_files_of_a_killed_write(project: Path, empty: Lake) -> None:
    empty.table("t").append([{"id": 1, "name": "a"}])
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 2, "name": "b"}])
    empty.maintenance.cleanup(older_than=timedelta(0), force=True)
    assert staged(project) == []
    with pytest.raises(LakeconfError):
        commit(write, files)
    assert ids_of(empty) == [1]


@pytest.mark.slow
def test_rows_that_do_not_fit_fail_the_task(empty: Lake) -> None:
    with pytest.raises(SchemaError, match="the frame's column 'id' is VARCHAR"):
        begin(OPTIONS, TYPES | {"id": "VARCHAR"})
    with pytest.raises(SchemaError, match="'name'"):
        begin(OPTIONS, {"id": "BIGINT"})
    write = begin(OPTIONS, TYPES)
    with pytest.raises(SchemaError, match="placeholder"):
        written(write, [{"id": 1, "name": "{SNAPSHOT_ID}"}])
    empty.execute("INSERT INTO t VALUES (1, 'a')")
    assert ids_of(empty) == [1]
    empty.create_table("required", TYPES | {"id": "BIGINT NOT NULL"})
    with pytest.raises(SchemaError, match="'id'"):
        written(begin(Options("required"), TYPES), [{"id": 1, "name": "a"}, {"id": None, "name": "b"}])


def test_a_table_that_changed_since_the_write_began_refuses_it(empty: Lake) -> None:
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 1, "name": "a"}])
    empty.table("t").evolve(add={"size": "INTEGER"})
    with pytest.raises(CommitError):
        commit(write, files)
    assert ids_of(empty) == []


def test_encrypted_lakes_are_refused(project: Path) -> None:
    with (project / "lakeconf.toml").open("a") as file:
        file.write("[stores.dev.attach_options]\nencrypted = true\n")
    with lakeconf.init().get_store().open() as empty:
        empty.create_table("t", TYPES)
    with pytest.raises(UnsupportedError, match="encrypted"):
        begin(OPTIONS, TYPES)


@pytest.mark.slow
def test_files_are_written_to_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> None:
    storage = in_bucket(s3_server)
    lines = "".join(f"{name} = {toml_value(value)}\n" for name, value in storage.items())
    metadata = '[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "catalog.sqlite"\n'
    (tmp_path / "lakeconf.toml").write_text(f"{metadata}[stores.dev.storage_backend]\n{lines}")
    monkeypatch.chdir(tmp_path)
    with lakeconf.init().get_store().open() as empty:
        empty.create_table("t", TYPES)
        for abandoned in (True, False):
            write = begin(OPTIONS, TYPES)
            files = written(write, [{"id": 1, "name": "a"}])
            if abandoned:
                abort(write)
            else:
                commit(write, files)
        assert ids_of(empty) == [1]
        found = empty.sql(f"SELECT file FROM glob('{storage_root(storage)}**')").to_native().fetchall()
        assert sorted(path for (path,) in found if path.endswith(".parquet")) == files


def storage_root(storage: dict[str, Any]) -> str:
    return f"s3://{storage['bucket']}/{storage['prefix']}/main/t/"
