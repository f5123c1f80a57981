from __future__ import annotations

import pytest

from lakeconf.config.environment import expand
from lakeconf.secret import FromVariable

ENVIRONMENT = {"X": "one", "EMPTY": "", "_y2": "two"}


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("plain", "plain", "literal"),
        ("", "", "literal"),
        ("${X}", "one", "variable"),
        ("${_y2}", "two", "variable"),
        ("${X:?needed}", "one", "variable"),
        ("${X:-other}", "one", "variable"),
        ("${UNSET:-other}", "other", "default"),
        ("${UNSET:-}", "", "default"),
        ("${UNSET:-a:-b c/d}", "a:-b c/d", "default"),
        ("${EMPTY:-other}", "other", "default"),
        ("${EMPTY}", "", "variable"),
        ("a-${X}/b", "a-one/b", "mixed"),
        ("${X}${_y2}", "onetwo", "mixed"),
        ("$$", "$", "literal"),
        ("$${X}", "${X}", "literal"),
        ("$$${X}", "$one", "mixed"),
        ("pa$word", "pa$word", "literal"),
        ("$X", "$X", "literal"),
        ("ends with $", "ends with $", "literal"),
    ],
)
def test_expanded_text_and_kind(text: str, expected: str, kind: str) -> None:
    expansion = expand(text, ENVIRONMENT)
    assert (expansion.text, expansion.kind, expansion.faults) == (expected, kind, ())


@pytest.mark.parametrize("text", ["${X}", "${X:?needed}"])
def test_single_variable_keeps_its_name(text: str) -> None:
    value = expand(text, ENVIRONMENT).text
    assert isinstance(value, FromVariable)
    assert value.variable == "X"


@pytest.mark.parametrize("text", ["${X:-other}", "${UNSET:-other}", "${X} ", "a${X}", "${X}${X}", "plain"])
def test_other_texts_keep_no_variable_name(text: str) -> None:
    assert not isinstance(expand(text, ENVIRONMENT).text, FromVariable)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${UNSET}", "the variable UNSET is not set"),
        ("${UNSET:?ask us}", "the variable UNSET is not set: ask us"),
        ("${UNSET:?}", "the variable UNSET is not set"),
        ("${EMPTY:?ask us}", "the variable EMPTY is empty: ask us"),
    ],
)
def test_unset_variable(text: str, message: str) -> None:
    (fault,) = expand(text, ENVIRONMENT).faults
    assert (fault.code.code, fault.message) == ("LC030", message)


@pytest.mark.parametrize("text", ["${", "a${}", "${1X}", "${X", "${X-d}", "${X:d}", "${my-x}", "${A:-${B}}", "${é}"])
def test_malformed_variable(text: str) -> None:
    (fault,) = expand(text, ENVIRONMENT).faults
    assert fault.code.code == "LC031"
    assert f"at character {text.index('$') + 1}" in fault.message


def test_every_unset_variable_is_reported() -> None:
    assert [fault.message for fault in expand("${A}-${B}", {}).faults] == [
        "the variable A is not set",
        "the variable B is not set",
    ]


def test_repr_shows_no_value() -> None:
    assert "one" not in repr(expand("${X}", ENVIRONMENT))
