"""Finds a value in text of other programs: plain, or encoded for SQL, URLs, JSON, XML, Python or base64."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from itertools import groupby
from urllib.parse import quote, quote_plus

_MASK = "***"
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
    """Replaces a value in a text with `***`.

    A value of 8 characters or more is found anywhere, a shorter one only as a whole word. A value of fewer than 4
    characters, or of fewer than 12 letters only, is found only between quotes or characters such as `=`, `:` and `@`.
    So a password like `lake` does not change sentences and other names.

    Args:
        text: Text of another program, such as an error of DuckDB.
        value: The value; not empty.
    """
    if text == value:
        return _MASK
    if _is_long(value):
        for form in sorted(_spellings(value), key=len, reverse=True):
            text = text.replace(form, _MASK)
    # A long run of backslashes is too ambiguous to match.
    text = _BACKSLASHES.sub(r"\\" * 4, text)
    pieces = _PLAIN.findall(value)
    if all(piece in text for piece in pieces):
        text = re.sub(_placed(value), _MASK, text)
    return _without_base64(text, value) if _is_long(value) else text


def _spellings(value: str) -> set[str]:
    """Returns the usual encodings of a value; the pattern alone would treat an escaped quote as a doubled one."""
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
    """Returns a pattern for all encodings of a value, with the required delimiters."""
    # Each backslash can also start the next character: with many of them, a text could match in too many ways.
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
        text = re.sub(octets.hex(), _MASK, text, flags=re.IGNORECASE)
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + octets).decode().rstrip("=")
        # The first and last characters also encode neighbours of the value.
        core = encoded[offset + 1 if offset else 0 : len(encoded) - (1 if (offset + len(octets)) % 3 else 0)]
        for form in {core, core.replace("+", "-").replace("/", "_")}:
            if form in text:
                text = _BASE64.sub(lambda found, form=form: _MASK if form in found[0] else found[0], text)  # type: ignore[misc]
    return text
