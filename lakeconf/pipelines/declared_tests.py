"""Loads the unit tests of a lakeconf.toml: `[pipeline.tests.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lakeconf.config.model import Config
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import ConfigError, Problem, suggestion
from lakeconf.pipelines.places import key_place, key_problems, unquoted_name_problems
from lakeconf.pipelines.unit_tests import TABLE, DeclaredUnitTest, Given, UnitTest

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
    tables = ("pipeline", "tests")
    for name, table in _tables(config).items():
        unquoted = unquoted_name_problems(config, tables, name, table, _FIXES)
        if unquoted:
            problems += unquoted
            continue
        try:
            DeclaredUnitTest.model_validate(table)
        except ValidationError as error:
            problems += key_problems(config, (*tables, name), error, _key, _fix)
    return problems


def _key(location: Sequence[int | str]) -> tuple[str, ...]:
    """The key of a test; below `given`, also the table and the key of its rows."""
    key, table, *rest = (*location, "", "", "")
    if key != "given" or not table:
        return (str(key),) if key else ()
    form, part, *_ = rest
    return (str(key), str(table), str(part)) if form == TABLE and part else (str(key), str(table))


def _fix(key: tuple[str, ...], found: ErrorDetails) -> str:
    if found["type"] == "extra_forbidden":
        if len(key) > 2 and "." not in key[1]:
            return f"write given.{toml_value(f'{key[1]}.{key[2]}')}: a name with a dot needs quotes"
        known = _FIXES if len(key) == 1 else Given.model_fields
        return suggestion(key[-1], known, f"use one of: {', '.join(known)}")
    return _FIXES["".join(key[:1])] if key else "write [pipeline.tests.NAME] and its keys below it"


def _tables(config: Config) -> Mapping[str, Any]:
    found = config.pipeline.get("tests", {})
    return found if isinstance(found, Mapping) else {}
