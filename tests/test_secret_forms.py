"""Where a value is found in text of other programs; test_secret.py has properties over values and usual encodings."""

from __future__ import annotations

import base64
import html
import itertools
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest

from lakeconf.secret import without

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = "hunter2-planted"


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        *(("a", "a", "***"), ("lake", "lake", "***"), (LONG, f"x{LONG}y", "x***y")),
        *(("hunter22", "xhunter22y", "x***y"), ("hunter2", "xhunter2y", "xhunter2y")),
        *(("hunter2", "x hunter2 y", "x *** y"), ("hunterhunter", "xhunterhuntery", "x***y")),
        *(("hunterhunte", "xhunterhuntey", "xhunterhuntey"), ("hunterhunte", "x hunterhunte y", "x hunterhunte y")),
        *(("hunterhunte", "x='hunterhunte' y", "x='***' y"), ("ab12", "x ab12 y", "x *** y")),
        *(("ab1", "x ab1 y", "x ab1 y"), ("ab1", "x=ab1 y", "x=*** y"), ("ab12", "cab12", "cab12")),
        *(("ab12", "ab12_c", "ab12_c"), ("#b12", "c#b12 d", "c*** d"), ("ab1#", "ab1#c", "***c")),
    ],
)
def test_length_and_letters_decide_where_a_value_is_found(value: str, text: str, expected: str) -> None:
    assert without(text, value) == expected


def test_short_value_is_found_between_delimiters_or_encoded_characters_only() -> None:
    for before in (*"'\"`=:/@,;|&?([{<>", "%3D", "\\n", "\\x3d", "\\u003d"):
        assert without(f"x {before}lake y", "lake") == f"x {before}*** y"
    for after in (*" '\"`/@,;|&?)]}<>%\\\n", ""):
        assert without(f"x=lake{after}", "lake") == f"x=***{after}"
    for text in ("a-lake", "lake=1", "=lakes", "=lake_1", "=lake.db", "=lake-1", "a.lake"):
        assert without(text, "lake") == text


@pytest.mark.parametrize(
    ("value", "form"),
    [
        *(("it's\\hunter", "it\\'s\\\\hunter"), ("hunter2%next", "hunter2%252525next")),
        *(("hünter22", "h\\xfcnter22"), ("hünter22", "h&#x0FC;nter22"), ("hünter22", "h&uuml;nter22")),
        *(("a'hunter2", "a&apos;hunter2"), ("🦆hunter22", "\\U0001f986hunter22"), ("a\0hunter2", "a\\0hunter2")),
        ("a\\\\hunter2", "a\\\\\\\\hunter2"),
    ],
)
def test_encoded_value_is_found(value: str, form: str) -> None:
    assert without(f"error: <{form}> is wrong", value) == "error: <***> is wrong"
    assert without(f"error: {form}", value) == "error: ***"


def test_control_character_of_a_short_value_is_found_as_its_escape() -> None:
    for letter, character in zip("nrtbfva0", "\n\r\t\b\f\v\a\0", strict=True):
        for backslashes in ("\\", "\\\\"):
            assert without(f"x='a{backslashes}{letter}1'", f"a{character}1") == "x='***'"


@pytest.mark.parametrize(
    ("value", "form"),
    [
        *(("a''1", "a''''1"), ("a''1", "a\\'\\'1"), ("a\\\\1", "a\\\\\\\\1"), ("a\\\\\\1", "a\\\\\\1")),
        *(("a\\\\\\\\1", "a\\\\\\\\1"), ("\\a\\b\\c\\1", "\\\\a\\\\b\\\\c\\\\1")),
        *(("\\a\\b\\c\\d\\", "\\a\\b\\c\\d\\"), ("a++1", "a%2B%2B1"), ("ü#1", "\\xfc#1")),
        *(("🦆1", "\\\\ud83e\\\\udd861"), ("🦆1", "\\U0001F9861"), ("\ud83e1", "\\ud83e1")),
        ("\ud83e1", "%ed%a0%be1"),
    ],
)
def test_encoded_short_value_is_found_between_delimiters(value: str, form: str) -> None:
    assert without(f"x='{form}' y", value) == "x='***' y"


def test_short_value_is_found_in_other_encodings() -> None:
    encodings: list[Callable[[str], str]] = [str, quote, html.escape, quote_plus]
    for value, encode in itertools.product(("p#1", "a&b", "ü"), encodings):
        assert without(f"password={encode(value)}&x", value) == "password=***&x"


def test_only_a_long_value_is_found_in_base64_at_every_offset_and_in_hexadecimal_digits() -> None:
    values = (LONG, "\u00ff\u00fe?>~\u00ff\u00fe?>~", "hunter22")
    encodings = (base64.b64encode, base64.urlsafe_b64encode)
    for value, before, encode in itertools.product(values, ("", "a", "ab", "abc"), encodings):
        word = encode(f"{before}{value}:z".encode()).decode()
        assert without(f"Basic {word}, next", value) == "Basic ***, next"
    word = base64.b64encode(b"lake:z").decode()
    assert without(f"Basic {word}", "lake") == f"Basic {word}"
    for digits in (LONG.encode().hex(), LONG.encode().hex().upper()):
        assert without(f"0x00{digits}ff", LONG) == "0x00***ff"


def test_name_that_postgresql_truncated_is_found() -> None:
    value = "S3cr3t" * 40
    for length in (63, 64, 200):
        assert "***" in without(f"role x{value[:63]}", value[:length])
    umlauts = "ü1" * 40
    assert without(f"role {'ü1' * 21}", umlauts) == "role ***", "the name is cut between two bytes of a character"


def test_value_with_backslashes_is_found_and_a_long_run_of_them_is_shortened() -> None:
    for count in (1, 3, 4, 5, 9):
        value = "hunter2" + "\\" * count + "planted"
        for form in (value, value.replace("\\", "\\\\")):
            assert without(f"<{form}>", value) == "<***>"
    assert without("\\" * 16, "lake") == "\\" * 16
    assert without("a" + "\\" * 17 + "b", "lake") == "a" + "\\" * 4 + "b"
    assert without("x hunter2\ud83e! y", "hunter2\ud83e!") == "x *** y"


def test_all_occurrences_are_masked_and_other_text_is_kept() -> None:
    assert without(f"{LONG} {LONG}, {LONG[:-1]} {LONG.upper()}", LONG) == f"*** ***, {LONG[:-1]} {LONG.upper()}"
