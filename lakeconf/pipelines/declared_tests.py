"""Loads the unit tests of a lakeconf.toml: `[pipeline.tests.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lakeconf.config.codes import Code
from lakeconf.config.model import Config
from lakeconf.errors import ConfigError, Problem, suggestion
from lakeconf.pipelines.sql_errors import shown_place
from lakeconf.pipelines.unit_tests import DeclaredUnitTest, UnitTest

_KEYS = tuple(DeclaredUnitTest.model_fields)


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
        UnitTest(name, DeclaredUnitTest.model_validate(table), _place(config, name))
        for name, table in _tables(config).items()
    ]


def unit_test_problems(config: Config) -> list[Problem]:
    """Finds the problems of the tables of the unit tests, without loading models.

    Args:
        config: The configuration.
    """
    problems = []
    for name, table in _tables(config).items():
        key = ("pipeline", "tests", name)
        for unknown in set(table if isinstance(table, Mapping) else ()) - {*_KEYS}:
            hint = suggestion(unknown, _KEYS, f"valid keys: {', '.join(_KEYS)}")
            problems.append(config.problem(Code.UNKNOWN_KEY, "unknown key", (*key, unknown), hint=hint))
        try:
            DeclaredUnitTest.model_validate(table)
        except ValidationError as error:
            problems += [one for one in problems_of(config, key, error) if one.code != Code.UNKNOWN_KEY.code]
    return problems


def problems_of(config: Config, key: tuple[str, ...], error: ValidationError) -> list[Problem]:
    """Converts pydantic's errors into problems with a position in the file.

    Args:
        config: The configuration.
        key: The key of the invalid table.
        error: The errors.
    """
    problems = []
    for found in error.errors(include_input=False):
        known = {"missing": (Code.MISSING_KEY, "is missing"), "extra_forbidden": (Code.UNKNOWN_KEY, "unknown key")}
        code, message = known.get(found["type"], (Code.WRONG_VALUE, found["msg"]))
        problems.append(config.problem(code, message, (*key, *(str(part) for part in found["loc"]))))
    return problems


def _tables(config: Config) -> Mapping[str, Any]:
    found = config.pipeline.get("tests", {})
    return found if isinstance(found, Mapping) else {}


def _place(config: Config, name: str) -> str:
    found = config.problem(Code.WRONG_VALUE, "", ("pipeline", "tests", name))
    return shown_place(found.file, found.line, found.column)
