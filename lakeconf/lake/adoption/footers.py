"""What the footers of files say that DuckLake would register and then read wrongly, or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lakeconf.connection.connection import Connection
from lakeconf.engines.schema_check import check_names
from lakeconf.errors import LakeconfError, SchemaError, UnsupportedError
from lakeconf.sql import files_sql, folded

_SCHEMA = """
    SELECT file_name, name, type, repetition_type, coalesce(num_children, 0), converted_type, field_id
    FROM {source}
"""
# DuckLake's own fields have ids from here on: row ids, snapshot ids and positions.
_FIRST_INTERNAL = 2147483539
# Names of a repeated group that make it the element of its list, by the rules of Parquet for older writers.
_OLD_ELEMENTS = ("array", "_tuple")
WRITE_AGAIN = "write the rows to new files, or load them: lakeconf load, or a model of the kind append"
_HIDING = ("filename", "file_row_number", "rowid", "snapshot_id")


class Field(NamedTuple):
    """A field of the schema of a file."""

    name: str
    kind: str | None  # the physical type; None for a group
    repetition: str | None
    meaning: str | None  # the converted type, such as LIST
    field_id: int | None
    fields: tuple[Field, ...]  # those of a group

    @property
    def is_internal(self) -> bool:
        """True for a hidden field of DuckLake."""
        return (self.field_id or 0) >= _FIRST_INTERNAL


def schemas_of(connection: Connection, paths: Sequence[str]) -> dict[str, tuple[Field, ...]]:
    """The columns of each file, as its footer has them."""
    fields: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    try:
        rows = connection.rows(_SCHEMA.format(source=files_sql("parquet_schema", paths)))
    except LakeconfError as error:
        raise type(error)(f"a file cannot be read: {error.message}", hint=error.hint or WRITE_AGAIN) from error
    for path, *field in rows:
        fields[path].append(tuple(field))
    return {path: _field(iter(fields[path])).fields for path in paths}


def rows_in(connection: Connection, paths: Sequence[str]) -> int:
    """The number of rows in some files, as their footers have it."""
    if not paths:
        return 0
    counts = connection.rows(f"SELECT num_rows FROM {files_sql('parquet_file_metadata', paths)}")
    return sum(int(count) for (count,) in counts)


def check_schemas(schemas: Mapping[str, tuple[Field, ...]]) -> None:
    """Rejects files whose columns DuckLake cannot read, or that do not have the same columns."""
    first_path, first = next(iter(schemas.items()))
    wanted = {folded(field.name): field.name for field in first}
    for path, columns in schemas.items():
        own = {folded(field.name) for field in columns}
        if len(own) < len(columns):
            raise SchemaError(f"{path} has two columns of one name", hint=WRITE_AGAIN)
        different = own ^ wanted.keys()
        if different:
            raise SchemaError(
                f"the files do not have the same columns: only one of {first_path} and {path} has {min(different)!r}, "
                "and DuckLake takes a missing column for one without NULLs",
                hint=WRITE_AGAIN,
            )
    for columns in dict.fromkeys(schemas.values()):
        path = next(path for path, other in schemas.items() if other == columns)
        check_names([field.name for field in columns])
        for field in columns:
            _check_field(path, field, field.name)
            if folded(field.name) in _HIDING:
                raise UnsupportedError(
                    f"the column {field.name!r} hides a column of DuckLake with the same name",
                    hint="rename the column in the files",
                )


def _check_field(path: str, field: Field, shown: str) -> None:
    """Rejects what DuckLake would read wrongly: DuckDB would fail, and then accept no other statement."""
    problem = None
    if field.kind == "INT96":
        problem = "is an INT96, which has no time zone and no bounds"
    elif field.is_internal:
        problem = "is one of the hidden columns of another lake"
    elif field.repetition == "REPEATED":
        problem = "is repeated without being a list"
    elif field.meaning in ("LIST", "MAP", "MAP_KEY_VALUE") and not _is_standard(field):
        problem = f"is a {(field.meaning or '').lower()} as only older writers store it"
    if problem is not None:
        raise UnsupportedError(f"the column {shown!r} of {path} {problem}", hint=WRITE_AGAIN)
    inner = field.fields[0].fields if field.meaning in ("LIST", "MAP", "MAP_KEY_VALUE") else field.fields
    for part in inner:
        _check_field(path, part, f"{shown}.{part.name}")


def _is_standard(field: Field) -> bool:
    if len(field.fields) != 1 or field.fields[0].repetition != "REPEATED":
        return False
    repeated = field.fields[0]
    if field.meaning != "LIST":
        return len(repeated.fields) == 2
    return len(repeated.fields) == 1 and not repeated.name.endswith(_OLD_ELEMENTS)


def _field(rows: Iterator[tuple[object, ...]]) -> Field:
    """The next field of a schema, with the fields below it, from rows in the order of a walk."""
    name, kind, repetition, count, meaning, field_id = next(rows)
    fields = tuple(_field(rows) for _ in range(int(str(count))))
    return Field(
        str(name),
        None if fields or kind is None else str(kind),
        None if repetition is None else str(repetition),
        None if meaning is None else str(meaning),
        None if field_id is None else int(str(field_id)),
        fields,
    )
