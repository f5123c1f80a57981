"""Steps of a transaction: every kind of change to a table, and lakes with tables to take them on."""

from __future__ import annotations

import functools
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import narwhals as nw
import pyarrow as pa

import lakeconf
from lakeconf.errors import UnsafeQueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lakeconf import Lake, Store

# Rows of tables as JSON, each as often as its table has it.
Rows = Counter[str]
# Transactions. The files of the first six rows lack the column `d`; the last row has it, and may be inlined.
_TABLE = (
    (
        "CREATE TABLE {0} (id BIGINT, v VARCHAR, k INTEGER, p STRUCT(a INTEGER, b VARCHAR))",
        "INSERT INTO {0} SELECT i, 'v' || i, 0, row(i, 'b') FROM range(6) r(i)",
    ),
    ("ALTER TABLE {0} ADD COLUMN d INTEGER DEFAULT 5",),
    ("INSERT INTO {0} VALUES (6, 'v6', NULL, NULL, 1)",),
)
# The snapshot of the first of these transactions.
_FIRST = 1


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
    columns = {}
    for name, type_name in lake.table(table).schema.items():
        kind = _arrow_type(type_name)
        values = row_ids if name == "id" else [_value(kind, row_id) for row_id in row_ids]
        columns[name] = pa.array(values, kind)
    return pa.table({**columns, **{name: [value] * len(row_ids) for name, value in more.items()}})


@functools.cache
def _arrow_type(type_name: str) -> pa.DataType:
    return duckdb.sql(f"SELECT NULL::{type_name} AS value").to_arrow_table().schema.field(0).type


def _value(kind: pa.DataType, row_id: int) -> object:
    """A value of a type in a row with an id."""
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type, row_id) for field in kind}
    if pa.types.is_string(kind):
        return f"v{row_id}"
    if pa.types.is_timestamp(kind):
        return datetime(2020 + row_id % 5, 1 + row_id % 12, 1 + row_id % 28)
    return pa.scalar(row_id * 2).cast(kind).as_py()


def _wider(lake: Lake, table: str) -> pa.Table:
    rows = frame(lake, table, 31)
    return rows.set_column(rows.column_names.index("k"), "k", rows["k"].cast(pa.int64())) if "k" in rows else rows


def _add_to_d(lake: Lake, table: str) -> int:
    column = named(lake, table, "d", "e")
    return lake.table(table).update({column: nw.col(column) + nw.col("id")}, where="id > 0")


def _merge_with_computed_value(lake: Lake, table: str) -> int:
    column = named(lake, table, "d", "e")
    change = lakeconf.Update({column: nw.col(f"target_{column}") + nw.col("source_id")}, when=nw.col("source_id") > 1)
    return lake.table(table).merge(pa.table({"id": [1, 2, 6, 54]}), on="id", matched=change)


STEPS: Mapping[str, Callable[[Lake, str], Any]] = {
    "add": lambda lake, t: lake.table(t).evolve(add={"c": "INTEGER"}, defaults={"c": 7}),
    "add without a default": lambda lake, t: lake.table(t).evolve(add={"n": "VARCHAR"}),
    "add a struct": lambda lake, t: lake.table(t).evolve(add={"q": "STRUCT(a INTEGER)"}),
    "add a field": lambda lake, t: lake.table(t).evolve(add={"p.c": "INTEGER"}),
    "drop": lambda lake, t: lake.table(t).evolve(drop=["v"]),
    "drop the late column": lambda lake, t: lake.table(t).evolve(drop=["d"]),
    "drop a field": lambda lake, t: lake.table(t).evolve(drop=["p.a"]),
    "rename": lambda lake, t: lake.table(t).evolve(rename={"v": "w"}),
    "rename the late column": lambda lake, t: lake.table(t).evolve(rename={"d": "e"}),
    "rename a field": lambda lake, t: lake.table(t).evolve(rename={"p.b": "o"}),
    "promote": lambda lake, t: lake.table(t).evolve(promote={"k": "BIGINT"}),
    "promote the late column": lambda lake, t: lake.table(t).evolve(promote={"d": "BIGINT"}),
    "promote a field": lambda lake, t: lake.table(t).evolve(promote={"p.a": "BIGINT"}),
    "replace the default": lambda lake, t: lake.table(t).evolve(drop=["d"], add={"d": "INTEGER"}, defaults={"d": 9}),
    "move the default": lambda lake, t: lake.table(t).evolve(
        rename={"d": "e"}, add={"d": "VARCHAR"}, defaults={"d": "nine"}
    ),
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
    "merge some columns": lambda lake, t: lake.table(t).merge(frame(lake, t, 4, 6, 55).select(["id", "k"]), on="id"),
    "merge with a computed value": _merge_with_computed_value,
    "merge that deletes": lambda lake, t: lake.table(t).merge(
        frame(lake, t, 0, 6, 51), on="id", matched=lakeconf.Delete()
    ),
    "merge with a new column": lambda lake, t: lake.table(t).merge(frame(lake, t, 3, 52, z=True), on="id", evolve=True),
    "merge that deletes the others": lambda lake, t: lake.table(t).merge(
        frame(lake, t, 2, 3, 53), on="id", not_matched_by_source=lakeconf.Delete()
    ),
    "execute INSERT": lambda lake, t: lake.execute(f"INSERT INTO {t} (id) SELECT id + 60 FROM {t} WHERE id < 3"),
    "execute UPDATE": lambda lake, t: lake.execute(f"UPDATE {t} SET k = {named(lake, t, 'd', 'e')} + 1 WHERE id < 5"),
    "execute DELETE": lambda lake, t: lake.execute(f"DELETE FROM {t} WHERE id = 5"),
    "restore": lambda lake, t: lake.restore(t, version=_FIRST),
    "rename the table": lambda lake, t: lake.rename_table(t, f"{t}_new"),
    "drop the table": lambda lake, t: lake.drop_table(t),
    "create the table": lambda lake, t: lake.create_table(t, {"id": "BIGINT", "v": "VARCHAR", "k": "INTEGER"}),
    "create a view": lambda lake, t: lake.create_view(f"{t}_view", f"SELECT id FROM {t}"),
    "drop the view": lambda lake, t: lake.drop_view(f"{t}_view"),
}


def rows(lake: Lake, table: str, **options: Any) -> Rows:
    """The rows of a table, as the engine of the lake scans it."""
    return as_json(lake.table(table).scan(**options).collect("pyarrow").to_native())


def as_json(frame: pa.Table) -> Rows:
    """The rows of a frame."""
    return Counter(row for (row,) in duckdb.sql("SELECT to_json(r)::VARCHAR FROM frame AS r").fetchall())


def rows_in_duckdb(lake: Lake, tables: Collection[str], where: str = "true") -> dict[str, Rows]:
    """The rows of tables that satisfy a condition, in one query."""
    if not tables:
        return {}
    query = " UNION ALL ".join(
        f"SELECT '{table}' AS name, to_json(r)::VARCHAR FROM {table} AS r WHERE {where}" for table in tables
    )
    read: dict[str, Rows] = {table: Counter() for table in tables}
    for name, row in lake.sql(query).collect("pyarrow").rows():
        read[name][row] += 1
    return read


def rows_in_spark(lake: Lake, tables: Iterable[str], where: str | None = None) -> dict[str, Rows]:
    """The rows of tables that satisfy a condition, in one job of Spark for all tables with the same columns."""
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for table in tables:
        alike.setdefault(tuple(lake.table(table).schema.items()), []).append(table)
    read: dict[str, Rows] = {}
    for names in alike.values():
        scans = [lake.table(name).scan(where=where).with_columns(nw.lit(name).alias("of")) for name in names]
        frame: pa.Table = nw.concat(scans).collect("pyarrow").to_native()
        for name in names:
            of_table = pa.compute.equal(frame["of"], name)
            read[name] = as_json(frame.filter(of_table).drop_columns("of"))
    return read


class Seen(NamedTuple):
    """What a user sees of a table."""

    types: dict[str, str]
    rows: Rows
    comments: tuple[str | None, dict[str, str]]


def state(lake: Lake, tables: Collection[str]) -> dict[str, Seen]:
    """What a user sees of tables, of the tables with their new names, and of their views."""
    existing, views = set(lake.tables()), set(lake.views())
    names = [name for table in tables for name in (table, f"{table}_new") if f"main.{name}" in existing]
    seen: dict[str, Seen] = {}
    for name, read in rows_in_duckdb(lake, names).items():
        table = lake.table(name)
        seen[name] = Seen(table.schema, read, (table.comment, table.column_comments))
    for name in [f"{table}_view" for table in tables if f"main.{table}_view" in views]:
        seen[name] = Seen({}, _rows_of_view(lake, name), (None, {}))
    return seen


def _rows_of_view(lake: Lake, view: str) -> Rows:
    """The rows of a view, or one that says that its table is no longer there."""
    try:
        return as_json(lake.sql(f"FROM {view}").collect("pyarrow").to_native())
    except UnsafeQueryError as error:
        return Counter([type(error).__name__])


def net_changes(lake: Lake, table: str, since: int) -> Rows:
    """The rows that the change feed adds, less those that it removes."""
    changes: pa.Table = lake.table(table).changes(since).collect("pyarrow").to_native()
    kinds = changes["change_type"].to_pylist()
    net: Rows = Counter()
    for sign, kept in ((1, ("insert", "update_postimage")), (-1, ("delete", "update_preimage"))):
        part = changes.filter(pa.array([kind in kept for kind in kinds], pa.bool_()))
        for row, count in as_json(part.drop_columns(["snapshot_id", "rowid", "change_type"])).items():
            net[row] += sign * count
    return Counter({row: count for row, count in net.items() if count})
