"""A table never gets the rows of a file twice, whatever it was renamed to, restored to or copied from."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from local_stores import store_of
from refused_adoptions import refused, rows

from lakeconf.errors import UnsupportedError
from lakeconf.inspection.table_copy import TableCopies

if TYPE_CHECKING:
    from collections.abc import Callable

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
