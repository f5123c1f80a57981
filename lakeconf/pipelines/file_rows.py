"""Rows of files for models: how they are read, and checks that no value changes and no key is left out.

DuckDB rounds values and leaves out keys of structs that the declared types lack, without an error.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import narwhals as nw
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import NESTED_IDS, fields_of, parsed_type
from lakeconf.catalog.file_footers import check_decimals
from lakeconf.config.toml_text import dotted, toml_value
from lakeconf.connection.connection import fetched
from lakeconf.engines.lossless import FLOATS
from lakeconf.errors import PipelineError, SchemaError, listed, storage_errors
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.file_values import (
    DATED,
    INTEGERS,
    ZONED,
    filled,
    has_repeated_key,
    has_unknown_value,
    is_guessed,
    is_rewritten,
    read_as,
    replaced,
    rounds,
)
from lakeconf.pipelines.models.kinds import Append, Seed
from lakeconf.pipelines.models.model import Model
from lakeconf.sql import files_sql, folded, identifier, literal
from lakeconf.write.ddl import type_sql

KeyPath: TypeAlias = tuple[str, ...]
# A number in JSON with more than 15 digits and a point, or with an exponent.
_DIGITS = "|".join(
    [r"\d{8,}", *(rf"\d{{{count},}}\.\d{{{max(16 - count, 1)},}}" for count in range(1, 17)), r"\d[eE][+-]?\d"]
)
_CSV = ("union_by_name = true", "header = true", "quote = '\"'", "escape = '\"'", "skip = 0", "comment = ''")
READERS = {"parquet": "read_parquet", "csv": "read_csv", "json": "read_json"}
_DELIMITER = re.compile(r"[,;|\t]")
# The column of a reader that names the file of a row.
_FILE = "lakeconf_file"


def unknown_json_keys(types: Mapping[str, str]) -> str:
    """Returns the SQL of a list with the paths of the keys in the object `json` that columns lack, as lists of names.

    DuckDB matches keys exactly, so a key that differs in case is unknown.
    """
    paths = [_unknown_in((), "$", types, is_many=False)]
    for name, kind in types.items():
        paths += _unknown_below(parsed_type(kind), (name,), f'$."{name}"', is_many=False)
    return f"list_concat({', '.join(paths)})"


def _unknown_below(kind: DuckDBPyType, path: KeyPath, place: str, *, is_many: bool) -> Iterator[str]:
    """Yields the SQL for each struct in a type; `place` is its path in JSON, which may find many values."""
    fields = _inner(kind)
    if kind.id == "struct":
        yield _unknown_in(path, place, fields, is_many=is_many)
        for name, inner in fields.items():
            yield from _unknown_below(inner, (*path, name), f'{place}."{name}"', is_many=is_many)
    else:
        # A list has its elements at [*], an object its values at .*, and any other value has nothing there.
        every = ".*" if kind.id == "map" else "[*]"
        for name, inner in fields.items():
            yield from _unknown_below(inner, (*path, name), f"{place}{every}", is_many=True)


def _unknown_in(path: KeyPath, place: str, fields: Collection[str], *, is_many: bool) -> str:
    if any('"' in name for name in path):
        raise PipelineError(
            f"the keys of the field {path_text(path)!r} cannot be checked, because its name has a quotation mark",
            hint="declare it as JSON in columns, and take its values in the SQL of the model",
        )
    # `json_keys` returns no keys for other values than objects, and one list for each of many values.
    keys = f"json_keys(json, {literal(place)})"
    keys = f"flatten({keys})" if is_many else keys
    unknown = f"list_filter({keys}, lambda key: key NOT IN ({', '.join(map(literal, fields))}))"
    return f"list_transform({unknown}, lambda key: [{', '.join([*map(literal, path), 'key'])}])"


def unknown_fields(source: Mapping[str, str], target: Mapping[str, str]) -> Iterator[tuple[KeyPath, str]]:
    """Yields the fields of structs in columns that a cast would leave out, each with its DuckDB type."""
    for name, kind in target.items():
        yield from _missing(parsed_type(source[name]), parsed_type(kind), (name,))


def path_text(path: KeyPath) -> str:
    """Returns a path as messages show it: `s.key`, `list[].key`."""
    return ".".join(path).replace(".[]", "[]")


def _inner(kind: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """The fields of a struct, or the values of a list or map under the name `[]`; empty for other types."""
    parts = fields_of(kind)
    if kind.id == "struct" or not parts:
        return parts
    return {"[]": parts["value" if kind.id == "map" else "element"]}


def _missing(source: DuckDBPyType, target: DuckDBPyType, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if target.id not in NESTED_IDS:  # such as VARCHAR or JSON, which hold the whole value
        return
    by_name = {folded(name): part for name, part in _inner(target).items()}
    for name, part in _inner(source).items():
        if folded(name) in by_name:
            yield from _missing(part, by_name[folded(name)], (*path, name))
        elif source.id == target.id == "struct":
            yield (*path, name), str(part)


def _value(files: ModelFiles, path: str, column: str, text: str) -> str:
    return f"{files.place}the column {column!r} of {files.named(path)} has the value {text!r}"


def _guess(files: ModelFiles, path: str, column: str, text: str, kind: str) -> SchemaError:
    """Returns the error about a string."""
    message = f"{_value(files, path, column, text)}, which is no {kind}"
    type_id = parsed_type(kind).id
    if type_id in INTEGERS:
        return _of_column(column, message, f"declare its type in columns: VARCHAR keeps it, {kind} makes it a number")
    if type_id not in ZONED and re.search("[A-Za-z+-]", text.partition(":")[2]):
        zoned = "VARCHAR" if type_id == "time" else "TIMESTAMP WITH TIME ZONE"
        return _of_column(column, f"{message}: it has an offset from UTC", f"declare it as {zoned} in columns")
    if type_id not in DATED:
        return _of_column(column, message, "declare it as VARCHAR in columns, or change it in the file")
    conversion = f"CAST(strptime({identifier(column)}, '%d/%m/%Y') AS {kind})"
    hint = f"write 2024-01-31 in the file; or declare it as VARCHAR in columns, and convert it in SQL: {conversion}"
    return _of_column(column, f"{message} in ISO 8601", hint)


@dataclass(frozen=True)
class ModelFiles:
    """Files of one type that a model loads together."""

    model: Model
    names: Sequence[str]  # the files as messages name them: relative to the folder of the model, or URIs
    columns: Mapping[str, str]  # the columns of the model and their DuckDB types; empty to infer them
    inferred: Collection[str] = ()  # those of `columns` whose type was inferred
    # The columns of the files and the types that DuckDB infers; empty until a read has asked for them, which is a
    # request for each file in a bucket.
    file_types: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def paths(self) -> list[str]:
        """Absolute paths or URIs."""
        return [name if "://" in name else str(self.model.folder / name) for name in self.names]

    @property
    def place(self) -> str:
        """The start of a message about the declared columns."""
        return self.model.at("columns") if self.columns else ""

    def named(self, path: str) -> str:
        """Returns a file as messages name it."""
        return dict(zip(self.paths, self.names, strict=True)).get(path, path)

    @property
    def ending(self) -> str:
        """The file extension in lower case."""
        endings = {path.rpartition("/")[2].rpartition(".")[2].lower() for path in self.paths}
        if len(endings) != 1 or not endings <= READERS.keys():
            together = " together" if len(endings) > 1 else ""
            raise PipelineError(
                f"files that end in {', '.join(sorted(endings))} cannot be loaded{together}",
                hint=f"use files of one type: {', '.join(READERS)}",
            )
        return next(iter(endings))

    def source(self, types: Mapping[str, str], *, with_file: bool = False, only: str | None = None) -> str:
        """Returns the SQL of the reader."""
        paths = self.paths if only is None else [only]
        struct = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in types.items())
        options = {
            # Without the first, a column that the first file lacks is left out. Without the others, DuckDB takes names
            # such as `t` for values and apostrophes for quotes, and leaves out lines above one with more columns and
            # those that begin with #.
            "csv": [*_CSV, *([f"types = {{{struct}}}"] if struct else [])],
            "json": [f"columns = {{{struct}}}"] if struct else [],
            "parquet": ["union_by_name = true"],
        }[self.ending]
        file = [f"filename = {literal(_FILE)}"] if with_file else []
        return files_sql(READERS[self.ending], paths, *options, *file)


def files_of(model: Model, files: Sequence[str]) -> ModelFiles | None:
    """Returns the files that a run of a model reads; None if it reads tables only."""
    if isinstance(model.kind, Seed):
        return ModelFiles(model, [model.kind.csv], model.kind.columns)
    return ModelFiles(model, files, model.kind.columns) if isinstance(model.kind, Append) and files else None


def read_files(files: ModelFiles, lake: Lake) -> nw.LazyFrame[Any]:
    """Returns the rows of files as a lazy frame. `check_files` then checks the values."""
    ending = files.ending
    _check_paths(files)
    columns = {name: type_sql(name, kind) for name, kind in files.columns.items()}
    if not columns:
        if ending == "parquet":
            return lake.read_parquet(files.paths)
        rows = lake.sql(f"FROM {files.source({})}")
        files.file_types.update(_types(files, rows))
        casts = _casts_of_empty(files, lake)
        return lake.sql(f"SELECT * REPLACE ({', '.join(casts)}) FROM {files.source({})}") if casts else rows
    # The columns of JSON files are those of their rows: see `check_files`.
    names = {name: name for name in columns} if ending == "json" else _matched(files, lake, columns)
    # The reader guesses times, and takes parts of those with a time zone as NULL: a cast of the text does neither.
    texts = {"time": "VARCHAR"}
    if ending == "json":  # a number is a DOUBLE, of which only the text has the digits of the file
        texts["decimal"] = "VARCHAR"
    read = {name: replaced(columns[name], **texts) for name in names}
    source = files.source({names[name]: kind for name, kind in read.items()})
    values = {name: identifier(names[name]) if name in names else "NULL" for name in columns}
    for name in names if ending == "parquet" else ():
        if parsed_type(files.file_types[names[name]]).id in FLOATS and parsed_type(columns[name]).id == "decimal":
            values[name] = f"CAST({values[name]} AS VARCHAR)"  # for the same reason
    selected = ", ".join(f"CAST({values[name]} AS {kind}) AS {identifier(name)}" for name, kind in columns.items())
    return lake.sql(f"SELECT {selected} FROM {source}")


def _casts_of_empty(files: ModelFiles, lake: Lake) -> list[str]:
    """The SQL of columns without a value, from which DuckDB has inferred no type, with their types in the table."""
    model = files.model
    # The SQL of a model takes the columns as DuckDB reads them.
    if not isinstance(model.kind, Append) or model.body is not None or model.table not in lake.tables():
        return []
    unknown, casts, checks = "VARCHAR" if files.ending == "csv" else "JSON", [], []
    stored = lake.table(model.table).schema
    for name, column in _names(files.file_types, stored).items():
        kind = parsed_type(files.file_types[column])
        wanted = filled(kind, parsed_type(stored[name]), unknown)
        if wanted != str(kind):
            value = "NULL" if str(kind) == unknown else identifier(column)
            casts.append(f"CAST({value} AS {wanted}) AS {identifier(column)}")
            checks.append(f"count(*) FILTER ({has_unknown_value(identifier(column), kind, unknown)})")
    if not casts:
        return []
    ((*counts,),) = sql_rows(lake, f"SELECT {', '.join(checks)} FROM {files.source({})}")
    return [cast for cast, count in zip(casts, counts, strict=True) if not count]


def check_files(files: ModelFiles, lake: Lake) -> None:
    """Checks that `read_files` changes no value and leaves out no key of a JSON file. It reads the files."""
    columns = {name: type_sql(name, kind) for name, kind in files.columns.items()}
    file_types = dict(files.file_types)
    if files.ending == "json":
        source = files_sql("read_json_objects", files.paths, f"filename = {literal(_FILE)}")
        if columns:
            keys = f"SELECT {_FILE}, unnest({unknown_json_keys(columns)}) AS name FROM {source}"
            for file, path in sql_rows(lake, f"FROM ({keys}) LIMIT 1"):
                raise _left_out(files, file, (tuple(path), "VARCHAR"))
        _check_digits(files, lake, source, columns or file_types)
    if files.ending == "parquet":
        every = file_types or _file_types(lake, files)
        if columns:  # else `Lake.read_parquet` has checked them
            check_decimals(lake._session.reader.connection, files.paths, every.values())  # noqa: SLF001 - not for users
        _check_floats(files, lake, every)
        if columns:
            pairs = {name: (every[file_column], columns[name]) for name, file_column in _names(every, columns).items()}
        else:
            pairs = {name: (kind, kind) for name, kind in every.items() if "MAP(" in kind}
    else:
        target = columns or file_types
        names = _names(file_types, target) if files.ending == "csv" else {name: name for name in target}
        # The text of a value, or a type that holds more digits.
        pairs = {name: (read_as(target[name]), target[name]) for name in names}
        file_types = {names[name]: kind for name, (kind, _) in pairs.items()}
    _check_values(files, lake, file_types, pairs)


def _check_values(
    files: ModelFiles, lake: Lake, file_types: Mapping[str, str], pairs: Mapping[str, tuple[str, str]]
) -> None:
    """Rejects values that another type would change."""
    whens, checked = [], set()
    for check in (is_guessed, is_rewritten, rounds, has_repeated_key):
        for name, kinds in pairs.items():
            is_inferred = files.ending == "csv" and (not files.columns or name in files.inferred)
            condition = check(identifier(name), *kinds) if check is not is_rewritten or is_inferred else None
            if condition is not None:
                what = f"[{literal(name)}, CAST({identifier(name)} AS VARCHAR), {literal(check.__name__)}]"
                whens.append(f"WHEN {condition} THEN {what}")
                checked.add(name)
    if not checked:
        return
    types = (
        file_types
        if files.ending == "json"
        else {file_column: file_types[file_column] for file_column in _names(file_types, sorted(checked)).values()}
    )
    source = files.source({} if files.ending == "parquet" else types, with_file=True)
    rows = f"SELECT {_FILE}, CASE {' '.join(whens)} END FROM {source}"
    for path, (name, value, check) in sql_rows(
        lake, f"FROM ({rows}) AS r(file, found) WHERE found IS NOT NULL LIMIT 1"
    ):
        error = {rounds.__name__: _rounding, has_repeated_key.__name__: _repeated_key}.get(check, _guess)
        raise error(files, path, name, value, pairs[name][1])


def _check_floats(files: ModelFiles, lake: Lake, every: Mapping[str, str]) -> None:
    """Rejects Parquet files of which one has floats in a column and another one numbers that DOUBLE would round."""
    if len(files.paths) == 1:
        return
    floats = {folded(name): kind for name, kind in every.items() if re.search("FLOAT|DOUBLE", kind)}
    for path in files.paths if floats else ():
        for name, kind in _file_types(lake, files, path).items():
            if folded(name) in floats and _has_no_float(parsed_type(kind), parsed_type(floats[folded(name)])):
                what = f"{files.place}the column {name!r} of {files.named(path)} is a {kind}"
                hint = "write the column with one type in all files"
                raise _of_column(name, f"{what}, and DuckDB would read it as {floats[folded(name)]}", hint)


def _has_no_float(source: DuckDBPyType, read: DuckDBPyType) -> bool:
    """True if a type has a number in a place where another one has a float."""
    if read.id in FLOATS:
        return source.id not in FLOATS
    inner = {folded(name): part for name, part in _inner(read).items()}
    return any(
        _has_no_float(part, inner[folded(name)]) for name, part in _inner(source).items() if folded(name) in inner
    )


def _check_paths(files: ModelFiles) -> None:
    """Rejects folders, and files without a single byte, which have no columns."""
    for name, path in zip(files.names, files.paths, strict=True):
        if "://" in path:
            continue
        if Path(path).is_dir():
            raise PipelineError(
                f"{name} is a folder, not a file",
                hint=f'write files = "{name}/*.{files.ending}" to load the files in it, or rename the folder',
            )
        if files.ending == "csv" and os.path.exists(path):
            hint = "check the permissions of the file"
            with storage_errors(f"the file {name} cannot be read", hint=hint), open(path, "rb") as file:
                first = file.read(4).removeprefix(b"\xef\xbb\xbf")[:1]
            if first in (b"\r", b"\n"):  # DuckDB would take the names below it for values
                hint = "write the names of the columns in the first line"
                raise PipelineError(f"the first line of the file {name} is empty", hint=hint)
        is_empty = os.path.exists(path) and os.path.getsize(path) == 0
        if is_empty and not (files.ending == "json" and files.columns):
            raise PipelineError(
                f"the file {name} is empty: it has no columns", hint="delete it, or write it again with its columns"
            )


def _matched(files: ModelFiles, lake: Lake, columns: Mapping[str, str]) -> dict[str, str]:
    """Returns the names of the columns in the files; files may lack a column of the table, whose value is then NULL."""
    file_types = _file_types(lake, files)
    files.file_types.update(file_types)
    names = _names(file_types, columns)
    if _extra(files, file_types, columns):
        each = (
            (path, extra) for path in files.paths for extra in _extra(files, _file_types(lake, files, path), columns)
        )
        raise _left_out(files, *next(each))
    table = files.model.table
    adds = isinstance(files.model.kind, Append) and table in lake.tables()
    kept = set(map(folded, lake.table(table).schema)) if adds else set()
    missing = [name for name in columns if name not in names and folded(name) not in kept]
    if missing:
        raise SchemaError(
            f"{files.place}{listed(files.names)} lacks the column {missing[0]!r} of {files.model.table}",
            hint=f"remove it from columns, or use one of the columns of the file: {', '.join(file_types)}",
        )
    return names


def _extra(files: ModelFiles, file_types: Mapping[str, str], columns: Mapping[str, str]) -> list[tuple[KeyPath, str]]:
    """Returns the columns that are not declared, or else such fields of Parquet files, each with its type."""
    declared = {folded(name) for name in columns}
    extra: list[tuple[KeyPath, str]] = [
        ((name,), kind) for name, kind in file_types.items() if folded(name) not in declared
    ]
    if extra or files.ending != "parquet":
        return extra
    return [
        *unknown_fields(
            file_types, {file_column: columns[name] for name, file_column in _names(file_types, columns).items()}
        )
    ]


def _check_digits(files: ModelFiles, lake: Lake, source: str, columns: Mapping[str, str]) -> None:
    """Rejects numbers of which DuckDB's reader, which takes each one for a DOUBLE, loses digits."""
    kinds = {name: parsed_type(kind) for name, kind in columns.items()}
    exact = [name for name, kind in kinds.items() if kind.id not in FLOATS]
    rows = sql_rows(lake, f"SELECT {_FILE}, json FROM {source} WHERE regexp_matches(json, {literal(_DIGITS)})")
    for file, text in rows:
        row = json.loads(text, parse_float=Decimal)
        for name in exact:
            is_lost = _lost(row.get(name), kinds[name])
            if is_lost or any(Decimal(repr(float(number))) != number for number in _decimals(row.get(name))):
                message = (
                    f"{files.place}the column {name!r} of {files.named(file)} has a number with more than 15 digits"
                )
                hint = "write it as a string, in quotes: DuckDB reads other numbers of JSON as DOUBLE"
                raise _of_column(name, message, hint)


def _lost(value: Any, kind: DuckDBPyType) -> bool:
    """True if a value of JSON has an integer in the place of a float that does not hold it."""
    if isinstance(value, dict | list):
        inner, items = _inner(kind), value.items() if isinstance(value, dict) else (("[]", item) for item in value)
        return any(_lost(item, inner.get(name, inner.get("[]", kind))) for name, item in items)
    if kind.id not in FLOATS or not isinstance(value, int):
        return False
    try:
        return bool(value != (float(value) if kind.id == "double" else struct.unpack("f", struct.pack("f", value))[0]))
    except OverflowError:
        return True


def _decimals(value: Any) -> Iterator[Decimal]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _decimals(item)
    elif isinstance(value, Decimal) and value.is_finite():
        yield value


def _left_out(files: ModelFiles, file: str, unknown: tuple[KeyPath, str]) -> SchemaError:
    path, kind = unknown
    what, others, hint = f"column {path[0]!r}", "columns", f"add {column_key(path[0], kind)} to columns"
    if len(path) > 1:
        what, others = f"field {path_text(path)!r}", "fields"
        hint = f"add {identifier(path[-1])} {kind} to the type of {path_text(path[:-1])!r} in columns"
    if isinstance(files.model.kind, Append):
        hint += f"; to leave it out, select the other {others} FROM files in the SQL of the model"
    named = f"{files.place}{files.named(file)} has the {what}"
    return _of_column(path[0], f"{named}, which is not in columns of {files.model.table}", hint)


def _rounding(files: ModelFiles, path: str, name: str, text: str, kind: str) -> SchemaError:
    whole = "VARCHAR" if files.ending == "csv" else "JSON"
    exact = whole if parsed_type(kind).id in NESTED_IDS else "DECIMAL(38, 10)"
    hint = f"set a type that holds it in columns, such as {column_key(name, exact)}"
    if isinstance(files.model.kind, Append):
        cast = f"SELECT CAST({identifier(name)} AS {kind}) FROM files"
        hint += f"; to round it, also cast it in the SQL of the model: {cast}"
    return _of_column(name, f"{_value(files, path, name, text)}, which its type {kind} would change", hint)


def _repeated_key(files: ModelFiles, path: str, name: str, text: str, _: str) -> SchemaError:
    message = f"{_value(files, path, name, text)}, a map with one key twice"
    return _of_column(name, message, "write each key once; a list of structs can repeat it")


def _of_column(column: str, message: str, hint: str) -> SchemaError:
    error = SchemaError(message, hint=hint)
    error.column = column
    return error


def column_key(name: str, kind: str) -> str:
    """Returns what declares a column in the table `columns` of a model."""
    return f"{dotted((name,))} = {toml_value(kind)}"


def _names(file_types: Mapping[str, str], columns: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Returns the names of wanted columns in the files, ignoring case; those that the files lack are left out."""
    by_name = {folded(name): name for name in file_types}
    return {name: by_name[folded(name)] for name in columns if folded(name) in by_name}


def _file_types(lake: Lake, files: ModelFiles, path: str | None = None) -> dict[str, str]:
    return _types(files, lake.sql(f"FROM {files.source({}, only=path)}"))


def _types(files: ModelFiles, rows: nw.LazyFrame[Any]) -> dict[str, str]:
    """The columns of files and the types that DuckDB infers."""
    relation: Any = nw.to_native(rows)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    # Where lines have different numbers of values, DuckDB takes each line for one value.
    if files.ending == "csv" and len(types) == 1 and _DELIMITER.search(next(iter(types))):
        raise SchemaError(
            f"{files.place}the lines of {listed(files.names)} do not have the same number of values",
            hint="write each line with one value for each column, in quotes if it contains the delimiter",
        )
    return types


def sql_rows(lake: Lake, sql: str, **frames: object) -> list[tuple[Any, ...]]:
    """Returns the rows of a query, which may also read frames."""
    return fetched(lake.sql(sql, **frames), lake._session.writer.secrets)  # noqa: SLF001 - for scrubbing only
