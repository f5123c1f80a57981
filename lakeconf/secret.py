"""A value that never shows itself, and the scrubber for text that comes from elsewhere."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

MASK = "***"


class FromVariable(str):
    """A text that an environment variable gave, and nothing but that variable."""

    __slots__ = ("variable",)
    variable: str

    def __new__(cls, value: str, variable: str) -> FromVariable:
        text = super().__new__(cls, value)
        text.variable = variable
        return text


class Secret:
    """A password, key or token: `str`, `repr` and `format` give `***`, and only `reveal()` the value.

    Args:
        value: The value; must not be empty.
        variable: The environment variable that it came from, where it came from one alone.

    Raises:
        ValueError: The value is empty.
    """

    __slots__ = ("_value", "variable")

    def __init__(self, value: str, *, variable: str | None = None) -> None:
        if not value:
            raise ValueError("a secret must not be empty")
        self._value = str(value)
        self.variable = variable

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[object, ...]:
        if self.variable is None:
            raise TypeError(
                "a Secret pickles only as the name of its environment variable, and this one came from none: "
                'write it as "${VARIABLE}" in lakeconf.toml'
            )
        return (_from_environment, (self.variable,))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _memo: object) -> Secret:
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(_validate, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "format": "password", "writeOnly": True}


class Settings(dict[str, str]):
    """Settings of another tool, in clear because it needs them so; shown with `***` where a value is secret.

    Args:
        settings: Names and values; a `Secret` is revealed.

    Attributes:
        secret_keys: The names whose values are secret.
    """

    def __init__(self, settings: Mapping[str, str | Secret]) -> None:
        super().__init__({k: v.reveal() if isinstance(v, Secret) else v for k, v in settings.items()})
        self.secret_keys = frozenset(key for key, value in settings.items() if isinstance(value, Secret))

    def __repr__(self) -> str:
        return repr({key: MASK if key in self.secret_keys else value for key, value in self.items()})

    __str__ = __repr__


def _validate(value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("should be a text")
    if "\0" in value:
        raise ValueError("must not hold a NUL character")
    return Secret(value, variable=getattr(value, "variable", None))


def _from_environment(variable: str) -> Secret:
    return Secret(os.environ[variable], variable=variable)


def scrub(text: str, secrets: Iterable[Secret]) -> str:
    """The text without the values of `secrets`, also where they stand escaped as an SQL literal.

    Args:
        text: Text that somebody else made, such as an error message of DuckDB.
        secrets: The secrets that it may hold.

    Returns:
        The text with `***` in place of each.
    """
    values = {secret.reveal() for secret in secrets}
    for value in sorted(values | {value.replace("'", "''") for value in values}, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text
