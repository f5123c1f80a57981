"""Steps of a transaction: every kind of change to a table, and lakes with tables to take them on."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import pyarrow as pa

import lakeconf
from lakeconf.errors import UnsafeQueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakeconf import Lake, Store

Row = tuple[tuple[str, object], ...]
# For each column that a step may add: the value in a row with an id.
_VALUES: Mapping[str, Callable[[int], object]] = {
    "id": lambda row_id: row_id,
    **dict.fromkeys(("v", "w", "n", "y"), lambda row_id: f"v{row_id}"),
    **dict.fromkeys(("d", "e", "k", "c"), lambda row_id: row_id * 2),
    "x": lambda row_id: row_id / 2,
    "z": lambda row_id: row_id > 0,
    "ts": lambda row_id: datetime(2020 + row_id % 5, 1 + row_id % 12, 1 + row_id % 28),
}
_ARROW = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "VARCHAR": pa.string(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
}
# Transactions. The files of the first six rows lack the column `d`; the last row has it, and may be inlined.
_TABLE = (
    ("CREATE TABLE {0} (id BIGINT, v VARCHAR, k INTEGER)", "INSERT INTO {0} SELECT i, 'v' || i, 0 FROM range(6) r(i)"),
    ("ALTER TABLE {0} ADD COLUMN d INTEGER DEFAULT 5",),
    ("INSERT INTO {0} VALUES (6, 'v6', NULL, 1)",),
)


def prepare(store: Store, tables: Sequence[str], transactions: Sequence[Sequence[str]] = _TABLE) -> None:
    """Makes equal tables, in transactions of plain DuckDB with statements for each table."""
    with store.connect() as connection:
        connection.execute(f"USE {store.alias}")
        for statements in transactions:
            connection.execute("BEGIN")
            for table in tables:
                for statement in statements:
                    connection.execute(statement.format(table))
            connection.execute("COMMIT")


def named(lake: Lake, table: str, *names: str) -> str:
    """The name that a column has now; the first of the names if it has none of them."""
    columns = lake.table(table).schema
    return next((name for name in names if name in columns), names[0])


def frame(lake: Lake, table: str, *row_ids: int, **more: object) -> pa.Table:
    """Rows for all columns that a table has now, and for others."""
    columns = {
        name: pa.array([_VALUES[name](row_id) for row_id in row_ids], _ARROW[type_name])
        for name, type_name in lake.table(table).schema.items()
    }
    return pa.table({**columns, **{name: [value] * len(row_ids) for name, value in more.items()}})


def _wider(lake: Lake, table: str) -> pa.Table:
    rows = frame(lake, table, 31)
    return rows.set_column(rows.column_names.index("k"), "k", rows["k"].cast(pa.int64())) if "k" in rows else rows


def _add_to_d(lake: Lake, table: str) -> int:
    column = named(lake, table, "d", "e")
    return lake.table(table).update({column: nw.col(column) + nw.col("id")}, where="id > 0")


STEPS: Mapping[str, Callable[[Lake, str], Any]] = {
    "add": lambda lake, t: lake.table(t).evolve(add={"c": "INTEGER"}, defaults={"c": 7}),
    "add without a default": lambda lake, t: lake.table(t).evolve(add={"n": "VARCHAR"}),
    "drop": lambda lake, t: lake.table(t).evolve(drop=["v"]),
    "drop the late column": lambda lake, t: lake.table(t).evolve(drop=["d"]),
    "rename": lambda lake, t: lake.table(t).evolve(rename={"v": "w"}),
    "rename the late column": lambda lake, t: lake.table(t).evolve(rename={"d": "e"}),
    "promote": lambda lake, t: lake.table(t).evolve(promote={"k": "BIGINT"}),
    "promote the late column": lambda lake, t: lake.table(t).evolve(promote={"d": "BIGINT"}),
    "set a default": lambda lake, t: lake.table(t).evolve(defaults={"k": 3}),
    "set another default": lambda lake, t: lake.table(t).evolve(defaults={"d": 9}),
    "comment": lambda lake, t: lake.table(t).set_comments("a table", {"id": "its key"}),
    "append": lambda lake, t: lake.table(t).append(frame(lake, t, 20, 21)),
    "append with a new column": lambda lake, t: lake.table(t).append(frame(lake, t, 30, x=1.5), evolve=True),
    "append with a wider type": lambda lake, t: lake.table(t).append(_wider(lake, t), evolve=True),
    "overwrite": lambda lake, t: lake.table(t).overwrite(frame(lake, t, 40, 41)),
    "overwrite a part": lambda lake, t: lake.table(t).overwrite(frame(lake, t, 2), where="id = 2"),
    "overwrite with a new column": lambda lake, t: lake.table(t).overwrite(
        frame(lake, t, 1, y="q"), where="id = 1", evolve=True
    ),
    "delete": lambda lake, t: lake.table(t).delete("id IN (1, 6)"),
    "delete by the default": lambda lake, t: lake.table(t).delete(f"{named(lake, t, 'd', 'e')} = 5 AND id < 3"),
    "update": lambda lake, t: lake.table(t).update({named(lake, t, "v", "w"): "new"}, where="id >= 4"),
    "update with a computed value": _add_to_d,
    "update the key": lambda lake, t: lake.table(t).update({"id": nw.col("id") + 100}, where="id > 0"),
    "merge": lambda lake, t: lake.table(t).merge(frame(lake, t, 3, 7, 50), on="id"),
    "merge that deletes": lambda lake, t: lake.table(t).merge(
        frame(lake, t, 0, 6, 51), on="id", matched=lakeconf.Delete()
    ),
    "merge with a new column": lambda lake, t: lake.table(t).merge(frame(lake, t, 3, 52, z=True), on="id", evolve=True),
    "merge that deletes the others": lambda lake, t: lake.table(t).merge(
        frame(lake, t, 2, 3, 53), on="id", not_matched_by_source=lakeconf.Delete()
    ),
    "execute INSERT": lambda lake, t: lake.execute(f"INSERT INTO {t} (id) VALUES (60)"),
    "execute UPDATE": lambda lake, t: lake.execute(f"UPDATE {t} SET k = k + 1 WHERE id < 5"),
    "execute DELETE": lambda lake, t: lake.execute(f"DELETE FROM {t} WHERE id = 5"),
    "rename the table": lambda lake, t: lake.rename_table(t, f"{t}_new"),
    "drop the table": lambda lake, t: lake.drop_table(t),
    "create the table": lambda lake, t: lake.create_table(t, {"id": "BIGINT", "v": "VARCHAR", "k": "INTEGER"}),
    "create a view": lambda lake, t: lake.create_view(f"{t}_view", f"SELECT id FROM {t}"),
}


def rows(lake: Lake, table: str, **options: Any) -> Counter[Row]:
    """The rows of a table with the names of their columns, each as often as the table has it."""
    records = lake.table(table).scan(**options).collect("pyarrow").rows(named=True)
    return Counter(tuple(record.items()) for record in records)


class Seen(NamedTuple):
    """What a user sees of a table."""

    types: dict[str, str]
    rows: Counter[Row]
    comments: tuple[str | None, dict[str, str]]


def state(lake: Lake, table: str) -> dict[str, Seen]:
    """What a user sees of a table, of the table with its new name, and of its view."""
    existing = set(lake.tables())
    seen: dict[str, Seen] = {}
    for name in (table, f"{table}_new"):
        if f"main.{name}" in existing:
            changed = lake.table(name)
            seen[name] = Seen(changed.schema, rows(lake, name), (changed.comment, changed.column_comments))
    if f"main.{table}_view" in lake.views():
        seen["view"] = Seen({}, _rows_of_view(lake, f"{table}_view"), (None, {}))
    return seen


def _rows_of_view(lake: Lake, view: str) -> Counter[Row]:
    """The rows of a view, or one that says that its table is no longer there."""
    try:
        return Counter(lake.sql(f"FROM {view}").collect("pyarrow").rows())
    except UnsafeQueryError as error:
        return Counter({(("error", type(error).__name__),): 1})


def net_changes(lake: Lake, table: str, since: int) -> Counter[Row]:
    """The rows that the change feed adds, less those that it removes."""
    changes: Counter[Row] = Counter()
    for change in lake.table(table).changes(since).collect("pyarrow").rows(named=True):
        kind = change.pop("change_type")
        row = tuple((name, value) for name, value in change.items() if name not in ("snapshot_id", "rowid"))
        changes[row] += 1 if kind in ("insert", "update_postimage") else -1
    return Counter({row: count for row, count in changes.items() if count})
