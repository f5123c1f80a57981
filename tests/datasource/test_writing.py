"""Appends of the data source: files of executors, one commit, and nothing left behind."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import in_bucket

import lakeconf
from lakeconf.config.toml_text import toml_value
from lakeconf.datasource.planning import Options
from lakeconf.datasource.writing import Write, abort, begin, commit, write_rows
from lakeconf.errors import CommitError, LakeconfError, SchemaError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import S3Server

    from lakeconf import Lake

TYPES = {"id": "BIGINT", "name": "VARCHAR"}
OPTIONS = Options("t")


@pytest.fixture
def lake(project: Path) -> Iterator[Lake]:
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


def ids(lake: Lake) -> list[int]:
    lake.refresh()
    return sorted(row["id"] for row in lake.table("t").to_arrow().to_pylist())


def staged(project: Path) -> list[str]:
    """The files and manifests of writes below the data path."""
    return sorted(path.name for path in (project / "data").rglob("*") if "lakeconf-" in str(path) and path.is_file())


def test_files_of_all_tasks_become_one_snapshot(project: Path, lake: Lake) -> None:
    before = lake.snapshot_id
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 1, "name": "a"}, {"id": 2, "name": None}], [{"id": 3, "name": "c"}], [])
    assert len(files) == 2
    assert ids(lake) == []
    commit(write, files)
    assert ids(lake) == [1, 2, 3]
    assert lake.snapshot_id == before + 1
    # The staging folder has only files of the table, and no manifest.
    assert sorted(file.path for file in lake.table("t").files()) == sorted(files)
    assert staged(project) == sorted(path.rpartition("/")[2] for path in files)


def test_a_repeated_commit_or_write_with_a_key_adds_nothing_and_removes_nothing(project: Path, lake: Lake) -> None:
    for _ in range(2):
        write = begin(Options("t", idempotency_key="day 1"), TYPES)
        files = written(write, [{"id": 1, "name": "a"}])
        commit(write, files)
    assert ids(lake) == [1]
    assert len(staged(project)) == 1
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 2, "name": "b"}])
    for _ in range(2):
        commit(write, files)
    assert ids(lake) == [1, 2]


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
    project: Path, lake: Lake, types: dict[str, str], row: dict[str, Any]
) -> None:
    lake.drop_table("t")
    lake.create_table("t", types)
    write = begin(OPTIONS, types)
    commit(write, written(write, [row]))
    assert staged(project) == []
    lake.table("t").append([{**row, "id": 2}])
    assert ids(lake) == [1, 2]
    assert lake.sql("SELECT count(*) FROM t WHERE t IS NOT NULL").to_native().fetchall() == [(2,)]


def test_partitioned_tables_get_files_of_one_partition(project: Path, lake: Lake) -> None:
    lake.create_table("p", TYPES, partitioned_by=["name"])
    write = begin(Options("p"), TYPES)
    commit(write, written(write, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]))
    lake.refresh()
    assert sorted(file.partition for file in lake.table("p").files()) == [("a",), ("b",)]
    assert staged(project) == []


def test_an_aborted_or_empty_write_leaves_nothing(project: Path, lake: Lake) -> None:
    write, before = begin(OPTIONS, TYPES), lake.snapshot_id
    written(write, [{"id": 1, "name": "a"}])
    assert len(staged(project)) == 2
    abort(write)
    assert staged(project) == []
    write = begin(OPTIONS, TYPES)
    commit(write, written(write, []))
    assert lake.refresh() == before
    assert staged(project) == []


def test_files_of_a_commit_with_an_unknown_outcome_are_kept(
    project: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 1, "name": "a"}])
    with monkeypatch.context() as patch:
        patch.setattr("lakeconf.write.writes.write_once", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            commit(write, files)
    abort(write)
    assert len(staged(project)) == 3
    # Spark may repeat the commit.
    commit(write, files)
    assert ids(lake) == [1]


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_cleanup_removes_the_files_of_a_killed_write(project: Path, lake: Lake) -> None:
    lake.table("t").append([{"id": 1, "name": "a"}])
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 2, "name": "b"}])
    lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    assert staged(project) == []
    with pytest.raises(LakeconfError):
        commit(write, files)
    assert ids(lake) == [1]


def test_rows_that_do_not_fit_fail_the_task(lake: Lake) -> None:
    with pytest.raises(SchemaError, match="the frame's column 'id' is VARCHAR"):
        begin(OPTIONS, TYPES | {"id": "VARCHAR"})
    with pytest.raises(SchemaError, match="'name'"):
        begin(OPTIONS, {"id": "BIGINT"})
    write = begin(OPTIONS, TYPES)
    with pytest.raises(SchemaError, match="placeholder"):
        written(write, [{"id": 1, "name": "{SNAPSHOT_ID}"}])
    lake.execute("INSERT INTO t VALUES (1, 'a')")
    assert ids(lake) == [1]
    lake.create_table("required", TYPES | {"id": "BIGINT NOT NULL"})
    with pytest.raises(SchemaError, match="'id'"):
        written(begin(Options("required"), TYPES), [{"id": 1, "name": "a"}, {"id": None, "name": "b"}])


def test_a_table_that_changed_since_the_write_began_refuses_it(lake: Lake) -> None:
    write = begin(OPTIONS, TYPES)
    files = written(write, [{"id": 1, "name": "a"}])
    lake.table("t").evolve(add={"size": "INTEGER"})
    with pytest.raises(CommitError):
        commit(write, files)
    assert ids(lake) == []


def test_encrypted_lakes_are_refused(project: Path) -> None:
    with (project / "lakeconf.toml").open("a") as file:
        file.write("[stores.dev.attach_options]\nencrypted = true\n")
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", TYPES)
    with pytest.raises(UnsupportedError, match="encrypted"):
        begin(OPTIONS, TYPES)


def test_files_are_written_to_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> None:
    storage = in_bucket(s3_server)
    lines = "".join(f"{name} = {toml_value(value)}\n" for name, value in storage.items())
    metadata = '[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "catalog.sqlite"\n'
    (tmp_path / "lakeconf.toml").write_text(f"{metadata}[stores.dev.storage_backend]\n{lines}")
    monkeypatch.chdir(tmp_path)
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", TYPES)
        for abandoned in (True, False):
            write = begin(OPTIONS, TYPES)
            files = written(write, [{"id": 1, "name": "a"}])
            if abandoned:
                abort(write)
            else:
                commit(write, files)
        assert ids(lake) == [1]
        found = lake.sql(f"SELECT file FROM glob('{storage_root(storage)}**')").to_native().fetchall()
        assert sorted(path for (path,) in found if path.endswith(".parquet")) == files


def storage_root(storage: dict[str, Any]) -> str:
    return f"s3://{storage['bucket']}/{storage['prefix']}/main/t/"
