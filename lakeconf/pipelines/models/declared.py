"""Loads the pipeline that the configuration declares, finds what is wrong with it, and opens its stores."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from lakeconf.config.codes import Code
from lakeconf.config.config import Config
from lakeconf.config.file_limits import MAX_BYTES, MAX_UNTRUSTED_BYTES
from lakeconf.engines.spark.start import spark_session
from lakeconf.errors import CatalogMissingError, ConfigError, PipelineError, Problem, SchemaError
from lakeconf.lake.lake import Lake
from lakeconf.lake.opening import empty_store
from lakeconf.logs import escaped
from lakeconf.pipelines.file_rows import READERS
from lakeconf.pipelines.models.body import ModelSqlError, Query, SparkQuery
from lakeconf.pipelines.models.declaration import QueryDeclaration, key_place, parsed
from lakeconf.pipelines.models.kinds import Append, Seed
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.models.unit_tests import check_unit_test, declared_unit_tests, unit_test_problems
from lakeconf.pipelines.pipeline import Pipeline, check, same_table, twins
from lakeconf.secret import Secret
from lakeconf.sql import LoadExtension, Statement
from lakeconf.store import Store
from lakeconf.write.ddl import is_partition_key, type_sql

_MODELS, _TESTS = ("pipeline", "models"), ("pipeline", "tests")


# A wrong value: its key below the model, the message, and what to do.
_Wrong: TypeAlias = "tuple[tuple[str, ...], str, str | None]"


def model_problems(config: Config, model: Model) -> list[Problem]:
    """Returns the values of a declared model with which each run would fail."""
    found = (*_of_files(model), *_of_types(model), *_of_partitions(model))
    place = (*_MODELS, model.table)
    return [config.problem(Code.WRONG_VALUE, message, (*place, *key), hint=hint) for key, message, hint in found]


def joint_problems(config: Config, models: Sequence[Model], *, all_known: bool) -> list[Problem]:
    """Returns the problems between valid models, and those of their unit tests."""
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
        key = _MODELS if error.model is None else (*_MODELS, error.model)
        return [config.problem(Code.WRONG_VALUE, error.message, key, hint=error.hint)]
    return _of_tests(config, pipeline, all_known=all_known)


def _of_files(model: Model) -> Iterator[_Wrong]:
    kind = model.kind
    if isinstance(kind, Seed) and not (model.folder / kind.csv).is_file():
        yield ("csv",), f"file not found: {model.folder / kind.csv}", _PATH
    if isinstance(kind, Append) and kind.files is not None:
        ending = Path(kind.files).suffix.removeprefix(".").lower()
        if ending.isalnum() and ending not in READERS:
            yield ("files",), f"files that end in {ending} cannot be loaded", f"use {', '.join(READERS)}"


def _of_types(model: Model) -> Iterator[_Wrong]:
    for name, kind in model.kind.columns.items() if isinstance(model.kind, Append | Seed) else ():
        try:
            type_sql(name, kind)
        except SchemaError as error:
            yield ("columns", name), error.message.splitlines()[0], error.hint


def _of_partitions(model: Model) -> Iterator[_Wrong]:
    hint = "write a column, or year(column), month(column), day(column), hour(column) or bucket(n, column)"
    for key in model.partitioned_by:
        if not is_partition_key(key):
            yield ("partitioned_by",), f"the partition key {key!r} has an unknown function", hint


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


def empty_lake(
    stack: contextlib.ExitStack,
    name: str,
    *,
    alias: str | None = None,
    secrets: Sequence[Secret] = (),
    session: Any = None,
) -> Lake:
    """Opens a temporary lake."""
    return stack.enter_context(stack.enter_context(empty_store(name, alias, secrets)).open(session))


_KINDS: Mapping[str, type] = {"models": dict, "python": list, "tests": dict}

# The first word of a query. It does not matter whether the rest is valid.
_QUERY = re.compile(r"\s*(SELECT|WITH|FROM|VALUES|TABLE|PIVOT|DESCRIBE|SUMMARIZE|\(|--|/\*)(\s|$)", re.IGNORECASE)
_PATH = "check the path, which starts from the folder of the configuration"


def declared_pipeline(config: Config) -> Pipeline:
    """Loads the models of `[pipeline]`.

    Args:
        config: The configuration; files are relative to its folder.

    Raises:
        ConfigError: The table `[pipeline]` is invalid.
        PipelineError: A model is invalid.
    """
    section = _section(config)
    folder = config.path.parent if config.path is not None else Path.cwd()
    paths = [_inside(config, folder, path, ("pipeline", "python")) for path in section.get("python", [])]
    models = [model for path in paths for model in _from_python(config, path)]
    models += [_from_table(config, folder, name, table) for name, table in section.get("models", {}).items()]
    return Pipeline(models)


def pipeline_problems(config: Config) -> list[Problem]:
    """Finds the problems of `[pipeline]` without running Python files."""
    folder = config.path.parent if config.path is not None else Path.cwd()
    try:
        section = _section(config)
    except ConfigError as error:
        return list(error.problems)
    problems: list[Problem] = []
    for path in section.get("python", []):
        try:
            _file(config, folder, path, ("pipeline", "python"))
        except ConfigError as error:
            problems += error.problems
    models: list[Model] = []
    for name, table in section.get("models", {}).items():
        try:
            model = _from_table(config, folder, name, table)
            check(model)
        except ConfigError as error:
            problems += error.problems
        except ModelSqlError as error:
            key = config.place(("pipeline", "models", name)).key
            problems.append(error.problem._replace(key=key))
        except PipelineError as error:
            problems.append(
                config.problem(Code.WRONG_VALUE, error.message, ("pipeline", "models", name), hint=error.hint)
            )
        else:
            models.append(model)
            problems += model_problems(config, model)
    problems += unit_test_problems(config)
    # A model that is left out would be an unknown input of the others.
    return problems or joint_problems(config, models, all_known=not section.get("python"))


@contextlib.contextmanager
def opened(
    config: Config,
    pipeline: Pipeline,
    models: Sequence[str],
    store: str | None,
    engine: str,
    *,
    read_only: bool = False,
) -> Iterator[tuple[Lake, Mapping[str, Lake]]]:
    """Opens the store of a pipeline and the stores that the selected models read.

    Args:
        models: The selected models, as for `Pipeline.chosen`.
        store: The store that contains the models' tables; None for the default store.
        read_only: True to create and change nothing. A store without a lake is then opened as an empty lake.

    Yields:
        The lake of the pipeline, and the others by the names of their stores.
    """
    main = config.get_store(store)
    inputs = {table for model in pipeline.chosen(models) for table in pipeline.stored_inputs(model)}
    read = {table.split(".")[0] for table in inputs if table.count(".") > 1}
    with contextlib.ExitStack() as stack:
        session = None
        stores = {name: config.get_store(name) for name in sorted(read)}
        if engine == "spark":
            session = spark_session(main, *stores.values())
        lakes = [
            opened_for_reading(one, stack, session) if read_only else stack.enter_context(one.open(session))
            for one in (main, *stores.values())
        ]
        yield lakes[0], dict(zip(stores, lakes[1:], strict=True))


def opened_for_reading(store: Store, stack: contextlib.ExitStack, session: Any = None) -> Lake:
    """Opens a lake and changes nothing; a store without a lake is opened as an empty lake."""
    try:
        return stack.enter_context(store.open(session, read_only=True))
    except CatalogMissingError:
        return _empty_lake(store, stack, session)


def _empty_lake(store: Store, stack: contextlib.ExitStack, session: Any) -> Lake:
    """Opens a temporary lake without tables and runs, whose queries can read the files that the store can read.

    A plan needs the engine of a lake: it lists new files and counts rows with it.
    """
    lake = empty_lake(stack, store.name, alias=store.alias, secrets=store.secrets, session=session)
    storage = store.storage_backend
    if storage is not None:
        statements: tuple[Statement, ...] = (
            *map(LoadExtension, storage.extensions),
            *storage.duckdb_settings,
            *storage.secrets(store.names),
        )
        for statement in statements:
            lake._session.writer.run(statement)  # noqa: SLF001 - secrets and settings are those of the whole instance
    return lake


def _section(config: Config) -> Mapping[str, Any]:
    section = config.pipeline
    if not section:
        raise PipelineError(
            "the configuration has no [pipeline]", hint='write [pipeline] and add python = ["models.py"] below it'
        )
    problems = []
    for key, value in section.items():
        if key not in _KINDS:
            hint = f"use one of: {', '.join(_KINDS)}"
            problems.append(config.problem(Code.UNKNOWN_KEY, "unknown key", ("pipeline", key), hint=hint))
        elif not isinstance(value, _KINDS[key]):
            hint = 'write python = ["models.py"], and [pipeline.models."schema.table"]'
            problems.append(config.problem(Code.WRONG_TYPE, "has the wrong type", ("pipeline", key), hint=hint))
    if problems:
        raise ConfigError(problems)
    return section


def _inside(config: Config, folder: Path, path: object, key: tuple[str, ...]) -> Path:
    """Resolves a path in the configuration, following links."""
    if not isinstance(path, str) or escaped(path) != path:
        raise ConfigError([config.problem(Code.WRONG_VALUE, "must be a path", key, hint="write it in quotes")])
    found = folder / path
    if not found.resolve().is_relative_to(folder.resolve()):
        hint = "move the file into the folder of the configuration, or below it"
        problem = config.problem(Code.WRONG_VALUE, f"{path} is outside the configuration's folder", key, hint=hint)
        raise ConfigError([problem])
    return found


def _file(config: Config, folder: Path, path: object, key: tuple[str, ...]) -> Path:
    found = _inside(config, folder, path, key)
    if not found.is_file():
        raise ConfigError([_file_problem(config, key, f"file not found: {found}", _PATH)])
    return found


def _file_problem(config: Config, key: tuple[str, ...], message: str, hint: str) -> Problem:
    return config.problem(Code.WRONG_VALUE, message, key, hint=hint)


def _query(config: Config, folder: Path, path: str, key: tuple[str, ...]) -> Query:
    if _QUERY.match(path) and not path.endswith(".sql"):
        hint = f'write the query to a file, such as models/{key[-2]}.sql, and sql = "models/{key[-2]}.sql"'
        raise ConfigError([_file_problem(config, key, "must be the path of a file, not a query", hint)])
    found = _file(config, folder, path, key)
    most = MAX_UNTRUSTED_BYTES if config.is_untrusted else MAX_BYTES
    try:
        with found.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            message = f"{path} is larger than {most // 1024} KiB"
            raise ConfigError([_file_problem(config, key, message, "split it into several models")])
        query = Query(content.decode(), found, secrets=config.secrets)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        hint = "save it as UTF-8, and check its permissions"
        raise ConfigError([_file_problem(config, key, f"{path} cannot be read: {reason}", hint)]) from None
    if config.is_untrusted:
        query.check_length()
    return query


def _from_python(config: Config, path: Path) -> list[Model]:
    if not path.is_file():
        raise ConfigError([_file_problem(config, ("pipeline", "python"), f"file not found: {path}", _PATH)])
    name = f"lakeconf_models_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file", hint="rename it: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PipelineError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    found = [value for value in vars(module).values() if isinstance(value, Model)]
    return list({id(model): model for model in found}.values())


def _from_table(config: Config, folder: Path, name: str, table: Any) -> Model:
    key = ("pipeline", "models", name)
    declared, kind = parsed(config, name, table)
    body: Query | SparkQuery | None = None
    inputs: Mapping[str, str] = declared.inputs if isinstance(declared, QueryDeclaration) else {}
    if isinstance(declared, QueryDeclaration) and declared.sql is not None:
        body = _query(config, folder, declared.sql, (*key, "sql"))
        if declared.dialect == "spark":
            files = ["files"] if isinstance(kind, Append) and kind.files is not None else []
            body = SparkQuery(body.text, [*files, *inputs], body.path, secrets=config.secrets)
    if isinstance(kind, Seed):
        _inside(config, folder, kind.csv, (*key, "csv"))
    return Model(
        name,
        kind,
        body,
        inputs,
        partitioned_by=declared.partitioned_by,
        renamed=declared.renamed,
        dropped=declared.dropped,
        audits=declared.audits,
        comment=declared.comment,
        folder=folder,
        tests=declared.tests.tests(),
        tags=declared.tags,
        declared_at=lambda one: key_place(config, (*key, one)),
    )
