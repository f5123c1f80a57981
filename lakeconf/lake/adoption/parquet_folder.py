"""A folder of Parquet files as a source, with or without partitions in the names of its folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lakeconf.connection.connection import Connection
from lakeconf.errors import SchemaError, UnknownNameError
from lakeconf.lake.adoption.adopted_source import Source
from lakeconf.lake.adoption.folder import Folder, check_parquet_names, path_values
from lakeconf.lake.adoption.footers import check_schemas, schemas_of
from lakeconf.lake.adoption.tally import Tally, tally
from lakeconf.sql import exact_paths, files_sql, folded, literal

# A type without fields, such as `DECIMAL(10, 2)`.
_PLAIN_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\([0-9]+(, *[0-9]+)?\))?")


class ParquetReader:
    """DuckDB's own reader of Parquet files, without a lake."""

    def __init__(self, connection: Connection, in_path: Mapping[str, str]) -> None:
        self._connection, self._in_path = connection, in_path

    def tally(self, paths: Sequence[str], types: Mapping[str, str], *, full: bool) -> Tally:
        """The tally of the rows."""
        return tally(self._connection, _rows_sql(paths, self._in_path), types, full=full)


def parquet_folder(folder: Folder, types: Mapping[str, str]) -> Source:
    """The Parquet files of a folder. `types` has the types of columns in paths that are not to be inferred."""
    paths = folder.paths()
    check_parquet_names(folder.root, paths)
    values = {path: path_values(folder.root, path) for path in paths}
    first = next(iter(values.values()))
    for path, own in values.items():
        if own.keys() != first.keys():
            raise SchemaError(
                f"{paths[0]} and {path} are in folders for other columns: {', '.join(first) or 'none'}, and "
                f"{', '.join(own) or 'none'}",
                hint="adopt the folders one by one, into tables of their own",
            )
    schemas = schemas_of(folder.connection, paths)
    check_schemas(schemas)
    names = {folded(field.name) for field in next(iter(schemas.values()))}
    missing = tuple(name for name in first if folded(name) not in names)
    if missing and len(missing) < len(first):
        raise SchemaError(
            f"the files have {next(name for name in first if folded(name) in names)!r}, which is also in their paths, "
            f"but not {missing[0]!r}",
            hint="write the files again: DuckLake reads all of these columns from the paths, or none",
        )
    in_path = {
        name: _checked(folder.connection, values, name, types[name])
        if name in types
        else _inferred(folder.connection, values, name)
        for name in missing
    }
    described = folder.connection.rows(f"DESCRIBE FROM {_rows_sql(paths, in_path)}")
    return Source(
        "Parquet file",
        folder,
        {name: kind for name, kind, *_ in described},
        tuple(paths),
        ParquetReader(folder.connection, in_path),
        schemas,
        partitions=missing,
        values=values if first else {},
    )


def _inferred(connection: Connection, values: Mapping[str, Mapping[str, str | None]], name: str) -> str:
    """The type of a column in paths: the first that has all values as they are written."""
    texts = _literals(values, name)
    for kind in ("BIGINT", "DATE", "TIMESTAMP") if texts else ():
        same = f"SELECT bool_and(CAST(TRY_CAST(v AS {kind}) AS VARCHAR) = v) FROM unnest([{texts}]) AS t(v)"
        if connection.rows(same) == [(True,)]:
            return kind
    return "VARCHAR"


def _checked(connection: Connection, values: Mapping[str, Mapping[str, str | None]], name: str, kind: str) -> str:
    """A declared type of a column in paths, which must fit all of its values."""
    hint = "declare another type, such as VARCHAR"
    if not _PLAIN_TYPE.fullmatch(kind):
        raise SchemaError(f"the column {name!r} is in paths, and cannot have the type {kind!r}", hint=hint)
    source = f"unnest([{_literals(values, name)}]::VARCHAR[]) AS t(v)"
    try:
        wrong = connection.rows(f"SELECT v FROM {source} WHERE TRY_CAST(v AS {kind}) IS NULL LIMIT 1")
    except UnknownNameError as error:
        raise SchemaError(f"the column {name!r} has the unknown type {kind!r}", hint=hint) from error
    for (text,) in wrong:
        raise SchemaError(f"the value {text!r} of the column {name!r} in a path is not of the type {kind}", hint=hint)
    return kind


def _literals(values: Mapping[str, Mapping[str, str | None]], name: str) -> str:
    """The different values of a column in paths as SQL; empty if there are none."""
    texts = sorted({text for own in values.values() if (text := own[name]) is not None})
    return ", ".join(map(literal, texts))


def _rows_sql(paths: Sequence[str], in_path: Mapping[str, str]) -> str:
    """What follows FROM to read the rows of files; columns are matched by name."""
    if not in_path:
        return files_sql("read_parquet", paths, "union_by_name = true")
    kinds = ", ".join(f"{literal(name)}: {kind}" for name, kind in in_path.items())
    options = f"union_by_name = true, hive_partitioning = true, hive_types = {{{kinds}}}"
    return f"read_parquet({exact_paths(paths)}, {options})"
