"""No write of a user changes the tables with which lakeconf recognises repeated writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Lake

ROW = [{"id": 1}]
NAMES = ("lakeconf.commits", '"LAKECONF".commits', "lakeconf.other")
WRITES: dict[str, Callable[[Lake, str], object]] = {
    "append": lambda lake, name: lake.table(name).append(ROW),
    "overwrite": lambda lake, name: lake.table(name).overwrite(ROW),
    "overwrite_partitions": lambda lake, name: lake.table(name).overwrite_partitions(ROW),
    "delete": lambda lake, name: lake.table(name).delete("id = 1"),
    "update": lambda lake, name: lake.table(name).update({"id": 2}, where="id = 1"),
    "merge": lambda lake, name: lake.table(name).merge(ROW, on="id"),
    "create": lambda lake, name: lake.create_table(name, {"id": "BIGINT"}),
    "create if not exists": lambda lake, name: lake.create_table(name, {"id": "BIGINT"}, if_not_exists=True),
    "view": lambda lake, name: lake.create_view(name, "SELECT 1 AS id"),
    "drop": lambda lake, name: lake.drop_table(name),
    "rename": lambda lake, name: lake.rename_table(name, "lakeconf.x"),
    "evolve": lambda lake, name: lake.table(name).evolve(add={"more": "BIGINT"}),
    "comments": lambda lake, name: lake.table(name).set_comments("x"),
    "execute": lambda lake, name: lake.execute(f"INSERT INTO {name} SELECT 1"),
    "restore": lambda lake, name: lake.restore(name, version=0),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("write", WRITES)
def test_no_write_changes_them(two_tables: Lake, write: str, name: str) -> None:
    before = two_tables.refresh()
    with pytest.raises(SchemaError, match="belongs to lakeconf"):
        WRITES[write](two_tables, name)
    assert two_tables.refresh() == before
