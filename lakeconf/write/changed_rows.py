"""The rows that a merge or a computed update changes: as frames of an engine, as staged rows, and their checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from lakeconf.catalog.pruning.predicates import Predicate, columns_of
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.pruning.where import Where
from lakeconf.catalog.tables import NO_ID, TableInfo, load_table
from lakeconf.commit.actions import Target
from lakeconf.commit.positions import Positions, counted_positions, repeated_id
from lakeconf.connection.connection import Connection
from lakeconf.engines.engine import (
    FILE_ID,
    FILE_ROW_NUMBER,
    ROW_ID,
    Engine,
    SparkOperations,
    Staged,
    StagingRequest,
    spark_operations,
)
from lakeconf.engines.file_names import PREFIX
from lakeconf.engines.schema_check import RESERVED, check_fit, not_null_violation, selected
from lakeconf.errors import CommitError, LakeconfError, SchemaError, UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write.context import WriteContext, quoted_name

# Columns of staged rows that say what becomes of rows of the table, in addition to those of the table.
ACTION = "__lakeconf_action"
NOTHING, UPDATE, DELETE, INSERT = "", "update", "delete", "insert"
# The staged rows in a statement.
STAGED = "__lakeconf_staged"
# Columns with the values that columns which the transaction adds have in all rows.
_DEFAULT = "__lakeconf_added_"


def readable_table(context: WriteContext, target: Target, names: Collection[str] | None = None) -> TableInfo:
    """The table at the read snapshot; an error if a merge or a computed update cannot read or identify its rows.

    Only `names` are columns of the changed rows; None for all.
    """
    info = target.info
    _check_names(info, [column.name for column in info.columns] if names is None else names)
    if info.table_id != NO_ID and context.changes_rows_of(info):
        raise UnsupportedError(
            f"the transaction already contains a write to {info.full_name}, and this write reads the table before it",
            hint="commit the transaction first, or write to the table only once in it",
        )
    if info.table_id == NO_ID:
        raise LakeconfError(
            f"{info.full_name} is created in this transaction, so it has no rows to compare with", hint="append to it"
        )
    if any(folded(column.name) == "rowid" for column in info.columns):
        raise UnsupportedError(
            f"a column of {info.full_name} is named rowid and hides DuckLake's row id, which identifies rows",
            hint="rename the column: table.evolve(rename={'rowid': …})",
        )
    read = target.stored or load_table(context.session.reader, quoted_name(info), context.snapshot_id)
    if target.evolved.is_reshaped:
        raise LakeconfError(
            f"columns of {info.full_name} were renamed or dropped in this transaction", hint="commit it first"
        )
    return read


def rows_to_change(
    context: WriteContext, engine: Engine, target: Target, read: TableInfo, where: Where | Predicate | None
) -> nw.LazyFrame[Any]:
    """The table's rows at the read snapshot, with their ids as `ROW_ID`, and `place_columns`."""
    names = {column.name for column in read.columns}
    new = [column.name for column in target.info.columns if column.name not in names]
    used = {column.name for column in columns_of(where)} if isinstance(where, Predicate) else set[str]()
    if unread := used.intersection(new):
        raise SchemaError(
            f"the condition uses the column {min(unread)!r} of {target.info.full_name}, which this transaction adds",
            hint="commit the transaction first, or leave the column out of the condition",
        )
    rows = engine.scan_rows(read, context.snapshot_id, where)
    values = target.evolved.defaults
    defaults = {column: values[folded(column)] for column in new if folded(column) in values}
    if defaults:
        rows = constant_row(context, engine, target, defaults, _DEFAULT).join(rows, how="cross")
    made = {column: nw.col(f"{_DEFAULT}{index}") for index, column in enumerate(defaults)}
    return rows.with_columns(made.get(column, nw.lit(None)).alias(column) for column in new) if new else rows


def place_columns(engine: Engine) -> list[str]:
    """The columns with the positions of rows that the frames of an engine have."""
    return [FILE_ID, FILE_ROW_NUMBER] if isinstance(engine, SparkOperations) else []


def constant_row(
    context: WriteContext, engine: Engine, target: Target, constants: Mapping[str, str], prefix: str
) -> nw.LazyFrame[Any]:
    """A frame of one row with SQL constants, which DuckDB has cast to the types of their columns."""
    cast = (f"CAST({value} AS {target.types[name]}) AS {identifier(name)}" for name, value in constants.items())
    row = engine.adopt(context.session.writer.arrow(f"SELECT {', '.join(cast)}"))
    columns = {column: target.types[column.name] for column in selected(target.info, list(constants))}
    frame: nw.LazyFrame[Any] = nw.from_native(engine.conform(row, columns))
    return frame.select(nw.col(name).alias(f"{prefix}{index}") for index, name in enumerate(constants))


def stage_changed_rows(
    context: WriteContext,
    engine: Engine,
    target: Target,
    rows: nw.LazyFrame[Any],
    types: Mapping[str, str],
    *,
    has_actions: bool = False,
) -> Staged:
    """Stages rows that say what becomes of rows of the table; with `has_actions`, each has an action and a place."""
    native = nw.to_native(rows)
    own = {ROW_ID: "BIGINT"}
    own |= {ACTION: "VARCHAR", **dict.fromkeys(place_columns(engine), "BIGINT")} if has_actions else {}
    values = {name: type_name for name, type_name in engine.schema(native).items() if name not in own}
    check_fit(target.info.full_name, values, types)
    request = StagingRequest(target.info, {**own, **types}, context.staging.next_token())
    return context.staging.own(engine.stage_rows(native, request))


def settings_of(settings: Mapping[str, str]) -> str:
    """The SQL after SET, from SQL values by column name."""
    return ", ".join(f"{identifier(name)} = {value}" for name, value in settings.items())


def update_statement(context: WriteContext, target: Target, settings: Mapping[str, str], source: str) -> str:
    """The statement that sets columns in the rows whose ids staged rows have."""
    table = context.quoted(target.info)
    rowid = f"{identifier(target.info.name)}.rowid"
    return f"UPDATE {table} SET {settings_of(settings)} FROM ({source}) AS {STAGED} WHERE {rowid} = {STAGED}.{ROW_ID}"


def check_matches(writer: Connection, info: TableInfo, staged: Staged, on: Sequence[str], where: str = "true") -> None:
    """Rejects a merge in which several rows of the frame match one row of the table."""
    matches = f"FROM ({staged.source}) WHERE {ROW_ID} IS NOT NULL AND ({where})"
    repeated = repeated_id(writer, f"SELECT {ROW_ID} {matches}")
    if repeated is None:
        return
    _, repeats = repeated
    # Without the values of the keys: logs have no values of rows.
    keys = f" on {', '.join(key.name for key in selected(info, on))}" if on else ""
    raise CommitError(
        f"{repeats} rows of the frame match one row of {info.full_name}{keys}: nothing was written",
        hint="keep one row of the frame for each key, or match on more columns",
    )


def check_required(
    writer: Connection, info: TableInfo, staged: Staged, columns: Collection[str], where: str = "true"
) -> None:
    """Rejects NULLs in NOT NULL columns: DuckLake checks them too late, or not at all."""
    required = [column.name for column in info.columns if not column.nullable and column.name in columns]
    if not required:
        return
    counts = ", ".join(f"count(*) FILTER ({identifier(name)} IS NULL)" for name in required)
    (nulls,) = writer.rows(f"SELECT {counts} FROM ({staged.source}) WHERE {where}")
    for name, count in zip(required, nulls, strict=True):
        if count:
            raise not_null_violation(name, info.full_name)


@dataclass(frozen=True)
class SparkSearch:
    """Finds the rows that satisfy the condition of a plan, or those with the ids of staged rows, by a Spark job."""

    context: WriteContext
    info: TableInfo
    folder: str  # an announced folder
    ids: nw.LazyFrame[Any] | None = None  # a frame with the column `ROW_ID`; None for all rows of the plan

    def find(self, plan: ScanPlan) -> Positions:
        """See `PositionSearch.find`."""
        rows = spark_operations(self.context.session.engine, "a search of rows").find_rows(plan)
        if self.ids is not None:
            rows = rows.join(self.ids, on=ROW_ID, how="semi")
        positions = self.sorted(rows)
        if positions is None:
            raise CommitError(f"two rows of {self.info.full_name} have one place: nothing was written")
        return positions

    def sorted(self, rows: nw.LazyFrame[Any]) -> Positions | None:
        """Lets executors sort the positions of rows; None if several rows have the same one."""
        staging, session = self.context.staging, self.context.session
        token = self.folder.removeprefix(f"{self.info.path}{PREFIX}") + staging.next_token()
        request = StagingRequest(self.info, {}, token)
        engine = spark_operations(session.engine, "a search of rows")
        files = engine.sort_positions(rows.select(FILE_ID, FILE_ROW_NUMBER), request)
        staging.own(files.staged)
        return counted_positions(session.writer, files.paths)


def _check_names(info: TableInfo, used: Collection[str]) -> None:
    """Rejects columns that narwhals cannot name in an expression, or that collide with lakeconf's own columns."""
    for column in info.columns:
        is_reserved = column.name.lower().startswith(RESERVED)
        if is_reserved or (column.name in used and (column.name == "*" or set(column.name) & set('."`'))):
            raise UnsupportedError(
                f"a merge or a computed update cannot use the column name {column.name!r} of {info.full_name}",
                hint="rename the column: table.evolve(rename={…: …}); append, overwrite, delete and update of other "
                "columns or with constants work without renaming",
            )
