"""Patterns match the texts that they match in DuckDB, or are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import Twins, assert_alike
from text_twins import text_twins

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERNS = [
    *("a", "a.b", "a\\.b", "^a", "b$", "^a$", "^$", "a|b", "^(a|ab)(c|bcd)*"[:-1], "[a-c]+", "[^a]", "[^a-z]*b", "a*"),
    *(
        "\\d+",
        "\\w+",
        "[0-9]{2}",
        "a{1,2}?",
        "a+?",
        ".",
        "..",
        "^.$",
        ".*",
        "(?:a|b)c",
        "(a)(b)?"[:-1],
        "\\[a\\]",
        "\\\\d",
    ),
    *(
        "x=(\\d);y=(\\d+)",
        "^[A-Za-z_]\\w*$",
        "a\\|b",
        "[a-z0-9._%+-]+",
        "(a|x)(b|=)",
        "a b",
        "[\\d.]+",
        "[\\-_]",
        "(^a|b$)",
    ),
]


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return text_twins(spark)


def test_like_is_that_of_duckdb(pair: Twins) -> None:
    patterns = ["a%", "%c", "a_c", "%", "_", "a\\b", "%\\%", "a%\\_", "", "😀_", "%\\", "A%", "%B"]
    assert_alike(
        pair,
        [
            *(f"v LIKE '{pattern}'" for pattern in patterns),
            *(f"v NOT LIKE '{pattern}'" for pattern in patterns),
            *(f"v {word}ILIKE '{pattern}'" for word in ("", "NOT ") for pattern in patterns if pattern.isascii()),
        ],
    )


def test_regular_expressions_are_those_of_duckdb(pair: Twins) -> None:
    assert_alike(
        pair,
        [
            *(f"regexp_matches(v, '{pattern}')" for pattern in PATTERNS),
            *(f"regexp_full_match(v, '{pattern}')" for pattern in PATTERNS),
            *(f"regexp_extract(v, '{pattern}')" for pattern in PATTERNS),
            *(f"regexp_extract(v, '{pattern}', 1)" for pattern in PATTERNS if "(" in pattern and "(?:" not in pattern),
            "v ~ 'a.*'",
            "regexp_extract(v, 'x=(\\d);y=(\\d+)', 2)",
        ],
    )


def test_replacements_are_those_of_duckdb(pair: Twins) -> None:
    needed = ("a", "a|b", "[a-c]+", "\\d+", "[^a]", ".", "a+?", "(a|x)(b|=)", "a\\.b", "b$", "^a", "[^a-z]*b", "ab?")
    assert_alike(pair, [f"regexp_replace(v, '{pattern}', '<é>', 'g')" for pattern in needed])


@pytest.mark.parametrize(
    "expression",
    [
        "v LIKE v",
        "v LIKE 'a!%' ESCAPE '!'",
        "v ILIKE 'é%'",
        "v SIMILAR TO 'a.*'",
        "regexp_matches(v, v)",
        "regexp_matches(v, '')",
        "regexp_matches(v, 'a', 'i')",
        "regexp_matches(v, '\\s')",
        "regexp_matches(v, '\\bA')",
        "regexp_matches(v, '(?i)a')",
        "regexp_matches(v, '(a|b)*')",
        "regexp_matches(v, 'é')",
        "regexp_matches(v, '[[:alpha:]]')",
        "regexp_matches(v, '[a&&b]')",
        "regexp_extract(v, 'a', 1)",
        "regexp_extract(v, '(a)', ['x'])",
        "regexp_replace(v, 'a', 'b')",
        "regexp_replace(v, 'a*', 'b', 'g')",
        "regexp_replace(v, 'x|', 'b', 'g')",
        "regexp_replace(v, '(a)', '\\1', 'g')",
        "regexp_replace(v, 'a', '$', 'g')",
        *(f"regexp_matches(v, '{odd}')" for odd in ("$a", "a^", "a$b", "(a)^b")),
        "regexp_replace(v, 'a', 'b', 'gi')",
    ],
)
def test_other_patterns_are_refused(expression: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(f"SELECT {expression} FROM x")
