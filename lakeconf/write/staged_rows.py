"""Checks of staged rows before they are committed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakeconf.catalog.table import TableInfo
from lakeconf.commit.row_ids import repeated_id
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import ROW_ID, Staged
from lakeconf.engines.schema_check import not_null_violation, selected
from lakeconf.errors import CommitError, PredicateError, UnsupportedError
from lakeconf.sql import folded, identifier


def are_in_files(staged: Staged) -> bool:
    """True if files that can become files of the table contain all staged rows."""
    return staged.row_count == 0 or (staged.keeps_files and staged.rest is None)


def check_condition(writer: Connection, staged: Staged, condition: str) -> None:
    """Refuses staged rows that do not satisfy a condition.

    Raises:
        PredicateError: At least one row does not satisfy it.
    """
    outside = f"SELECT count(*) FROM ({staged.source}) WHERE ({condition}) IS NOT TRUE"
    ((count,),) = writer.rows(outside)
    if count:
        raise PredicateError(
            f"{count} rows of the frame do not satisfy the `where` of the overwrite ({condition})",
            hint="filter the frame, or widen the condition",
        )


def check_matches(writer: Connection, info: TableInfo, staged: Staged, on: Sequence[str], count: int) -> None:
    """Refuses a merge in which several rows of the frame match one row of the table.

    Args:
        writer: The connection that the rows were staged on.
        info: The table.
        staged: The staged actions.
        on: The columns that the merge matches on.
        count: The number of actions on rows of the table.

    Raises:
        CommitError: Several rows match one row.
    """
    acted = f"FROM ({staged.source}) WHERE {ROW_ID} IS NOT NULL"
    twice = repeated_id(writer, f"SELECT {ROW_ID} {acted}", count)
    if twice is None:
        return
    row_id, repeats = twice
    keys = [key.name for key in selected(info, on)]
    values, *_ = writer.rows(f"SELECT {', '.join(map(identifier, keys))} {acted} AND {ROW_ID} = {row_id} LIMIT 1")
    row = ", ".join(f"{name} = {value!r}" for name, value in zip(keys, values, strict=True))
    raise CommitError(
        f"{repeats} rows of the frame match one row of {info.full_name} ({row}): nothing was written",
        hint="keep one row of the frame for each key, or match on more columns",
    )


def check_row_ids(info: TableInfo) -> None:
    """Refuses a table with a column that hides the row ids.

    Raises:
        UnsupportedError: There is one.
    """
    if any(folded(column.name) == "rowid" for column in info.columns):
        raise UnsupportedError(
            f"a column of {info.full_name} is named rowid and hides DuckLake's row id, which identifies rows",
            hint="rename the column: table.evolve(rename={'rowid': …})",
        )


def check_required(
    writer: Connection, info: TableInfo, staged: Staged, columns: Collection[str], where: str = "true"
) -> None:
    """Refuses NULLs in NOT NULL columns: DuckLake checks them too late, or not at all.

    Args:
        writer: The connection that the rows were staged on.
        info: The table.
        staged: The staged rows.
        columns: The columns of the staged rows.
        where: A SQL condition that selects staged rows.

    Raises:
        SchemaError: A NOT NULL column contains a NULL.
    """
    required = [column.name for column in info.columns if not column.nullable and column.name in columns]
    if not required:
        return
    counts = ", ".join(f"count(*) FILTER ({identifier(name)} IS NULL)" for name in required)
    (nulls,) = writer.rows(f"SELECT {counts} FROM ({staged.source}) WHERE {where}")
    for name, count in zip(required, nulls, strict=True):
        if count:
            raise not_null_violation(name, info.full_name)
