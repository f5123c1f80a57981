"""Loads the pipeline that the configuration declares, finds what is wrong with it, and opens its stores."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakeconf.config.codes import Code
from lakeconf.config.config import Config
from lakeconf.config.file_limits import MAX_BYTES, MAX_UNTRUSTED_BYTES, MAX_UNTRUSTED_SQL
from lakeconf.errors import CatalogMissingError, ConfigError, PipelineError, Problem, SchemaError, exists
from lakeconf.lake.lake import Lake
from lakeconf.lake.opening import empty_store
from lakeconf.logs import escaped
from lakeconf.pipelines.file_rows import READERS
from lakeconf.pipelines.models.body import ModelSqlError, Query, SparkQuery
from lakeconf.pipelines.models.declaration import QueryDeclaration, key_place, parsed
from lakeconf.pipelines.models.kinds import Append, Seed
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.models.unit_tests import check_unit_test, declared_unit_tests
from lakeconf.pipelines.pipeline import Pipeline, check
from lakeconf.secret import Secret
from lakeconf.sql import LoadExtension, Statement
from lakeconf.store import Store
from lakeconf.write.ddl import is_partition_key, type_sql

_MODELS, _TESTS, _PYTHON = ("pipeline", "models"), ("pipeline", "tests"), ("pipeline", "python")
_KINDS: Mapping[str, type] = {"models": dict, "python": list, "tests": dict}
_PATH = "check the path, which starts from the folder of the configuration"
_PARTITION_HINT = "write a column, or year(column), month(column), day(column), hour(column) or bucket(n, column)"


def declared_pipeline(config: Config) -> Pipeline:
    """Loads the models of `[pipeline]`.

    Args:
        config: The configuration; files are relative to its folder.

    Raises:
        ConfigError: The table `[pipeline]` is invalid.
        PipelineError: A model is invalid.
    """
    section = _section(config)
    paths = [_file(config, path, _PYTHON) for path in section.get("python", [])]
    models = [model for path in paths for model in _from_python(path)]
    models += [_from_table(config, name, table) for name, table in section.get("models", {}).items()]
    return Pipeline(models)


def pipeline_problems(config: Config) -> list[Problem]:
    """Finds the problems of `[pipeline]` without running Python files."""
    try:
        section = _section(config)
    except ConfigError as error:
        return list(error.problems)
    problems: list[Problem] = []
    for path in section.get("python", []):
        with _collected(config, _PYTHON, problems):
            _file(config, path, _PYTHON)
    models: list[Model] = []
    read = 0
    for name, table in section.get("models", {}).items():
        with _collected(config, (*_MODELS, name), problems):
            model = _from_table(config, name, table)
            check(model)
            models.append(model)
            problems += _model_problems(config, model)
            read += len(model.body.text) if isinstance(model.body, Query) else 0
        if config.is_untrusted and read > MAX_UNTRUSTED_SQL:
            message = f"all queries together are larger than {MAX_UNTRUSTED_SQL // 1024} KiB"
            return [*problems, config.problem(Code.WRONG_VALUE, message, _MODELS, hint="omit --untrusted")]
    with _collected(config, _TESTS, problems):
        declared_unit_tests(config)
    # A model that is left out would be an unknown input of the others.
    return problems or _joint_problems(config, models, all_known=not section.get("python"))


@contextlib.contextmanager
def _collected(config: Config, key: tuple[str, ...], problems: list[Problem]) -> Iterator[None]:
    """Adds the problem that ends a `with` block to a list; `key` is its place if it has no other."""
    try:
        yield
    except ConfigError as error:
        problems += error.problems
    except ModelSqlError as error:
        problems.append(error.problem._replace(key=config.place(key).key))
    except PipelineError as error:
        place = key if error.model is None else (*_MODELS, error.model)
        problems.append(config.problem(Code.WRONG_VALUE, error.message, place, hint=error.hint))


def _model_problems(config: Config, model: Model) -> Iterator[Problem]:
    """Yields the values of a declared model with which each run would fail."""
    kind, key = model.kind, (*_MODELS, model.table)
    if isinstance(kind, Seed) and not (model.folder / kind.csv).is_file():
        message = f"file not found: {model.folder / kind.csv}"
        yield config.problem(Code.WRONG_VALUE, message, (*key, "csv"), hint=_PATH)
    if isinstance(kind, Append) and kind.files is not None:
        ending = Path(kind.files).suffix.removeprefix(".").lower()
        if ending.isalnum() and ending not in READERS:
            message, hint = f"files that end in {ending} cannot be loaded", f"use {', '.join(READERS)}"
            yield config.problem(Code.WRONG_VALUE, message, (*key, "files"), hint=hint)
    for name, text in kind.columns.items() if isinstance(kind, Append | Seed) else ():
        try:
            type_sql(name, text)
        except SchemaError as error:
            message = error.message.splitlines()[0]
            yield config.problem(Code.WRONG_VALUE, message, (*key, "columns", name), hint=error.hint)
    for partition_key in model.partitioned_by:
        if not is_partition_key(partition_key):
            message = f"the partition key {partition_key!r} has an unknown function"
            yield config.problem(Code.WRONG_VALUE, message, (*key, "partitioned_by"), hint=_PARTITION_HINT)


def _joint_problems(config: Config, models: Sequence[Model], *, all_known: bool) -> list[Problem]:
    """Returns the problems between valid models, and those of their unit tests."""
    if not all_known:
        # Such an input may be the table of a model in Python.
        models = [model for model in models if all("." in name for name in model.arguments)]
    problems: list[Problem] = []
    with _collected(config, _MODELS, problems):
        pipeline = Pipeline(models)
        for test in declared_unit_tests(config):
            is_known = test.declared.model in pipeline.by_table
            if is_known or all_known:
                with _collected(config, (*_TESTS, test.name, *(() if is_known else ("model",))), problems):
                    check_unit_test(pipeline, test)
    return problems


@contextlib.contextmanager
def opened_for_reading(store: Store) -> Iterator[Lake]:
    """Opens a lake and changes nothing.

    A store without a lake is opened as a temporary lake without tables and runs, whose queries can read the files that
    the store can read: a plan lists new files and counts rows with it.
    """
    with contextlib.ExitStack() as stack:
        try:
            lake = stack.enter_context(store.open(read_only=True))
        except CatalogMissingError:
            lake = stack.enter_context(empty_lake(store.name, store.alias, store.secrets))
            storage = store.storage_backend
            if storage is not None:
                statements: list[Statement] = [LoadExtension(name) for name in storage.extensions]
                for statement in [*statements, *storage.duckdb_settings, *storage.secrets(store.names)]:
                    lake._session.writer.run(statement)  # noqa: SLF001 - those of the whole instance
        yield lake


@contextlib.contextmanager
def empty_lake(name: str, alias: str | None = None, secrets: Sequence[Secret] = ()) -> Iterator[Lake]:
    """Opens a temporary lake."""
    with empty_store(name, alias, secrets) as store, store.open() as lake:
        yield lake


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


def _wrong(config: Config, key: tuple[str, ...], message: str, hint: str) -> ConfigError:
    return ConfigError([config.problem(Code.WRONG_VALUE, message, key, hint=hint)])


def _folder(config: Config) -> Path:
    return config.path.parent if config.path is not None else Path.cwd()


def _inside(config: Config, path: object, key: tuple[str, ...]) -> Path:
    """Resolves a path in the configuration, following links."""
    if not isinstance(path, str) or escaped(path) != path:
        raise _wrong(config, key, "must be a path", "write it in quotes")
    folder = _folder(config)
    try:
        is_inside = (folder / path).resolve().is_relative_to(folder.resolve())
        exists(folder / path)  # raises an error for a name that is too long
    except OSError as error:
        raise _wrong(config, key, f"{path[:99]} cannot be read: {error.strerror}", _PATH) from None
    if not is_inside:
        hint = "move the file into the folder of the configuration, or below it"
        raise _wrong(config, key, f"{path} is outside the configuration's folder", hint)
    return folder / path


def _file(config: Config, path: object, key: tuple[str, ...]) -> Path:
    file = _inside(config, path, key)
    if not file.is_file():
        raise _wrong(config, key, f"file not found: {file}", _PATH)
    return file


def _query(config: Config, path: str, key: tuple[str, ...]) -> Query:
    sql_file = _file(config, path, key)
    most = MAX_UNTRUSTED_BYTES if config.is_untrusted else MAX_BYTES
    try:
        with sql_file.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise _wrong(config, key, f"{path} is larger than {most // 1024} KiB", "split it into several models")
        query = Query(content.decode(), sql_file, secrets=config.secrets)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        hint = "save it as UTF-8, and check its permissions"
        raise _wrong(config, key, f"{path} cannot be read: {reason}", hint) from None
    if config.is_untrusted:
        query.check_length()
    return query


def _from_python(path: Path) -> list[Model]:
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
    models = [value for value in vars(module).values() if isinstance(value, Model)]
    return list({id(model): model for model in models}.values())


def _from_table(config: Config, name: str, table: Any) -> Model:
    key = (*_MODELS, name)
    declared, kind = parsed(config, name, table)
    body: Query | SparkQuery | None = None
    inputs: Mapping[str, str] = declared.inputs if isinstance(declared, QueryDeclaration) else {}
    if isinstance(declared, QueryDeclaration) and declared.sql is not None:
        body = _query(config, declared.sql, (*key, "sql"))
        if declared.dialect == "spark":
            files = ["files"] if isinstance(kind, Append) and kind.files is not None else []
            body = SparkQuery(body.text, [*files, *inputs], body.path, secrets=config.secrets)
    if isinstance(kind, Seed):
        _inside(config, kind.csv, (*key, "csv"))
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
        folder=_folder(config),
        tests=declared.tests.tests(),
        tags=declared.tags,
        declared_at=lambda part: key_place(config, (*key, part)),
    )
