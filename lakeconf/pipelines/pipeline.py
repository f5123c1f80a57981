"""Pipelines: resolves the inputs of models, orders, validates and draws them."""

from __future__ import annotations

import contextlib
import fnmatch
import graphlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lakeconf.commit.audits import is_query
from lakeconf.ducklake import INTERNAL_SCHEMA
from lakeconf.errors import LakeconfError, PipelineError, suggestion
from lakeconf.logs import escaped
from lakeconf.pipelines.models.body import ModelSqlError, SparkQuery
from lakeconf.pipelines.models.declaration import check_kind
from lakeconf.pipelines.models.definition_hash import digest
from lakeconf.pipelines.models.kinds import Append, Full, Seed, View
from lakeconf.pipelines.models.model import Model
from lakeconf.sql import folded


@dataclass(frozen=True)
class Pipeline:
    """Models, ordered so that each comes after the models that it reads.

    Attributes:
        models: The models, in any order.

    Raises:
        PipelineError: A model is invalid, two models have the same table, an input is unknown, or the models form a
            cycle.
    """

    models: Sequence[Model]

    def __post_init__(self) -> None:
        seen: dict[str, Model] = {}
        for model in self.models:
            with _placed(model):
                first = seen.setdefault(folded(model.table), model)
                if first is not model:
                    raise PipelineError(
                        f"two models write {model.table}: {first.table} is the same name, because names ignore case",
                        hint="remove one of the models, or change its table",
                        model=model.table,
                    )
        for model in self.models:
            with _placed(model):
                check(model)
                self._check_changes(model)
        self.ordered  # noqa: B018 - raises if the models form a cycle

    @cached_property
    def by_table(self) -> Mapping[str, Model]:
        """The models by table."""
        return {model.table: model for model in self.models}

    @cached_property
    def _spelled(self) -> Mapping[str, str]:
        """The tables as their models write them, by the form in which DuckDB compares names."""
        return {folded(table): table for table in self.by_table}

    @cached_property
    def ordered(self) -> Sequence[Model]:
        """The models, each after the models that it needs."""
        order = {table: sorted(self.needed(self.by_table[table])) for table in sorted(self.by_table)}
        for table, needed in order.items():
            if table in needed:
                raise PipelineError(
                    f"the model {table} reads its own table",
                    hint="read other tables only: to add to its rows, use the kinds append, incremental or merge",
                    model=table,
                )
        try:
            return [self.by_table[table] for table in graphlib.TopologicalSorter(order).static_order()]
        except graphlib.CycleError as error:
            cycle = error.args[1][::-1]
            raise PipelineError(
                f"the models form a cycle: {' → '.join(cycle)}",
                hint="remove one of these inputs; make a test of relationships an audit of the model that runs last",
                model=cycle[0],
            ) from error

    def needed(self, model: Model) -> set[str]:
        """Returns the tables of the models that must run before a model: those that it or one of its tests reads."""
        named = {self._spelled.get(folded(test.refers_to)) for test in model.tests if test.refers_to is not None}
        return {*self._read[model.table], *(table for table in named - {model.table} if table is not None)}

    def inputs(self, model: Model) -> Mapping[str, str]:
        """Returns the tables that a model reads, by argument.

        Raises:
            PipelineError: An argument matches no table, or several, or is a table of another store.
        """
        with _placed(model):
            tables = {name: model.inputs.get(name) or self._table_of(model, name) for name in model.arguments}
            for table in tables.values():
                if table.count(".") != 1:
                    raise PipelineError(
                        f"the input {table} of the model {model.table} is not a table of its store, as schema.table",
                        hint="run lakeconf copy first, if it is a table of another store",
                        model=model.table,
                    )
        return {name: self._spelled.get(folded(table), table) for name, table in tables.items()}

    def stored_inputs(self, model: Model) -> list[str]:
        """Returns the stored tables that a model reads, directly or through views."""
        stored: dict[str, None] = {}
        for table in self.inputs(model).values():
            below = self.by_table.get(table)
            is_view = below is not None and isinstance(below.kind, View)
            stored.update(dict.fromkeys(self.stored_inputs(below) if below is not None and is_view else [table]))
        return list(stored)

    def definition(self, model: Model) -> str:
        """Returns a hash of a model's definition and of the views that it reads."""
        views = (self.by_table.get(table) for table in self.inputs(model).values())
        below = [self.definition(view) for view in views if view and isinstance(view.kind, View)]
        return digest(model.definition(), *below)

    def chosen(self, tables: Iterable[str]) -> list[Model]:
        """Returns the selected models in order; all models if `tables` is empty.

        Args:
            tables: Names, patterns of names such as `raw.*`, or tags such as `tag:nightly`. `+` before one adds the
                models that it reads, `+` after it the models that read it.

        Raises:
            PipelineError: A name matches no model.
        """
        matching = {name for text in tables for name in self._matches(text)} or {*self.by_table}
        return [model for model in self.ordered if model.table in matching]

    def _matches(self, text: str) -> set[str]:
        """The models that a selection names."""
        name = text.removeprefix("+").removesuffix("+")
        tag = name.removeprefix("tag:")
        if tag != name:
            matching = [model.table for model in self.models if tag in model.tags]
            existing = sorted({f"tag:{label}" for model in self.models for label in model.tags})
        else:
            matching = [name] if name in self.by_table else fnmatch.filter(self.by_table, name)
            existing = list(self.by_table)
        if not matching:
            raise _unknown(name, existing)
        every = set(matching)
        if text.startswith("+"):
            every.update(*(self._above[table] for table in matching))
        if text.endswith("+"):
            every.update(table for table, above in self._above.items() if not above.isdisjoint(matching))
        return every

    @cached_property
    def _read(self) -> Mapping[str, Sequence[str]]:
        """The models that each model reads, by table."""
        return {
            table: [name for name in self.inputs(model).values() if name in self.by_table]
            for table, model in self.by_table.items()
        }

    @cached_property
    def _above(self) -> Mapping[str, set[str]]:
        """The models that each model reads, directly or not, by table."""
        above: dict[str, set[str]] = {}
        for model in self.ordered:
            read = self._read[model.table]
            above[model.table] = set(read).union(*(above[table] for table in read))
        return above

    def _check_changes(self, model: Model) -> None:
        driving = model.driving_input
        by = self.by_table.get(self.inputs(model)[driving]) if driving else None
        if by is not None and isinstance(by.kind, View):
            raise PipelineError(
                f"the model {model.table} reads the changes of {by.table}, which is a view",
                hint="name a table that the view reads: a view has no change feed",
                model=model.table,
            )
        if by is not None and isinstance(model.kind, Append) and isinstance(by.kind, Full | Seed):
            raise PipelineError(
                f"the model {model.table} appends the new rows of {by.table}, of which each run writes all rows again",
                hint="make it a model of the kind full or merge",
                model=model.table,
            )

    def _table_of(self, model: Model, name: str) -> str:
        """Returns the table that an argument names."""
        if "." in name:
            return name
        tables = [table for table in self.by_table if table != model.table]
        named = [table for table in tables if table.replace(".", "_") == name]
        named = named or [table for table in tables if table.partition(".")[2] == name]
        if len(named) == 1:
            return named[0]
        problem = f"is ambiguous: {' or '.join(named)}" if named else "does not match the table of any model"
        raise PipelineError(
            f"the input {name!r} of the model {model.table} {problem}",
            hint=f'write the schema of the table in SQL, or name it in Python: inputs={{"{name}": "schema.table"}}',
            model=model.table,
        )


def _unknown(name: str, candidates: Sequence[str]) -> PipelineError:
    tag = name.removeprefix("tag:")
    unknown = f"no model matches {name!r}" if set(name) & set("*?[") else f"unknown model {name!r}"
    what = f"no model has the tag {tag!r}" if tag != name else unknown
    otherwise = f"use one of: {', '.join(candidates)}" if candidates else "add the tag, or the model, to the pipeline"
    return PipelineError(what, hint=suggestion(name, candidates, otherwise))


def check(model: Model) -> None:
    """Checks a model on its own, without the other models."""
    kind = model.kind
    if model.table.count(".") != 1 or not all(model.table.split(".")):
        hint = "write schema.table, such as analytics.revenue"
        raise PipelineError(f"{model.table!r} is not a valid table of a model", hint=hint)
    if folded(model.table.split(".")[0]) == INTERNAL_SCHEMA:
        raise PipelineError(
            f"the schema of the model {model.table} is reserved for lakeconf's own records", hint="use another schema"
        )
    if isinstance(kind, View) and isinstance(model.body, SparkQuery):
        raise PipelineError(
            f"the view {model.table} is in Spark's SQL", hint="write it in DuckDB's SQL, or use another kind"
        )
    check_kind(model.table, kind)
    if isinstance(kind, Append) and kind.files is not None and kind.new_rows_of is not None:
        raise PipelineError(
            f"the model {model.table} has both files and new_rows_of",
            hint="remove one: a run reads new files or new rows",
        )
    unknown = model.inputs.keys() - set(model.arguments)
    if unknown:
        hint = f"use one of its inputs: {', '.join(model.arguments)}" if model.arguments else "remove the input"
        raise PipelineError(f"the model {model.table} has no input {min(unknown)!r}", hint=hint)
    for name, audit in model.audits.items():
        if not _is_query(audit):
            raise PipelineError(
                f"the audit {name!r} of the model {model.table} is not a single query", hint="write one SELECT"
            )
    model.driving_input  # noqa: B018 - raises if it is not one of the inputs


def _is_query(sql: object) -> bool:
    try:
        return isinstance(sql, str) and is_query(sql)
    except LakeconfError:
        return False


@contextlib.contextmanager
def _placed(model: Model) -> Iterator[None]:
    """Prefixes errors with the file and line of the model."""
    try:
        yield
    except ModelSqlError:
        raise  # it has a place
    except PipelineError as error:
        if not model.place:
            raise
        raise PipelineError(f"{model.place}{error.message}", hint=error.hint, model=model.table) from error


def mermaid(pipeline: Pipeline, models: Sequence[Model]) -> str:
    """The graph as Mermaid, which many sites draw; tables that are not models have round corners."""
    inputs = {model.table: dict.fromkeys(pipeline.inputs(model).values()) for model in models}
    kinds = {model.table: model.kind.name for model in models}
    tables = dict.fromkeys([*kinds, *(table for read in inputs.values() for table in read)])
    numbers = {table: f"t{number}" for number, table in enumerate(tables)}
    lines = [f'    {numbers[table]}["{_mermaid_text(table)}<br>{kinds[table]}"]' for table in kinds]
    lines += [f'    {number}("{_mermaid_text(table)}")' for table, number in numbers.items() if table not in kinds]
    lines += [f"    {numbers[source]} --> {numbers[table]}" for table, read in inputs.items() for source in read]
    return "\n".join(["flowchart LR", *lines])


def _mermaid_text(name: str) -> str:
    """A name in Mermaid, which reads character references."""
    return "".join(
        character if character.isalnum() or character in "_. " else f"#{ord(character)};" for character in escaped(name)
    )
