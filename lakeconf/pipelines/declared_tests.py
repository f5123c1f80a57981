"""Loads the unit tests of a lakeconf.toml: `[pipeline.tests.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lakeconf.config.codes import Code
from lakeconf.config.model import Config
from lakeconf.errors import ConfigError, Problem, suggestion
from lakeconf.pipelines.places import key_place
from lakeconf.pipelines.unit_tests import DeclaredUnitTest, UnitTest

_FIXES = {
    "model": 'write model = "schema.table"',
    "given": 'write given."schema.table" = [{ id = 1 }], or { columns = { id = "UUID" }, rows = [] }',
    "expect": "write expect = [{ id = 1 }]",
    "columns": 'write columns = ["id"]',
    "ordered": "write ordered = true",
    "start": "write start = 2026-01-01",
    "end": "write end = 2026-01-02",
}


def declared_unit_tests(config: Config) -> list[UnitTest]:
    """Loads the unit tests.

    Args:
        config: The configuration.

    Raises:
        ConfigError: A test is invalid.
    """
    problems = unit_test_problems(config)
    if problems:
        raise ConfigError(problems)
    return [
        UnitTest(name, DeclaredUnitTest.model_validate(table), key_place(config, ("pipeline", "tests", name)))
        for name, table in _tables(config).items()
    ]


def unit_test_problems(config: Config) -> list[Problem]:
    """Finds the problems of the tables of the unit tests, without loading models.

    Args:
        config: The configuration.
    """
    problems: list[Problem] = []
    for name, table in _tables(config).items():
        key = ("pipeline", "tests", name)
        unknown = {}
        for one in table if isinstance(table, Mapping) else ():
            if one not in _FIXES:
                hint = suggestion(one, _FIXES, f"use one of: {', '.join(_FIXES)}")
                found = config.problem(Code.UNKNOWN_KEY, "unknown key", (*key, one), hint=hint)
                unknown[found.key] = found
        problems += unknown.values()
        try:
            DeclaredUnitTest.model_validate(table)
        except ValidationError as error:
            problems += [one for one in _problems(config, key, error) if one.key not in unknown]
    return problems


def _problems(config: Config, key: tuple[str, ...], error: ValidationError) -> list[Problem]:
    """Converts pydantic's errors into problems with a position in the file."""
    problems: dict[tuple[str, ...], Problem] = {}
    for found in error.errors(include_url=False, include_input=False):
        code, message = (
            (Code.MISSING_KEY, "is missing") if found["type"] == "missing" else (Code.WRONG_VALUE, found["msg"])
        )
        # Below a key with several types, pydantic reports one error for each of them.
        part = tuple(str(one) for one in found["loc"][:1])
        hint = _FIXES.get("".join(part), "write [pipeline.tests.NAME] and its keys below it")
        problems.setdefault(part, config.problem(code, message, (*key, *part), hint=hint))
    return list(problems.values())


def _tables(config: Config) -> Mapping[str, Any]:
    found = config.pipeline.get("tests", {})
    return found if isinstance(found, Mapping) else {}
