"""What the footers of Parquet files say: rows, sizes, columns, and statistics that DuckLake can keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakeconf.catalog.column_types import Fact, duckdb_name, has
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import Connection
from lakeconf.errors import SchemaError, StorageError
from lakeconf.sql import files_sql, literal

# DuckLake takes NULL as bounds of a table for a table without values: the bounds of the next insert then hide the other
# rows from DuckDB. So a text column always has bounds. The upper one is above every string that does not begin with 64
# times the last code point, which is not a character.
WIDEST_TEXT = ("", chr(1114111) * 64)
_WIDEST = dict(zip(("low", "high"), map(literal, WIDEST_TEXT), strict=True))


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of a column, or of a field of a nested column, in one file."""

    field_id: int
    size: int  # its size in bytes
    value_count: int  # the number of its values, including NULL
    null_count: int | None  # the number of NULLs; None if it is not known
    low: str | None  # the smallest value as text; None if it is not known, or there is none
    high: str | None  # the largest value
    contains_nan: bool | None = None  # True if a value is NaN; None if it is not known, or the column is not a float

    @property
    def has_ordered_values(self) -> bool:
        """False if there are only NULLs, or only NULLs and NaN."""
        return self.null_count != self.value_count and not (self.low is None and self.contains_nan)


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file."""

    path: str
    row_count: int
    file_size_bytes: int  # its size
    footer_size: int  # the size of the footer in bytes
    statistics: tuple[ColumnStatistics, ...] = ()


def read_footers(connection: Connection, paths: Sequence[str], columns: Sequence[Column] = ()) -> tuple[Footer, ...]:
    """Reads the footers of files that were written for a table."""
    if not paths:
        return ()
    statistics: dict[str, list[ColumnStatistics]] = defaultdict(list)
    leaves = list(_leaves(columns))
    if not have_distinct_paths(columns):
        raise StorageError("two columns have the same path in the footers")
    if leaves:
        parts = " UNION ALL ".join(_statistics_sql(path, column) for path, column in leaves)
        for path, *values in connection.rows(f"WITH chunk AS MATERIALIZED ({chunks_sql(paths)}) {parts}"):
            statistics[path].append(ColumnStatistics(*values))
    source = files_sql("parquet_file_metadata", paths)
    footers = connection.rows(f"SELECT file_name, num_rows, file_size_bytes, footer_size FROM {source}")  # noqa: S608
    by_path = {path: Footer(path, rows, size, footer, tuple(statistics[path])) for path, rows, size, footer in footers}
    for path in paths:
        if len(by_path[path].statistics) != len(leaves):
            raise StorageError(f"the file {path} does not have exactly the columns of its table")
    return tuple(by_path[path] for path in paths)


def chunks_sql(paths: Sequence[str]) -> str:
    """The query for the column chunks of files: bounds as text, and counts."""
    return f"""
        SELECT file_name, path_in_schema, stats_min_value AS low, stats_max_value AS high,
            min_is_exact AS low_is_exact, max_is_exact AS high_is_exact, stats_null_count AS nulls,
            num_values AS row_count, total_compressed_size AS size
        FROM {files_sql("parquet_metadata", paths)}"""  # noqa: S608


def is_path_sql(path: str) -> str:
    """The condition for the chunks of the column with a path, such as `a, b` for a field of a struct."""
    return f"encode(path_in_schema) = encode({literal(path)})"


def are_text_sql(*bounds: str) -> str:
    """The condition that bounds are text: DuckDB shows other bytes in this form, and PostgreSQL stores no NUL."""
    text = " || ".join(bounds)
    return rf"NOT contains({text}, '\x') AND NOT contains({text}, chr(0))"


def files_with(connection: Connection, paths: Iterable[str], column: str) -> set[str]:
    """The files that have a column of this name."""
    source = files_sql("parquet_schema", paths)
    return {path for (path,) in connection.rows(f"SELECT file_name FROM {source} WHERE name = {literal(column)}")}  # noqa: S608


def name_classes(connection: Connection, paths: Iterable[str]) -> bool:
    """True if Spark might make objects of classes that files name as the types of their columns."""
    source = files_sql("parquet_kv_metadata", paths)
    escape = r"\x5C"  # which DuckDB shows for a backslash: JSON can write each letter with one
    shown = f"SELECT CAST(value AS VARCHAR) AS text FROM {source}"  # noqa: S608
    return bool(
        connection.rows(f"FROM ({shown}) WHERE text ILIKE '%udt%' OR contains(text, {literal(escape)}) LIMIT 1")
    )


def check_decimals(connection: Connection, paths: Sequence[str], types: Iterable[str]) -> None:
    """Rejects files with decimals that DuckDB reads as other numbers, of DOUBLE; `types` are those of the columns."""
    if not any("DOUBLE" in kind for kind in types):
        return
    wide = f"FROM {files_sql('parquet_schema', paths)} WHERE converted_type = 'DECIMAL' AND precision > 38 LIMIT 1"
    for path, name, precision in connection.rows(f"SELECT file_name, name, precision {wide}"):
        raise SchemaError(
            f"{name!r} in {path} is a decimal of {precision} digits, which DuckDB reads as other numbers",
            hint="write it with at most 38 digits",
        )


def have_distinct_paths(columns: Sequence[Column]) -> bool:
    """False if a column such as `a, b` cannot be distinguished from the field `b` of a column `a` in a footer."""
    paths = [path for path, _ in _leaves(columns)]
    return len(paths) == len({*paths})


def _leaves(columns: Sequence[Column], parent: str = "") -> Iterator[tuple[str, Column]]:
    """The columns that a file stores, with their paths as in `parquet_metadata`."""
    for column in columns:
        path = f"{parent}{column.name}"
        if column.type == "struct":
            yield from _leaves(column.children, f"{path}, ")
        else:
            yield path, column


def _statistics_sql(path: str, column: Column) -> str:
    low, high = _bound_sql(column, "low"), _bound_sql(column, "high")
    return f"""
        SELECT file_name, {column.field_id}, sum(size)::BIGINT, sum(row_count)::BIGINT,
            CASE WHEN count(nulls) = count(*) THEN sum(nulls) END::BIGINT, {low}, {high}
        FROM chunk WHERE {is_path_sql(path)} GROUP BY file_name"""  # noqa: S608


def _bound_sql(column: Column, bound: str) -> str:
    """The SQL of a bound over all row groups: NULL, or the widest, unless each row group with values has one."""
    if not has(column.type, Fact.IN_FOOTERS):
        return "CAST(NULL AS VARCHAR)"
    value = f"TRY_CAST({bound} AS {duckdb_name(column.type)})"
    is_text = are_text_sql(bound) if column.type == "varchar" else "true"
    is_known = f"{value} IS NOT NULL AND {bound}_is_exact IS NOT false AND {is_text}"
    has_values = "coalesce(nulls < row_count, true)"
    otherwise = _WIDEST[bound] if column.type == "varchar" else "NULL"
    kind = "min" if bound == "low" else "max"
    return f"""
        CASE WHEN count(*) FILTER ({has_values} AND NOT coalesce({is_known}, false)) = 0
            THEN arg_{kind}({bound}, {value}) FILTER ({has_values}) ELSE {otherwise} END"""
