"""SQL as values: identifiers, literals, and the statements that attach a store.

A statement is an immutable object and is rendered last, so that a preview shows exactly what runs. Renderings differ
only in how they write secret values and extensions.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from lakeconf.errors import LakeconfError
from lakeconf.secret import MASK, HiddenText, Secret, shown

_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
Value: TypeAlias = "str | int | float | bool | Secret | Joined | Sequence[Value] | Mapping[str, Value]"
# Readers that take names of folders for values of columns.
_READERS_OF_FOLDERS = frozenset({"read_parquet", "read_csv", "read_json", "read_json_objects"})
# Characters that end the path of a URL, or that servers may read differently: `?s3_endpoint=…` names another server.
# Names of local files have them.
URL_ENDS = r"[\x00-\x1f\x7f\\?#]"
_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\?|\$(?P<number>[0-9]+)""")
# Comments, dollar quotes, named parameters and escapes of E'' strings: such statements keep their parameters.
_OTHER_SYNTAX = re.compile(r"--|/\*|\$(?![0-9])|[0-9]\$|\\|\?[0-9]")


def folded(name: str) -> str:
    """Returns a name in the form in which DuckDB compares names: with ASCII letters in lower case."""
    return name.translate(_ASCII_LOWER)


def spark_folded(name: str) -> str:
    """Returns a name in the form in which Spark compares names if it ignores case: Java folds single characters."""
    return "".join(character.upper()[0].lower()[0] for character in name)


def identifier(name: str) -> str:
    """Returns the name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def qualified(*names: str) -> str:
    """Returns a qualified name, such as a schema and a table, as quoted SQL identifiers."""
    return ".".join(map(identifier, names))


def literal(value: str | float) -> str:
    """Returns the value as an SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    quoted = "'" + value.replace("'", "''") + "'"
    # A NUL character would end the statement.
    return "(" + quoted.replace("\0", "' || chr(0) || '") + ")" if "\0" in value else quoted


def files_sql(function: str, paths: str | Iterable[str], *options: str) -> str:
    """Returns a call of a function that takes patterns of files, such as `read_parquet`, for exactly these paths.

    The rows are those of the files: a folder `day=2024-01-01` gives no column a value.
    """
    plain = ["hive_partitioning = false"] if function in _READERS_OF_FOLDERS else []
    return f"{function}({', '.join([exact_paths(paths), *options, *plain])})"


def exact_paths(paths: str | Iterable[str]) -> str:
    """Returns a path, or a list of paths, as an argument of a function that takes patterns of files."""
    if not isinstance(paths, str):
        return f"[{', '.join(map(exact_paths, paths))}]"
    # DuckDB takes every path for a pattern, but a set of one character only for this character.
    return literal(glob.escape(paths))


def listing_sql(folder: str, pattern: str) -> str:
    """Returns the query for the files in exactly this folder, with a trailing slash, that match a pattern.

    It leaves out keys of a bucket that are not paths of a URL: neither lakeconf nor DuckDB has written them.
    """
    sql = f"SELECT file FROM glob({literal(glob.escape(folder) + pattern)})"  # noqa: S608 - a literal
    if "://" not in folder:
        return sql
    return f"{sql} WHERE NOT regexp_matches(substr(file, {len(folder) + 1}), {literal(URL_ENDS)})"


@dataclass(frozen=True)
class Joined:
    """A value that ends with a secret, such as a connection string."""

    text: str  # the beginning; never a secret
    secret: Secret


class Rendering:
    """Renders values and names; the subclasses differ in how they write secrets and what may contain one."""

    def secret(self, key: str, secret: Secret) -> str:
        """Renders the secret value of the option `key`."""
        raise NotImplementedError

    def text(self, key: str, text: str) -> str:  # noqa: ARG002 - for errors
        """Renders a string of the option `key`, which is not a secret but may contain the value of one."""
        return literal(text)

    def name(self, name: str) -> str:
        """Renders a name as an identifier."""
        return identifier(name)


class Masked(Rendering):
    """Renders valid SQL with `'***'` for each secret."""

    def secret(self, _key: str, _secret: Secret) -> str:
        return literal(MASK)

    def text(self, _key: str, text: str) -> str:
        return literal(shown(text))

    def name(self, name: str) -> str:
        return identifier(shown(name))


class Revealed(Rendering):
    """Renders secret values in clear text, on explicit request."""

    def secret(self, _key: str, secret: Secret) -> str:
        return literal(secret.reveal())


class Running(Rendering):
    """Renders the values with which a connection of another tool is opened now."""

    def secret(self, _key: str, secret: Secret) -> str:
        return literal(secret.for_connection())


class Portable(Rendering):
    """Renders secrets as `getenv('X')`, which the DuckDB CLI resolves; rejects secrets without a variable."""

    def secret(self, key: str, secret: Secret) -> str:
        if secret.variable is None:
            raise LakeconfError(
                f"{key} is no variable, so a portable script would contain its value",
                hint='reference a variable in the configuration, such as "${MY_SECRET}"',
            )
        return f"getenv({literal(secret.variable)})"

    def text(self, key: str, text: str) -> str:
        if not isinstance(text, HiddenText):
            return literal(text)
        if text.variable is None:
            raise LakeconfError(
                f"{key} contains a secret, so a portable script would contain its value",
                hint="use another value, or a single variable",
            )
        return f"getenv({literal(text.variable)})"

    def name(self, name: str) -> str:
        if isinstance(name, HiddenText):
            raise LakeconfError("the alias contains a secret, so a portable script would contain its value")
        return identifier(name)


class Bound(Rendering):
    """Renders `?` for each secret and collects the values in `parameters`."""

    def __init__(self) -> None:
        self.parameters: list[Secret] = []

    def secret(self, _key: str, secret: Secret) -> str:
        self.parameters.append(secret)
        return "?"


class Statement(Protocol):
    """A statement that attaches a store."""

    def render(self, rendering: Rendering) -> str:
        """Returns the SQL text, including the semicolon."""
        ...


def _render_value(key: str, value: Value, rendering: Rendering) -> str:
    if isinstance(value, Secret):
        return rendering.secret(key, value)
    if isinstance(value, str):
        return rendering.text(key, value)
    if isinstance(value, (int, float)):
        return literal(value)
    if isinstance(value, Joined):
        return f"{rendering.text(key, value.text)} || {rendering.secret(key, value.secret)}"
    if isinstance(value, Mapping):
        pairs = (f"{literal(k)}: {_render_value(f'{key}.{k}', v, rendering)}" for k, v in value.items())
        return "MAP {" + ", ".join(pairs) + "}"
    return "[" + ", ".join(_render_value(key, item, rendering) for item in value) + "]"


def _render_options(head: Sequence[str], options: Mapping[str, Value], path: str, rendering: Rendering) -> str:
    rendered = ((key, _render_value(f"{path}.{key}", value, rendering)) for key, value in options.items())
    parts = [*head, *(f"{key.upper()} {text}" for key, text in rendered)]
    return "(" + ", ".join(parts) + ")" if parts else ""


class LoadExtension(NamedTuple):
    """Loads a DuckDB extension."""

    name: str  # the extension's name, such as `postgres_scanner`

    def render(self, rendering: Rendering) -> str:  # noqa: ARG002 - the interface
        return f"LOAD {self.name};"


class SetOption(NamedTuple):
    """Sets a setting of the whole DuckDB instance."""

    name: str  # the name of the setting, such as `ca_cert_file`
    value: str  # its value; never a secret

    def render(self, rendering: Rendering) -> str:
        return f"SET GLOBAL {self.name} = {rendering.text(self.name, self.value)};"


class CreateSecret(NamedTuple):
    """Creates or replaces a DuckDB secret."""

    name: str
    type: str  # DuckDB's type of secret: `postgres`, `s3`, `r2`, `gcs`, `ducklake`
    options: Mapping[str, Value]  # its parameters
    in_motherduck: bool = False  # True to store it in MotherDuck; otherwise, it is temporary in this process
    key: str = ""  # the dotted key of the configuration that `options` come from, for errors

    def render(self, rendering: Rendering) -> str:
        temporary, place = ("", " IN MOTHERDUCK") if self.in_motherduck else ("TEMPORARY ", "")
        options = _render_options([f"TYPE {self.type}"], self.options, self.key or self.name, rendering)
        return f"CREATE OR REPLACE {temporary}SECRET {rendering.name(self.name)}{place} {options};"


class CreateDatabase(NamedTuple):
    """Creates a DuckLake database in MotherDuck if it does not exist."""

    name: str
    options: Mapping[str, Value]  # `DATA_PATH` if the data is in the user's own bucket

    def render(self, rendering: Rendering) -> str:
        options = _render_options(["TYPE DUCKLAKE"], self.options, self.name, rendering)
        return f"CREATE DATABASE IF NOT EXISTS {rendering.name(self.name)} {options};"


class Attach(NamedTuple):
    """Attaches a database."""

    path: str  # the path of ATTACH, such as `ducklake:lakeconf_prod`; never contains a credential
    alias: str | None  # the name of the database in the connection; None if the server determines it
    options: Mapping[str, Value] = MappingProxyType({})  # options of ATTACH
    key: str = ""  # the dotted key of the configuration that `options` come from, for errors

    def render(self, rendering: Rendering) -> str:
        alias = f" AS {rendering.name(self.alias)}" if self.alias is not None else ""
        options = _render_options([], self.options, self.key or self.path, rendering)
        return f"ATTACH {rendering.text('path', self.path)}{alias}{' ' + options if options else ''};"


class Use(NamedTuple):
    """Makes a database the default of the connection."""

    database: str  # its alias

    def render(self, rendering: Rendering) -> str:
        return f"USE {rendering.name(self.database)};"


def bind(statement: Statement) -> tuple[str, list[Secret]]:
    """Renders a statement for execution."""
    rendering = Bound()
    return statement.render(rendering), rendering.parameters


def with_literals(sql: str, parameters: Sequence[object] | None) -> tuple[str, Sequence[object] | None]:
    """Replaces each `?` or `$1` of a statement by its value, if all values are strings, integers, booleans or None."""
    if not parameters:
        return sql, parameters
    values = [_value(parameter) for parameter in parameters]
    numbers = _numbers(sql)
    if None in values or numbers is None or set(numbers) != set(range(len(values))):
        return sql, parameters
    rest = iter(numbers)
    return _PARTS.sub(lambda part: part[0] if part[0][0] in "'\"" else str(values[next(rest)]), sql), None


def literal_query(sql: str, parameters: Sequence[object]) -> str | None:
    """Returns a query as a literal, with its values in it; None if a value can only be bound."""
    text, unbound = with_literals(sql, parameters)
    return None if unbound else literal(text)


def _numbers(sql: str) -> Sequence[int] | None:
    """The number of the value of each parameter, counted from zero; None if they cannot be told."""
    if _OTHER_SYNTAX.search(sql):
        return None
    marks = [part for part in _PARTS.finditer(sql) if part[0][0] in "?$"]
    numbered = [int(part["number"]) - 1 for part in marks if part["number"]]
    if numbered and len(numbered) != len(marks):
        return None
    return numbered or range(len(marks))


def _value(value: object) -> str | None:
    """A value as SQL of the type that the bound value would have; None if it must be bound."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return literal(value)
    if type(value) is int:
        return f"({value})"
    if type(value) is str and "\0" not in value:
        return f"CAST({literal(value)} AS VARCHAR)"
    return None
