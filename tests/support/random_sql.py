"""Random expressions over the columns of `sql_twins`."""

from __future__ import annotations

import random

from sql_twins import COLUMNS

NUMBERS = tuple(type_ for name, (type_, _) in COLUMNS.items() if name in "tsibdewfg")
_CONSTANTS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "10",
    "100000",
    "3000000000",
    "0.5",
    "1.25",
    "2.5",
    "-1.5",
    "1e2",
    "1.5e0",
    "0.1",
)
_PATTERNS = ("a%", "%c", "a_c", "%", "_", "a\\b", "%\\%", "a%\\_", "", "😀_", "%\\")
REGULAR = ("^a", "[^a-z]+$", "\\d+", "a|b", "(a|A).", "^\\w*$", ".{2}")
SEPARATORS = ("'a'", "'_'", "'😀'", "'ab'")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


class Expressions:
    """Makes random expressions in DuckDB's SQL. Some are refused by DuckDB, and some fail.

    Args:
        seed: The same seed makes the same expressions.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable

    def any(self, depth: int) -> str:
        """An expression of any type, of at most so many levels."""
        kinds = (self.number, self.number, self.text, self.time, self.condition)
        return self._random.choice(kinds)(depth)

    def _one(self, *options: object) -> str:
        return str(self._random.choice(options))

    def number(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.25:
            return self._one(*"tsibdewfg", *self._random.choices(_CONSTANTS, k=4))

        def n() -> str:
            return self.number(depth - 1)

        return self._one(
            *[f"({n()} {self._one('+', '-', '*')} {n()})"] * 5,
            f"({n()} / {n()})",
            f"({n()} % {n()})",
            f"({n()} // {n()})",
            f"abs({n()})",
            f"round({n()}, {self._one(0, 1, 2, 5)})",
            f"CAST({n()} AS {self._one(*NUMBERS, 'DECIMAL(18,4)', 'DECIMAL(5,1)')})",
            f"{self._one('floor', 'ceil')}({n()})",
            f"coalesce({n()}, {n()})",
            f"CASE WHEN {self.condition(depth - 1)} THEN {n()} ELSE {n()} END",
            f"{self._one('greatest', 'least')}({n()}, {n()})",
            f"(-{n()})",
            f"length({self.text(depth - 1)})",
            f"extract({self._one('year', 'month', 'day', 'quarter')} FROM {self.time(depth - 1)})",
            f"nullif({n()}, {n()})",
            f"strpos({self.text(depth - 1)}, {self.text(0)})",
            f"mod({n()}, {n()})",
            f"date_diff('{self._one('day', 'month', 'year')}', {self.time(depth - 1)}, {self.time(depth - 1)})",
            f"extract({self._one('dow', 'isodow', 'doy', 'week')} FROM {self.time(depth - 1)})",
            f"({self.time(depth - 1)} - {self.time(depth - 1)})",
            f"CAST({self.condition(depth - 1)} AS INTEGER)",
        )

    def text(self, depth: int) -> str:
        values = ["'" + value.replace("'", "''") + "'" for value in COLUMNS["v"][1]]
        if depth <= 0 or self._random.random() < 0.3:
            return self._one("v", "v", "v", self._one(*values))

        def t() -> str:
            return self.text(depth - 1)

        return self._one(
            f"upper({t()})",
            f"lower({t()})",
            f"{self._one('trim', 'ltrim', 'rtrim')}({t()})",
            f"({t()} || {t()})",
            f"concat({t()}, {self._one('i', 'b', 'NULL', 'v', 'o')}, {t()})",
            f"substring({t()}, {self._one(1, 2, 3)}, {self._one(0, 1, 2, 9)})",
            f"CAST({self._one('i', 'b', 't', 'd', 'e', 'o', '(i // 2)', 'v')} AS VARCHAR)",
            f"coalesce({t()}, {t()})",
            f"replace({t()}, 'a', {t()})",
            f"{self._one('left', 'right')}({t()}, {self._one(0, 1, 2, 9)})",
            f"{self._one('lpad', 'rpad')}({t()}, {self._one(0, 1, 4, 9)}, 'é-')",
            f"split_part({t()}, {self._one(*SEPARATORS)}, {self._one(1, 2)})",
            f"concat_ws('-', {t()}, {self._one('i', 'NULL', 'v')})",
            f"regexp_extract({t()}, '{self._one(*REGULAR)}')",
            f"regexp_replace({t()}, '[a-cA-C]+', {self._one(*SEPARATORS)}, 'g')",
            f"CASE WHEN {self.condition(depth - 1)} THEN {t()} END",
        )

    def time(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.4:
            return self._one("a", "a", "DATE '2024-05-17'", "m")
        unit = self._one("year", "quarter", "month", "week", "day", "hour", "minute")
        return self._one(
            f"(a + {self._one('1', 't', '-30')})",
            f"(a - {self._one('1', 's', '365')})",
            f"CAST({self.time(depth - 1)} AS {self._one('DATE', 'TIMESTAMP')})",
            f"date_trunc('{unit}', {self.time(depth - 1)})",
            f"coalesce({self.time(depth - 1)}, {self.time(depth - 1)})",
        )

    def condition(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.1:
            return self._one("o", "true", "(i > 0)", "(v = 'a')")
        below, operator, maybe = depth - 1, self._one(*_COMPARISONS), self._one("", "NOT ")
        return self._one(
            *[f"({self.number(below)} {operator} {self.number(below)})"] * 3,
            f"({self.text(below)} {operator} {self.text(below)})",
            f"({self.time(below)} {operator} {self._one(self.time(below), chr(39) + '2024-02-29' + chr(39))})",
            f"({self.condition(below)} {self._one('AND', 'OR')} {self.condition(below)})",
            f"(NOT {self.condition(below)})",
            f"({self.number(below)} {maybe}BETWEEN {self.number(below)} AND {self.number(below)})",
            f"({self.number(below)} {maybe}IN ({self.number(0)}, {self.number(0)}, NULL))",
            f"(v {maybe}IN ('a', '😀é', {self.text(below)}))",
            f"(({self._one(self.number(below), self.text(below), 'y', 'z')}) IS {maybe}NULL)",
            f"(v {maybe}LIKE '{self._one(*_PATTERNS)}')",
            f"{self._one('starts_with', 'contains')}({self.text(below)}, {self.text(0)})",
            f"regexp_matches({self.text(below)}, '{self._one(*REGULAR)}')",
            f"ends_with({self.text(below)}, {self.text(0)})",
            f"({self._one('z = z', 'y = y', 'o IS TRUE', 'o IS NOT FALSE')})",
        )
