"""Finds what is wrong with models before a run: in a model alone, and between models and their unit tests."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lakeconf.config.codes import Code
from lakeconf.config.model import Config
from lakeconf.errors import ConfigError, PipelineError, Problem, SchemaError
from lakeconf.pipelines.declared_tests import declared_unit_tests
from lakeconf.pipelines.file_rows import READERS
from lakeconf.pipelines.kinds import Append, Seed
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline, same_table, twins
from lakeconf.pipelines.unit_tests import check_unit_test
from lakeconf.write.ddl import is_partition_key, type_sql

_MODELS, _TESTS = ("pipeline", "models"), ("pipeline", "tests")


class _Wrong(NamedTuple):
    """A wrong value: its key below the model, and what to do."""

    key: tuple[str, ...]
    message: str
    hint: str | None


def model_problems(config: Config, model: Model) -> list[Problem]:
    """Returns the values of a declared model with which each run would fail.

    Args:
        config: The configuration.
        model: The model, which `check` accepts.
    """
    found = [*_of_files(model), *_of_types(model), *_of_partitions(model)]
    return [
        config.problem(Code.WRONG_VALUE, one.message, (*_MODELS, model.table, *one.key), hint=one.hint) for one in found
    ]


def joint_problems(config: Config, models: Sequence[Model], *, all_known: bool) -> list[Problem]:
    """Returns the problems between valid models, and those of their unit tests.

    Args:
        config: The configuration.
        models: The declared models.
        all_known: False if Python files may declare further models, which validate does not run.
    """
    doubled = [(model, same_table(model, first)) for model, first in twins(models)]
    if doubled:
        return [
            config.problem(Code.WRONG_VALUE, error.message, (*_MODELS, model.table), hint=error.hint)
            for model, error in doubled
        ]
    if not all_known:
        # Such an input may be the table of a model in Python.
        models = [model for model in models if all("." in name for name in model.arguments)]
    try:
        pipeline = Pipeline(models)
    except PipelineError as error:
        cause = error.__cause__
        named = cause.args[1][0] if isinstance(cause, graphlib.CycleError) else _named_in(error.message, models)
        key = _MODELS if named is None else (*_MODELS, named)
        return [config.problem(Code.WRONG_VALUE, error.message, key, hint=error.hint)]
    return _of_tests(config, pipeline, all_known=all_known)


def _of_files(model: Model) -> list[_Wrong]:
    kind = model.kind
    if isinstance(kind, Seed) and not (model.folder / kind.csv).is_file():
        message = f"file not found: {model.folder / kind.csv}"
        return [_Wrong(("csv",), message, "check the path, which starts from the folder of the configuration")]
    if isinstance(kind, Append) and kind.files is not None:
        ending = Path(kind.files).suffix.removeprefix(".").lower()
        if ending.isalnum() and ending not in READERS:
            return [_Wrong(("files",), f"files that end in {ending} cannot be loaded", f"use {', '.join(READERS)}")]
    return []


def _of_types(model: Model) -> list[_Wrong]:
    columns: Mapping[str, str] = model.kind.columns if isinstance(model.kind, Append | Seed) else {}
    found = []
    for name, kind in columns.items():
        try:
            type_sql(name, kind)
        except SchemaError as error:
            found.append(_Wrong(("columns", name), error.message.splitlines()[0], error.hint))
    return found


def _of_partitions(model: Model) -> list[_Wrong]:
    wrong = [key for key in model.partitioned_by if not is_partition_key(key)]
    hint = "write a column, or year(column), month(column), day(column), hour(column) or bucket(n, column)"
    return [_Wrong(("partitioned_by",), f"the partition key {key!r} has an unknown function", hint) for key in wrong]


def _named_in(message: str, models: Sequence[Model]) -> str | None:
    return next((model.table for model in models if f"the model {model.table} " in message), None)


def _of_tests(config: Config, pipeline: Pipeline, *, all_known: bool) -> list[Problem]:
    try:
        tests = declared_unit_tests(config)
    except ConfigError:  # reported on its own
        return []
    found = []
    for test in tests:
        if not all_known and test.declared.model not in pipeline.by_table:
            continue
        try:
            check_unit_test(pipeline, test)
        except PipelineError as error:
            key = ("model",) if test.declared.model not in pipeline.by_table else ()
            found.append(config.problem(Code.WRONG_VALUE, error.message, (*_TESTS, test.name, *key), hint=error.hint))
    return found
