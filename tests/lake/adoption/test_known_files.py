"""A table never gets the rows of a file twice, whatever it was renamed to, restored to or copied from."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from local_stores import config_of, in_bucket, store_of
from plain_sql import run_plain
from refused_adoptions import maintain_all, refused, rows

import lakeconf
from lakeconf.errors import CommitConflictError, StorageError, UnsupportedError
from lakeconf.inspection.table_copy import TableCopies
from lakeconf.pipelines import Append, Model, Pipeline, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import S3Server

    from lakeconf import Lake, Store


class Adopted:
    """A table that has adopted a folder of two files, one after the other, and what happens to it."""

    def __init__(self, lake: Lake, folder: Path, name: str) -> None:
        self.lake, self.folder, self.schema, self.name = lake, folder, name, f"{name}.t"
        self.versions = [self.add(0), self.add(1)]
        self.names = [self.name, self.name]

    def add(self, number: int) -> int:
        self.folder.mkdir(exist_ok=True)
        duckdb.sql(f"COPY (SELECT {number} AS id) TO '{self.folder}/{number}.parquet' (FORMAT parquet)")
        return self.lake.adopt(str(self.folder), self.name)

    def rename(self) -> None:
        new = f"{self.schema}.{'u' if self.name.endswith('t') else 't'}"
        self.lake.rename_table(self.name, new)
        self.name = new

    def restore_dropped(self) -> None:
        """Restores the table, which was dropped, to its newest state."""
        version = self.lake.snapshot_id
        self.lake.drop_table(self.name)
        self.lake.restore(self.name, version=version)

    def restore_replaced(self) -> None:
        """Restores the first state, with one file, in place of another table of the name."""
        self.lake.drop_table(self.name)
        self.name = self.names[0]
        self.lake.create_table(self.name, {"id": "VARCHAR", "other": "BIGINT"})
        self.lake.restore(self.name, version=self.versions[0])

    def undo(self) -> None:
        """Gives up the newest file, if the table still is the one that adopted it."""
        self.lake.restore(self.name, version=self.versions[0])

    def append(self) -> None:
        self.lake.table(self.name).append([{"id": 7}])


STEPS: dict[str, Callable[[Adopted], None]] = {
    "rename": Adopted.rename,
    "drop, restore": Adopted.restore_dropped,
    "drop, create, restore": Adopted.restore_replaced,
    "append": Adopted.append,
}
AGAIN, REPLACED = "drop, restore", "drop, create, restore"
SEQUENCES = [
    *itertools.permutations(("rename", AGAIN, REPLACED)),
    *(("rename", AGAIN, "rename"), (AGAIN, AGAIN), ("append", AGAIN), (REPLACED, "append", "rename")),
]


@pytest.mark.slow
def test_no_order_of_renames_and_restores_adds_rows_twice(store: Store, tmp_path: Path) -> None:
    with store.open() as lake:
        for number, sequence in enumerate(SEQUENCES):
            table = Adopted(lake, tmp_path / f"src{number}", f"s{number}")
            for step in sequence:
                STEPS[step](table)
            lake.adopt(str(table.folder), table.name)
            found = rows(lake, f"SELECT id FROM {table.name} WHERE id < 7 ORDER BY id")
            assert found == [(0,), (1,)], sequence
            assert not lake.plan_adopt(str(table.folder), table.name).is_needed, sequence


def test_an_adoption_that_was_undone_can_be_repeated(store: Store, tmp_path: Path) -> None:
    with store.open() as lake:
        table = Adopted(lake, tmp_path / "src", "s")
        table.undo()
        plan = lake.plan_adopt(str(table.folder), table.name)
        assert (len(plan.files), plan.known) == (1, 1)
        lake.adopt(str(table.folder), table.name)
        assert rows(lake, f"SELECT id FROM {table.name} ORDER BY id") == [(0,), (1,)]
        lake.restore(table.name, version=table.versions[1])
        assert not lake.plan_adopt(str(table.folder), table.name).is_needed


def test_names_of_tables_are_compared_as_duckdb_does(store: Store, tmp_path: Path) -> None:
    with store.open() as lake:
        table = Adopted(lake, tmp_path / "src", "s")
        for name in ("S.T", "s.t"):
            assert not lake.plan_adopt(str(table.folder), name).is_needed
        table.name = "S.T"
        table.add(2)
        assert not lake.plan_adopt(str(table.folder), "s.t").is_needed
        lake.table("s.t").overwrite([{"id": 9}])
        assert not lake.plan_adopt(str(table.folder), "s.t").is_needed


def test_a_table_with_rows_of_an_adopted_table_is_refused(store: Store, tmp_path: Path) -> None:
    with store.open() as lake:
        table = Adopted(lake, tmp_path / "src", "s")
        lake.create_table("s.few", {"id": "INTEGER"})
        lake.create_table("s.own", {"id": "INTEGER"}).append([{"id": 9}])
        lake.adopt(str(table.folder), "s.few")  # it has no rows
        lake.create_table("s.inlined", {"id": "INTEGER"})
        lake.execute("INSERT INTO s.inlined SELECT 1")
        lake.create_table("s.copied", {"id": "INTEGER"}).append(lake.table("s.t").scan())
        for name in ("own", "inlined", "copied"):
            with refused(lake, UnsupportedError, "copies of rows that another table has adopted"):
                lake.adopt(str(table.folder), f"s.{name}")
        duckdb.sql(f"COPY (SELECT 9 AS id) TO '{tmp_path / 'new.parquet'}' (FORMAT parquet)")
        other = tmp_path / "other"
        other.mkdir()
        (tmp_path / "new.parquet").rename(other / "new.parquet")
        lake.adopt(str(other), "s.own")  # nobody has adopted them


def parquet_in(folder: Path, *numbers: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        duckdb.sql(f"COPY (SELECT {number} AS id) TO '{folder}/{number}.parquet' (FORMAT parquet)")
    return folder


COPIED: dict[str, str] = {
    "s.b": "CREATE TABLE dev.s.b AS FROM dev.s.a",
    "s.a": "CREATE OR REPLACE TABLE dev.s.a AS FROM dev.s.a",
    "s.few": "INSERT INTO dev.s.few FROM dev.s.a",
    "s.later": "INSERT INTO dev.s.later FROM dev.s.a",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COPIED)
def test_rows_of_others_stay_doubtful_after_another_adoption(store: Store, tmp_path: Path, name: str) -> None:
    source, other = parquet_in(tmp_path / "src", 0, 1), parquet_in(tmp_path / "other", 9)
    with store.open() as lake:
        lake.adopt(str(source), "s.a")
        lake.create_table("s.few", {"id": "INTEGER"})
        lake.adopt(str(parquet_in(tmp_path / "first", 8)), "s.later")
        run_plain(lake, COPIED[name])
        lake.refresh()
        lake.adopt(str(other), name)
        for moved in (False, True):
            if moved:
                source = source.rename(tmp_path / "moved")
            with refused(lake, UnsupportedError, "copies of rows that another table has adopted"):
                lake.adopt(str(source), name)
        lake.adopt(str(parquet_in(tmp_path / "other", 10)), name)


@pytest.mark.parametrize("named", ["as it was", "behind a link"])
def test_a_folder_that_was_moved_is_refused(store: Store, tmp_path: Path, named: str) -> None:
    source = parquet_in(tmp_path / "src", 0, 1)
    with store.open() as lake:
        lake.adopt(str(source), "s.t")
        moved = source.rename(tmp_path / "new")
        if named == "behind a link":
            source.symlink_to(moved)
        with refused(lake, StorageError, "no longer exists or is behind a link"):
            lake.adopt(str(moved), "s.t")


@pytest.mark.slow
def test_a_folder_that_was_moved_in_a_bucket_is_refused(tmp_path: Path, s3_server: S3Server) -> None:
    storage = in_bucket(s3_server)
    bucket, client = storage["bucket"], s3_server.client()
    content = (parquet_in(tmp_path / "src", 0) / "0.parquet").read_bytes()
    with lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev").open() as lake:
        client.put_object(Bucket=bucket, Key="src/0.parquet", Body=content)
        lake.adopt(f"s3://{bucket}/src", "s.t")
        client.put_object(Bucket=bucket, Key="new/0.parquet", Body=content)
        client.delete_object(Bucket=bucket, Key="src/0.parquet")
        with refused(lake, StorageError, "no longer exists"):
            lake.adopt(f"s3://{bucket}/new", "s.t")


def test_names_with_dots_are_those_of_one_table(store: Store, tmp_path: Path) -> None:
    source = parquet_in(tmp_path / "src", 0)
    with store.open() as lake:
        for number in (1, 2):
            for name in ('"a.b".c', 'a."b.c"'):
                lake.adopt(str(source), name)
                assert rows(lake, f"SELECT count(*) FROM {name}") == [(number,)]
            parquet_in(source, number)


@pytest.mark.parametrize("owned", ["src", "link"])
def test_files_that_the_lake_owned_and_removed_are_no_change_of_the_source(tmp_path: Path, owned: str) -> None:
    source, other = parquet_in(tmp_path / "src", 0, 1), parquet_in(tmp_path / "other", 5)
    (tmp_path / "link").symlink_to(source)
    config = config_of(tmp_path)
    config["stores"]["dev"]["maintenance"] = {"owns": str(tmp_path / owned)}
    with lakeconf.init(config).get_store("dev").open() as lake:
        for folder in (source, other):
            lake.adopt(str(folder), "s.t")
        maintain_all(lake)
        assert list(source.iterdir()) == []
        parquet_in(source, 2)
        lake.adopt(str(source), "s.t")
        assert rows(lake, "SELECT id FROM s.t ORDER BY id") == [(0,), (1,), (2,), (5,)]
        (source / "2.parquet").rename(source / "3.parquet")
        with refused(lake, CommitConflictError, "removed or rewritten 1 file"):
            lake.adopt(str(source), "s.t")
        (source / "3.parquet").rename(source / "2.parquet")
        (other / "5.parquet").rename(other / "6.parquet")
        with refused(lake, CommitConflictError, "removed or rewritten 1 file"):
            lake.adopt(str(other), "s.t")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["src/*.parquet", "../p/src/*.parquet", "{absolute}/src/*.parquet"])
def test_files_that_a_model_has_loaded_are_refused(tmp_path: Path, pattern: str) -> None:
    project = tmp_path / "p"
    source = parquet_in(project / "src", 0, 1)
    files = Append(files=pattern.format(absolute=project), columns={"id": "INTEGER"})
    with store_of(project).open() as lake:
        run(Pipeline([Model("raw.events", files, folder=project)]), lake)
        lake.create_table("raw.copied", {"id": "INTEGER"}).append(lake.table("raw.events").scan())
        for name in ("raw.events", "raw.copied"):
            with refused(lake, UnsupportedError, "a model has loaded"):
                lake.adopt(str(source), name)
        lake.adopt(str(source), "raw.new")
        assert rows(lake, "SELECT count(*) FROM raw.new") == [(2,)]


def test_a_copy_in_another_lake_knows_the_files(tmp_path: Path) -> None:
    first, second = store_of(tmp_path / "first"), store_of(tmp_path / "second")
    with first.open() as lake:
        table = Adopted(lake, tmp_path / "src", "s")
        lake.rename_table("s.t", "s.u")
    for state in ("created", "replaced"):
        with second.open() as lake:
            copies = TableCopies(lake, first)
            copies.copy(copies.plan())
            assert not lake.plan_adopt(str(table.folder), "s.u").is_needed, state
            lake.adopt(str(table.folder), "s.u")
            assert rows(lake, "SELECT count(*) FROM s.u") == [(2,)], state
            lake.table("s.u").append([{"id": 9}])


def two_lakes(folder: Path) -> tuple[Path, Store, Store]:
    """A folder that the table s.t of a lake has adopted, that lake, which also has a copy of s.t, and an empty lake."""
    source = parquet_in(folder / "src", 0, 1)
    first, second = store_of(folder / "first"), store_of(folder / "second")
    with first.open() as lake:
        lake.adopt(str(source), "s.t")
        lake.create_table("s.copied", {"id": "INTEGER"}).append(lake.table("s.t").scan())
    return source, first, second


def test_a_copy_of_equal_tables_records_what_they_have_adopted(tmp_path: Path) -> None:
    source, first, second = two_lakes(tmp_path)
    with second.open() as lake:
        for name in ("s.t", "s.copied"):
            lake.create_table(name, {"id": "INTEGER"}).append([{"id": 0}, {"id": 1}])
        copies = TableCopies(lake, first)
        steps = copies.plan()
        assert {step.action for step in steps} == {"record"}
        copies.copy(steps)
        assert {step.action for step in copies.plan()} == {"skip"}
        assert not lake.plan_adopt(str(source), "s.t").is_needed
        with refused(lake, UnsupportedError, "copies of rows"):
            lake.adopt(str(source), "s.copied")


@pytest.mark.parametrize("exists", [False, True])
def test_a_copy_of_a_doubtful_table_is_doubtful(tmp_path: Path, *, exists: bool) -> None:
    source, first, second = two_lakes(tmp_path)
    with second.open() as lake:
        if exists:
            lake.create_table("s.copied", {"id": "INTEGER"})
        copies = TableCopies(lake, first)
        copies.copy(copies.plan(["s.copied"]))
        with refused(lake, UnsupportedError, "copies of rows"):
            lake.adopt(str(source), "s.copied")
