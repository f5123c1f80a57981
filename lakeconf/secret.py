"""Secret values that are never shown, and functions that mask secrets in text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakeconf.secret_forms import without

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

MASK = "***"


class FromVariable(str):
    """A string that is the value of a single environment variable."""

    __slots__ = ("variable",)
    variable: str

    def __new__(cls, value: str, variable: str) -> FromVariable:
        text = super().__new__(cls, value)
        text.variable = variable
        return text


class HiddenText(str):
    """A string that contains a secret value but is not configured as a secret; `repr` masks it.

    Attributes:
        shown: The string with `***` for the secret.
        variable: The environment variable whose value it is; None if it is not the value of a single variable.
    """

    __slots__ = ("shown", "variable")
    shown: str
    variable: str | None

    def __new__(cls, value: str, shown: str, variable: str | None = None) -> HiddenText:
        text = super().__new__(cls, value)
        text.shown, text.variable = shown, variable
        return text

    def __repr__(self) -> str:
        return repr(self.shown)

    def __reduce__(self) -> tuple[object, ...]:
        if self.variable is not None:
            return (_from_environment_hidden, (self.shown, self.variable))
        return (HiddenText, (str(self), self.shown))


class Secret:
    """A password, key or token: `str`, `repr` and `format` return `***`; only `reveal()` returns the value.

    Args:
        value: The value; must not be empty.
        variable: The environment variable whose value it is, if it is the value of a single variable.

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
        """Returns the value."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __eq__(self, other: object) -> bool:
        import hmac

        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[object, ...]:
        if self.variable is None:
            raise TypeError(
                "a Secret is pickled as the name of its environment variable, but this one did not come from one: "
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
    """Clear-text settings for another tool; `repr` and `str` show `***` for secret values.

    Args:
        settings: Names and values; each `Secret` is revealed.

    Attributes:
        secret_keys: The names of settings with secret values.
    """

    def __init__(self, settings: Mapping[str, str | Secret]) -> None:
        super().__init__({k: v.reveal() if isinstance(v, Secret) else v for k, v in settings.items()})
        secrets = [value for value in settings.values() if isinstance(value, Secret)]
        self.secret_keys = frozenset(key for key, value in settings.items() if isinstance(value, Secret))
        # Names and other values may contain a secret's value, such as the name of a bucket.
        self._shown = {text: masked(text, secrets) for item in self.items() for text in item}

    def __repr__(self) -> str:
        shown = {
            self._shown.get(key, key): MASK if key in self.secret_keys else self._shown.get(value, value)
            for key, value in self.items()
        }
        return repr(shown)

    __str__ = __repr__


def _validate(value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return Secret(value, variable=getattr(value, "variable", None))


def _from_environment(variable: str) -> Secret:
    return Secret(os.environ[variable], variable=variable)


def _from_environment_hidden(shown: str, variable: str) -> HiddenText:
    return HiddenText(os.environ[variable], shown, variable)


def hidden(value: Any, secrets: Iterable[Secret]) -> Any:
    """Replaces every string that contains a secret with a `HiddenText`.

    Args:
        value: A string, or mappings and sequences of strings; other values are returned unchanged.
        secrets: The secrets. Parts of a string are masked by the rules of `scrub`: the gap in a known name, such as
            `***conf_prod`, would reveal a short secret.
    """
    secrets = tuple(secrets)
    if isinstance(value, Mapping):
        return {key: hidden(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        made = [hidden(item, secrets) for item in value]
        return made if isinstance(value, list) else tuple(made)
    if not isinstance(value, str) or isinstance(value, HiddenText):
        return value
    same = [secret for secret in secrets if secret.reveal() == value]
    if same:
        return HiddenText(value, MASK, next((one.variable for one in same if one.variable is not None), None))
    shown = scrub(value, secrets)
    return value if shown == value else HiddenText(value, shown)


def shown(value: str) -> str:
    """Returns the text to print: masked if it is a `HiddenText`."""
    return value.shown if isinstance(value, HiddenText) else value


def masked(text: str, secrets: Iterable[Secret]) -> str:
    """Returns the text with `***` for each secret in it. See `hidden`."""
    return shown(hidden(text, secrets))


def scrub(text: str, secrets: Iterable[Secret]) -> str:
    """Masks the values of `secrets` in a text, including values encoded for SQL, URLs, JSON, XML or Python.

    Args:
        text: Text of another program, such as an error message of DuckDB.
        secrets: The secrets to mask. Short ones are only masked as whole values; see `lakeconf.secret_forms`.

    Returns:
        The text with `***` for each secret.
    """
    for secret in sorted(set(secrets), key=lambda one: len(one.reveal()), reverse=True):
        text = without(text, secret.reveal())
    return text
