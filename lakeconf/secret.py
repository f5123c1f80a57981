"""Values that are never shown, and how to find one in text of other programs, in any encoding."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, SupportsIndex
from urllib.parse import quote, quote_plus

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


MASK = "***"
# Values of at least this length do not occur in text by chance; the second limit is for values of letters only.
_LONG, _LONG_WORD = 8, 12
_SHORT = 4
_MOST_BACKSLASHES = 4
_BACKSLASHES = re.compile(r"\\{17,}")
# PostgreSQL truncates names to this length, in bytes.
_LONGEST_NAME = 63
# Delimiters around a value, as in `password=…`, `'…'` and `://user:…@host`.
_ASSIGNED, _ASSIGNED_END = r"""(?<=['"`=:/@,;|&?(\[{<>])""", r"""(?![^\s'"`/@,;|&?)\]}<>%\\])"""
_WORD, _WORD_END = "(?<![0-9A-Za-z_])", "(?![0-9A-Za-z_])"
# An encoded character before the value, such as `%3D`.
_ENCODED = r"(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
_PLAIN = re.compile(r"[0-9A-Za-z]+")
_BASE64 = re.compile(r"[0-9A-Za-z+/_-]+=*")
_CONTROL = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a", "\0": "0"}


def without(text: str, value: str) -> str:
    """Replaces a value in a string with `***`.

    A value of 8 characters or more is found anywhere, a shorter one only as a whole word. A value of fewer than 4
    characters, or of fewer than 12 letters only, is found only between quotes or characters such as `=`, `:` and `@`.
    So a password like `lake` does not change sentences and other names.
    """
    if text == value:
        return MASK
    if _is_long(value):
        for form in sorted(_spellings(value), key=len, reverse=True):
            text = text.replace(form, MASK)
    # A long run of backslashes is too ambiguous to match.
    text = _BACKSLASHES.sub(r"\\" * 4, text)
    pieces = _PLAIN.findall(value)
    if all(piece in text for piece in pieces):
        text = re.sub(_placed(value), MASK, text)
    return _without_base64(text, value) if _is_long(value) else text


def _spellings(value: str) -> set[str]:
    """Returns the usual encodings of a value; the pattern alone would treat an escaped quote as a doubled one."""
    escaped = value.replace("\\", "\\\\")
    spellings = {
        *(value, value.replace("'", "''"), value.replace('"', '""'), escaped.replace("'", "\\'")),
        *(json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]),
    }
    with contextlib.suppress(UnicodeEncodeError):
        spellings |= {quote(value), quote(value, safe=""), quote_plus(value)}
        octets = value.encode()
        if len(octets) > _LONGEST_NAME:
            spellings.add(octets[:_LONGEST_NAME].decode(errors="ignore"))
    return spellings


def _is_long(value: str) -> bool:
    return len(value) >= (_LONG_WORD if value.isalpha() else _LONG)


def _placed(value: str) -> str:
    """Returns a pattern for all encodings of a value, with the required delimiters."""
    # Each backslash can also start the next character: with many of them, a string could match in too many ways.
    backslash = r"\\+" if value.count("\\") <= _MOST_BACKSLASHES else r"\\++"
    pattern = "".join(_run(character, len([*same]), backslash) for character, same in groupby(value))
    if _is_long(value):
        return pattern
    if len(value) < _SHORT or value.isalpha():
        return f"(?:{_ASSIGNED}|{_ENCODED}){pattern}{_ASSIGNED_END}"
    before = f"(?:{_WORD}|{_ENCODED})" if _is_plain(value[0]) else ""
    return before + pattern + (_WORD_END if _is_plain(value[-1]) else "")


def _is_plain(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _run(character: str, times: int, backslash: str) -> str:
    """Returns a pattern for `times` repetitions of a character, in each of its encodings."""
    if _is_plain(character):
        return character * times
    from html.entities import codepoint2name

    code = ord(character)
    octets = character.encode("utf-8", "surrogatepass")
    # Longer encodings come first: `%25` begins with `%`.
    forms = [
        "".join(f"%(?:25)*{octet:02x}" for octet in octets),
        "".join(rf"\\+x{octet:02x}" for octet in octets),
        rf"\\+u{_units(character)}",
        rf"\\+u0*{code:x}",
        rf"\\+x{code:02x}",
        rf"&#(?:0*{code}|x0*{code:x});",
        f"&{codepoint2name.get(code, 'apos')};",
    ]
    if character in _CONTROL:
        forms.append(rf"\\+{_CONTROL[character]}")
    if character == " ":
        forms.append(r"\+")
    forms.append(backslash if character == "\\" else r"\\*" + re.escape(character))
    pattern = f"(?i:{'|'.join(forms)})"
    if character == "\\":
        return f"{pattern}{{{times}}}" if times < _MOST_BACKSLASHES else backslash
    # Quotes may be doubled.
    return f"{pattern}{{{times},{2 * times}}}+" if character in "'\"" else f"{pattern}{{{times}}}"


def _units(character: str) -> str:
    """Returns the UTF-16 code units, as in JSON escapes."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return r"\\+u".join(units[at : at + 4] for at in range(0, len(units), 4))


def _without_base64(text: str, value: str) -> str:
    """Masks words of base64 or hexadecimal digits that contain the value."""
    octets = value.encode("utf-8", "surrogatepass")
    if octets.hex() in text.lower():
        text = re.sub(octets.hex(), MASK, text, flags=re.IGNORECASE)
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + octets).decode().rstrip("=")
        # The first and last characters also encode neighbours of the value.
        core = encoded[offset + 1 if offset else 0 : len(encoded) - (1 if (offset + len(octets)) % 3 else 0)]
        for form in {core, core.replace("+", "-").replace("/", "_")}:
            if form in text:
                text = _BASE64.sub(lambda match, form=form: MASK if form in match[0] else match[0], text)  # type: ignore[misc]
    return text


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

    def __getitem__(self, key: SupportsIndex | slice) -> HiddenText:
        # Error reporting tools show the beginning of long strings.
        return HiddenText(super().__getitem__(key), self.shown)

    def __reduce__(self) -> tuple[object, ...]:
        if self.variable is not None:
            return (_from_environment, (self.variable, self.shown))
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

    def for_connection(self) -> str:
        """Returns the value for a connection that is opened now; a value that expires is renewed before."""
        return self.reveal()

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
        from pydantic_core import PydanticCustomError  # slow to import

        raise PydanticCustomError("string_type", "must be a string")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return Secret(value, variable=getattr(value, "variable", None))


def _from_environment(variable: str, shown: str | None = None) -> Secret | HiddenText:
    """The secret, or the text with a secret in it, whose variable was pickled in place of its value."""
    if variable not in os.environ:
        hint = "set it in this process: a pickled store has the names of variables instead of secrets"
        raise LakeconfError(f"the variable {variable} is not set", hint=hint)
    value = os.environ[variable]
    return Secret(value, variable=variable) if shown is None else HiddenText(value, shown, variable)


def hidden(value: Any, secrets: Iterable[Secret]) -> Any:
    """Replaces every string that contains a secret with a `HiddenText`."""
    secrets = tuple(secrets)
    if isinstance(value, Mapping):
        return {key: hidden(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [hidden(item, secrets) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if not isinstance(value, str) or isinstance(value, HiddenText):
        return value
    same = [secret for secret in secrets if secret.reveal() == value]
    if same:
        return HiddenText(value, MASK, next((secret.variable for secret in same if secret.variable is not None), None))
    shown = scrub(value, secrets)
    return value if shown == value else HiddenText(value, shown)


def shown(value: str) -> str:
    """Returns the text to print: masked if it is a `HiddenText`."""
    return value.shown if isinstance(value, HiddenText) else value


def masked(text: str, secrets: Iterable[Secret]) -> str:
    """Returns the text with `***` for each secret in it. See `hidden`."""
    return shown(hidden(text, secrets))


def scrub(text: str, secrets: Iterable[Secret]) -> str:
    """Masks the values of `secrets` in a string, including values encoded for SQL, URLs, JSON, XML or Python."""
    for secret in sorted(set(secrets), key=lambda secret: len(secret.reveal()), reverse=True):
        text = without(text, secret.reveal())
    return text
