"""SQL as values: identifiers, literals, and the statements that set up a store.

A statement is a small frozen object, and rendering is the last step, so that what is previewed is what is run.
The renderings differ in one thing: what stands where a secret value is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from lakeconf.errors import LakeconfError
from lakeconf.secret import MASK, HiddenText, Secret, shown

_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

Value: TypeAlias = "str | int | float | bool | Secret | Sequence[Value] | Mapping[str, Value]"


def folded(name: str) -> str:
    """A name in the form by which DuckDB compares names: of its letters, only those of ASCII are lowered."""
    return name.translate(_ASCII_LOWER)


def identifier(name: str) -> str:
    """The name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | float) -> str:
    """The value as an SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return "'" + value.replace("'", "''") + "'"


class Rendering(Protocol):
    """How secret values and extensions are written."""

    install: bool

    def secret(self, key: str, secret: Secret) -> str:
        """The text that stands for the secret value of the option `key`."""
        ...

    def text(self, key: str, text: str) -> str:
        """The literal for a text of the option `key` that is no secret, but may hold the value of one."""
        ...

    def name(self, name: str) -> str:
        """The identifier for a name."""
        ...


class _Clear:
    """Texts and names as they are."""

    def text(self, _key: str, text: str) -> str:
        return literal(text)

    def name(self, name: str) -> str:
        return identifier(name)


class Masked:
    """Valid SQL with `'***'` in place of each secret."""

    install = False

    def secret(self, _key: str, _secret: Secret) -> str:
        return literal(MASK)

    def text(self, _key: str, text: str) -> str:
        return literal(shown(text))

    def name(self, name: str) -> str:
        return identifier(shown(name))


class Revealed(_Clear):
    """The secret values in clear, for a person who asked to see them."""

    install = False

    def secret(self, _key: str, secret: Secret) -> str:
        return literal(secret.reveal())


class Portable:
    """Secrets as `getenv('X')`, which the DuckDB CLI resolves; refuses a secret that came from no variable."""

    install = True

    def secret(self, key: str, secret: Secret) -> str:
        if secret.variable is None:
            raise LakeconfError(
                f"{key} is written as a literal, so a portable script would show it",
                hint='give it as a variable, such as "${MY_SECRET}", in the configuration',
            )
        return f"getenv({literal(secret.variable)})"

    def text(self, key: str, text: str) -> str:
        if not isinstance(text, HiddenText):
            return literal(text)
        if text.variable is None:
            raise LakeconfError(
                f"{key} holds a value that is a secret elsewhere, so a portable script would show it",
                hint="give it another value, or one variable alone",
            )
        return f"getenv({literal(text.variable)})"

    def name(self, name: str) -> str:
        if isinstance(name, HiddenText):
            raise LakeconfError("an alias is the value of a secret, so a portable script would show it")
        return identifier(name)


class Bound(_Clear):
    """`?` for each secret, whose values are collected in `parameters`."""

    install = False

    def __init__(self) -> None:
        self.parameters: list[Secret] = []

    def secret(self, _key: str, secret: Secret) -> str:
        self.parameters.append(secret)
        return "?"


class Statement(Protocol):
    """One step of the set-up of a store."""

    def render(self, rendering: Rendering) -> str:
        """The SQL text, with the semicolon."""
        ...


def _render_value(key: str, value: Value, rendering: Rendering) -> str:
    if isinstance(value, Secret):
        return rendering.secret(key, value)
    if isinstance(value, str):
        return rendering.text(key, value)
    if isinstance(value, (int, float)):
        return literal(value)
    if isinstance(value, Mapping):
        pairs = (f"{literal(k)}: {_render_value(f'{key}.{k}', v, rendering)}" for k, v in value.items())
        return "MAP {" + ", ".join(pairs) + "}"
    return "[" + ", ".join(_render_value(key, item, rendering) for item in value) + "]"


def _render_options(head: Sequence[str], options: Mapping[str, Value], path: str, rendering: Rendering) -> str:
    rendered = ((key, _render_value(f"{path}.{key}", value, rendering)) for key, value in options.items())
    parts = [*head, *(f"{key.upper()} {text}" for key, text in rendered)]
    return "(" + ", ".join(parts) + ")" if parts else ""


class LoadExtension(NamedTuple):
    """Loads a DuckDB extension.

    Attributes:
        name: The extension's name, such as `postgres_scanner`.
    """

    name: str

    def render(self, rendering: Rendering) -> str:
        install = f"INSTALL {self.name}; " if rendering.install else ""
        return f"{install}LOAD {self.name};"


class SetOption(NamedTuple):
    """Sets a setting of the whole DuckDB instance.

    Attributes:
        name: Its name, such as `ca_cert_file`.
        value: Its value; never a secret.
    """

    name: str
    value: str

    def render(self, rendering: Rendering) -> str:
        return f"SET GLOBAL {self.name} = {rendering.text(self.name, self.value)};"


class CreateSecret(NamedTuple):
    """Creates or replaces a secret of DuckDB.

    Attributes:
        name: The secret's name.
        type: DuckDB's type of secret: `postgres`, `s3`, `r2`, `gcs`, `ducklake`.
        options: Its parameters.
        in_motherduck: True where MotherDuck keeps it; a temporary secret of this process otherwise.
        key: The dotted key of the configuration that `options` come from, for errors.
    """

    name: str
    type: str
    options: Mapping[str, Value]
    in_motherduck: bool = False
    key: str = ""

    def render(self, rendering: Rendering) -> str:
        temporary, place = ("", " IN MOTHERDUCK") if self.in_motherduck else ("TEMPORARY ", "")
        options = _render_options([f"TYPE {self.type}"], self.options, self.key or self.name, rendering)
        return f"CREATE OR REPLACE {temporary}SECRET {rendering.name(self.name)}{place} {options};"


class CreateDatabase(NamedTuple):
    """Creates a DuckLake database on MotherDuck where it does not exist.

    Attributes:
        name: The database's name.
        options: `DATA_PATH` where the bucket is the user's own.
    """

    name: str
    options: Mapping[str, Value]

    def render(self, rendering: Rendering) -> str:
        options = _render_options(["TYPE DUCKLAKE"], self.options, self.name, rendering)
        return f"CREATE DATABASE IF NOT EXISTS {rendering.name(self.name)} {options};"


class Attach(NamedTuple):
    """Attaches a database.

    Attributes:
        path: What stands after ATTACH, such as `ducklake:lakeconf_prod`; never holds a credential.
        alias: The name of the database in the connection; None where the server gives it.
        options: Options of ATTACH.
        key: The dotted key of the configuration that `options` come from, for errors.
    """

    path: str
    alias: str | None
    options: Mapping[str, Value] = MappingProxyType({})
    key: str = ""

    def render(self, rendering: Rendering) -> str:
        alias = f" AS {rendering.name(self.alias)}" if self.alias is not None else ""
        options = _render_options([], self.options, self.key or self.path, rendering)
        return f"ATTACH {rendering.text('path', self.path)}{alias}{' ' + options if options else ''};"


class Use(NamedTuple):
    """Makes a database the connection's default.

    Attributes:
        database: Its alias.
    """

    database: str

    def render(self, rendering: Rendering) -> str:
        return f"USE {rendering.name(self.database)};"


def bind(statement: Statement) -> tuple[str, list[Secret]]:
    """The statement as it is executed.

    Returns:
        The text with `?` for each secret, and the values to bind.
    """
    rendering = Bound()
    return statement.render(rendering), rendering.parameters
