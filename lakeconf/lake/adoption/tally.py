"""Compares rows by counts, bounds and, if wanted, a sum over each row; whatever their order is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakeconf.catalog.column_types import NESTED, parsed_type
from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitError
from lakeconf.sql import identifier

FLOATS = ("float", "double")
_TALLIES, _ROWS = "lakeconf_tallies", "lakeconf_arrow_rows"


@dataclass(frozen=True)
class Tally:
    """What some rows have in common if they are the same."""

    rows: int
    # The number of values, the least and the greatest one of each column, as text; nested columns have no bounds.
    columns: Mapping[str, tuple[int, str | None, str | None]]
    digest: int | None = None  # a sum over all rows; None if it is not wanted

    def check_equal(self, other: Tally, what: str) -> None:
        """Rejects rows that are not those of another tally."""
        differences = [] if self.rows == other.rows else [f"{self.rows:,} rows, and {other.rows:,}"]
        for name, values in self.columns.items():
            if other.columns[name] != values:
                differences.append(f"other NULLs, or another least or greatest value, of the column {name!r}")
        if not differences and self.digest != other.digest:
            differences.append("another value in some row")
        if differences:
            raise CommitError(
                f"DuckLake and {what} do not read the same rows: {differences[0]}; nothing was adopted",
                hint="load the rows instead: lakeconf load, or a model of the kind append",
            )


def tally(connection: Connection, source: str, types: Mapping[str, str], *, full: bool) -> Tally:
    """The tally of the rows of a query or a table in FROM, whose columns are converted to these types."""
    (row,) = connection.rows(f"SELECT {tally_sql(types, full=full)} FROM {converted(source, types)}")
    return _tally(row, types, full=full)


def merged_tally(connection: Connection, tables: Iterable[object], types: Mapping[str, str], *, full: bool) -> Tally:
    """The tally of the rows of several tables of Arrow; each is in memory while it is read."""
    with connection.cursor() as cursor:
        empty = ", ".join(f"CAST(NULL AS {kind}) AS {identifier(name)}" for name, kind in types.items())
        columns = tally_sql(types, full=full, text=False)
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE {_TALLIES} AS SELECT {columns} FROM (SELECT {empty} LIMIT 0)")
        for table in tables:
            cursor.register(_ROWS, table)
            cursor.execute(f"INSERT INTO {_TALLIES} SELECT {columns} FROM {converted(_ROWS, types)}")
        merged = ["sum(n)::BIGINT"]
        for number, kind in enumerate(types.values()):
            low, high = (f"{function}(c{number}_{function})" for function in ("min", "max"))
            merged += [f"sum(c{number}_n)::BIGINT", *([] if _is_nested(kind) else [_text(low), _text(high)])]
        merged += ["sum(digest)"] if full else []
        (row,) = cursor.rows(f"SELECT {', '.join(merged)} FROM {_TALLIES}")
        cursor.execute(f"DROP TABLE {_TALLIES}")
    return _tally(row, types, full=full)


def converted(source: str, types: Mapping[str, str]) -> str:
    """A query for the columns of rows, converted to types."""
    columns = ", ".join(f"CAST({identifier(name)} AS {kind}) AS {identifier(name)}" for name, kind in types.items())
    return f"(SELECT {columns} FROM {source})"


def tally_sql(types: Mapping[str, str], *, full: bool, text: bool = True) -> str:
    """The aggregates of a tally; with `text` as text, otherwise as they can be merged."""
    parts = ["count(*) AS n"]
    for number, (name, kind) in enumerate(types.items()):
        value = identifier(name)
        parts.append(f"count({value}) AS c{number}_n")
        if not _is_nested(kind):
            # Zero has two signs, which are equal.
            plain = f"CASE WHEN {value} = 0 THEN 0 ELSE {value} END" if parsed_type(kind).id in FLOATS else value
            for function in ("min", "max"):
                bound = f"{function}({plain})"
                parts.append(f"{_text(bound) if text else bound} AS c{number}_{function}")
    if full:
        parts.append(f"sum(hash({', '.join(map(identifier, types))})::HUGEINT) AS digest")
    return ", ".join(parts)


def _tally(row: tuple[object, ...], types: Mapping[str, str], *, full: bool) -> Tally:
    values = iter(row)
    rows = int(str(next(values) or 0))
    columns = {}
    for name, kind in types.items():
        count = int(str(next(values) or 0))
        low, high = (None, None) if _is_nested(kind) else (next(values), next(values))
        columns[name] = (count, None if low is None else str(low), None if high is None else str(high))
    return Tally(rows, columns, int(str(next(values) or 0)) if full else None)


def _text(expression: str) -> str:
    return f"CAST({expression} AS VARCHAR)"


def _is_nested(kind: str) -> bool:
    return parsed_type(kind).id in NESTED
