"""Finds a value in text of other programs: as it is, or encoded as for SQL, URLs, JSON, XML, Python or base64."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from html.entities import codepoint2name
from itertools import groupby
from urllib.parse import quote, quote_plus

_MASK = "***"
# A longer value, or a longer one of letters alone, is in no text by chance.
_LONG, _LONG_WORD = 8, 12
_SHORT = 4
_MOST_BACKSLASHES = 4
_BACKSLASHES = re.compile(r"\\{17,}")
# PostgreSQL cuts names off here, in bytes.
_LONGEST_NAME = 63
# What is around a value, as in `password=…`, `'…'` and `://user:…@host`.
_ASSIGNED, _ASSIGNED_END = r"""(?<=['"`=:/@,;|&?(\[{<>])""", r"""(?![^\s'"`/@,;|&?)\]}<>%\\])"""
_WORD, _WORD_END = "(?<![0-9A-Za-z_])", "(?![0-9A-Za-z_])"
# A character before the value that is encoded, such as `%3D`.
_ENCODED = r"(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
_PLAIN = re.compile(r"[0-9A-Za-z]+")
_BASE64 = re.compile(r"[0-9A-Za-z+/_-]+=*")
_CONTROL = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a", "\0": "0"}


def without(text: str, value: str) -> str:
    """A text with `***` in place of a value.

    A value of 8 characters or more is found anywhere, and a shorter one only where it is not a part of a word. A value
    of fewer than 4 characters, or of fewer than 12 letters and nothing else, is found only between quotes or signs
    such as `=`, `:` and `@`. So a password like `lake` does not change sentences and other names.

    Args:
        text: Text of another program, such as an error of DuckDB.
        value: The value; not empty.
    """
    if text == value:
        return _MASK
    if _is_long(value):
        for form in sorted(_spellings(value), key=len, reverse=True):
            text = text.replace(form, _MASK)
    # A long run of backslashes has too many readings.
    text = _BACKSLASHES.sub("\\" * 8, text)
    pieces = _PLAIN.findall(value)
    if all(piece in text for piece in pieces):
        text = re.sub(_placed(value), _MASK, text)
    return _without_base64(text, value) if _is_long(value) else text


def _spellings(value: str) -> set[str]:
    """The usual spellings of a value. The pattern takes an escaped quote for a doubled one."""
    escaped = value.replace("\\", "\\\\")
    found = {
        *(value, value.replace("'", "''"), value.replace('"', '""'), escaped.replace("'", "\\'")),
        *(json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]),
    }
    with contextlib.suppress(UnicodeEncodeError):
        found |= {quote(value), quote(value, safe=""), quote_plus(value)}
        octets = value.encode()
        if len(octets) > _LONGEST_NAME:
            found.add(octets[:_LONGEST_NAME].decode(errors="ignore"))
    return found


def _is_long(value: str) -> bool:
    return len(value) >= (_LONG_WORD if value.isalpha() else _LONG)


def _placed(value: str) -> str:
    """The pattern of all forms of a value, at the places where it is looked for."""
    # Each backslash can begin the next character too: with many of them, a text could have too many readings.
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
    """The pattern of a character, `times` in a row, in each of its forms."""
    if _is_plain(character):
        return character * times
    code = ord(character)
    octets = character.encode("utf-8", "surrogatepass")
    # The longer forms come first: `%25` begins like `%`.
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
    """The code units of UTF-16, as JSON escapes them."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return r"\\+u".join(units[at : at + 4] for at in range(0, len(units), 4))


def _without_base64(text: str, value: str) -> str:
    """The text without words of base64 or hexadecimal digits that hold the value."""
    octets = value.encode("utf-8", "surrogatepass")
    if octets.hex() in text.lower():
        text = re.sub(octets.hex(), _MASK, text, flags=re.IGNORECASE)
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + octets).decode().rstrip("=")
        # Neighbours of the value have a part in the characters at both ends.
        core = encoded[offset + 1 if offset else 0 : len(encoded) - (1 if (offset + len(octets)) % 3 else 0)]
        for form in {core, core.replace("+", "-").replace("/", "_")}:
            if form in text:
                text = _BASE64.sub(lambda found, form=form: _MASK if form in found[0] else found[0], text)  # type: ignore[misc]
    return text
