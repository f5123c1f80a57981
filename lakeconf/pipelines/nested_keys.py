"""Keys of structs in files that the declared types lack: DuckDB leaves them out without an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TypeAlias

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.types import parsed_type
from lakeconf.sql import folded, literal

KeyPath: TypeAlias = tuple[str, ...]
_NESTED = ("struct", "list", "array", "map")


def unknown_json_keys(json: str, types: Mapping[str, str]) -> str:
    """Returns the SQL of a list with the paths of the keys in a JSON object that columns lack, each as a list of names.

    DuckDB matches keys exactly, so a key that differs in case is unknown.

    Args:
        json: The SQL of a value of type JSON.
        types: The DuckDB types of the columns.
    """
    return _unknown_of(json, {name: parsed_type(kind) for name, kind in types.items()}, count())


def unknown_fields(given: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[tuple[KeyPath, str]]:
    """Yields the fields of structs in columns that a cast would leave out, each with its DuckDB type.

    Args:
        given: The types of the columns of a file.
        wanted: The types of the cast, by the names in `given`.
    """
    for name, kind in wanted.items():
        yield from _missing(parsed_type(given[name]), parsed_type(kind), (name,))


def path_text(path: KeyPath) -> str:
    """Returns a path as messages show it: `s.key`, `list[].key`."""
    return ".".join(path).replace(".[]", "[]")


def _inner(kind: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """The fields of a struct, or the values of a list or map under the name `[]`; empty for other types."""
    if kind.id not in _NESTED:
        return {}
    parts = {name: part for name, part in kind.children if isinstance(part, DuckDBPyType)}
    if kind.id == "struct":
        return parts
    return {"[]": parts["value" if kind.id == "map" else "child"]}


def _has_struct(kind: DuckDBPyType) -> bool:
    return kind.id == "struct" or any(map(_has_struct, _inner(kind).values()))


def _missing(given: DuckDBPyType, wanted: DuckDBPyType, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if wanted.id not in _NESTED:  # such as VARCHAR or JSON, which hold the whole value
        return
    known = {folded(name): part for name, part in _inner(wanted).items()}
    for name, part in _inner(given).items():
        if folded(name) in known:
            yield from _missing(part, known[folded(name)], (*path, name))
        elif given.id == wanted.id == "struct":
            yield (*path, name), str(part)


def _unknown(json: str, kind: DuckDBPyType, numbers: Iterator[int]) -> str:
    if kind.id == "struct":
        return _unknown_of(json, _inner(kind), numbers)
    (inner,) = _inner(kind).values()
    # A list has its elements at [*], an object its values at .*, and any other value has nothing there.
    items = f"json_extract({json}, {literal('$.*' if kind.id == 'map' else '$[*]')})"
    item = f"item_{next(numbers)}"
    found = f"flatten(list_transform({items}, lambda {item}: {_unknown(item, inner, numbers)}))"
    return _below("[]", found, numbers)


def _unknown_of(json: str, fields: Mapping[str, DuckDBPyType], numbers: Iterator[int]) -> str:
    key, known = f"key_{next(numbers)}", ", ".join(map(literal, fields))
    # `json_keys` returns no keys for other values than objects.
    own = f"list_transform(list_filter(json_keys({json}), lambda {key}: {key} NOT IN ({known})), lambda {key}: [{key}])"
    # A JSON pointer: a path with $ cannot quote every name.
    inner = [
        _below(name, _unknown(f"json_extract({json}, {literal(_pointer(name))})", kind, numbers), numbers)
        for name, kind in fields.items()
        if _has_struct(kind)
    ]
    return f"list_concat({', '.join([own, *inner])})" if inner else own


def _below(name: str, found: str, numbers: Iterator[int]) -> str:
    path = f"path_{next(numbers)}"
    return f"list_transform({found}, lambda {path}: list_prepend({literal(name)}, {path}))"


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")
