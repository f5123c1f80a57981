"""Models that belong together: their inputs, their order, and what is wrong with them."""

from __future__ import annotations

import contextlib
import fnmatch
import graphlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lakeconf.commit.audits import is_query
from lakeconf.errors import LakeconfError, PipelineError, suggestion
from lakeconf.pipelines.definition_hash import digest
from lakeconf.pipelines.kinds import Incremental, View
from lakeconf.pipelines.model import Model


@dataclass(frozen=True)
class Pipeline:
    """Models in an order in which each comes after those that it reads.

    Attributes:
        models: The models, in any order.

    Raises:
        PipelineError: A model names no table, two make the same one, an input is not known, or they go in a circle.
    """

    models: Sequence[Model]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for model in self.models:
            with _placed(model):
                check(model)
                if model.table.lower() in seen:
                    raise PipelineError(f"two models make {model.table}", hint="a table is made by one model")
            seen.add(model.table.lower())
            self._check_changes(model)
        self.ordered  # noqa: B018 - raises where they go in a circle

    @cached_property
    def by_table(self) -> Mapping[str, Model]:
        """The models by their tables."""
        return {model.table: model for model in self.models}

    @cached_property
    def ordered(self) -> Sequence[Model]:
        """The models, each behind those that it reads."""
        tables = sorted(self.by_table)
        order = {one: sorted({*self.inputs(self.by_table[one]).values()} & self.by_table.keys()) for one in tables}
        try:
            return [self.by_table[table] for table in graphlib.TopologicalSorter(order).static_order()]
        except graphlib.CycleError as error:
            raise PipelineError(
                f"models read each other in a circle: {' → '.join(reversed(error.args[1]))}",
                hint="one of them has to read what another writes only",
            ) from error

    def inputs(self, model: Model) -> Mapping[str, str]:
        """The tables that a model reads, by what they are called in it.

        Raises:
            PipelineError: It is not known which table is meant.
        """
        with _placed(model):
            return {name: model.inputs.get(name) or self._table_of(model, name) for name in model.arguments}

    def stored_inputs(self, model: Model) -> list[str]:
        """The tables that are read where a model is computed: views are followed to what they read."""
        found: dict[str, None] = {}
        for table in self.inputs(model).values():
            below = self.by_table.get(table)
            is_view = below is not None and isinstance(below.kind, View)
            found.update(dict.fromkeys(self.stored_inputs(below) if below is not None and is_view else [table]))
        return list(found)

    def definition(self, model: Model, *, on_disk: bool = False) -> str:
        """The hash of what makes the rows of a model: its own definition, and those of the views that it reads."""
        views = (self.by_table.get(table) for table in self.inputs(model).values())
        below = [self.definition(view, on_disk=on_disk) for view in views if view and isinstance(view.kind, View)]
        return digest(model.definition_now() if on_disk else model.definition(), *below)

    def chosen(self, tables: Iterable[str]) -> list[Model]:
        """Models by their tables, in order; all where none is named. `+` before a name adds what it reads.

        Args:
            tables: Names, or patterns of names such as `raw.*`.

        Raises:
            PipelineError: There is no such model.
        """
        wanted: set[str] = set()
        for name in tables:
            table = name.removeprefix("+")
            found = fnmatch.filter(self.by_table, table)
            if not found:
                hint = suggestion(table, self.by_table, f"there are {', '.join(self.by_table)}")
                raise PipelineError(f"there is no model {table!r}", hint=hint)
            wanted |= {*found, *(above for one in found for above in (self._above(one) if name != table else ()))}
        return [model for model in self.ordered if not wanted or model.table in wanted]

    def _above(self, table: str) -> Iterator[str]:
        for name in self.inputs(self.by_table[table]).values():
            if name in self.by_table:
                yield name
                yield from self._above(name)

    def _check_changes(self, model: Model) -> None:
        driving = model.driving_input
        by = self.by_table.get(self.inputs(model)[driving]) if driving else None
        if by is not None and isinstance(by.kind, View):
            with _placed(model):
                raise PipelineError(
                    f"the model {model.table} wants the changes of {by.table}, which is a view",
                    hint="a view is not stored, so its changes are not known: name the table below it",
                )

    def _table_of(self, model: Model, name: str) -> str:
        """The table that an argument means."""
        if "." in name:
            return name
        tables = [table for table in self.by_table if table != model.table]
        named = [table for table in tables if table.replace(".", "_") == name]
        named = named or [table for table in tables if table.partition(".")[2] == name]
        if len(named) == 1:
            return named[0]
        problem = f"may be {' or '.join(named)}" if named else "is the table of no model"
        raise PipelineError(
            f"the input {name!r} of the model {model.table} {problem}",
            hint=f'say which table it is: inputs={{"{name}": "schema.table"}}',
        )


def check(model: Model) -> None:
    """Checks a model by itself, whatever others there are.

    Raises:
        PipelineError: It names no table, its SQL is no query, or its kind contradicts it.
    """
    kind = model.kind
    if model.table.count(".") != 1 or not all(model.table.split(".")):
        hint = "write schema.table: analytics.revenue"
        raise PipelineError(f"the model {model.table!r} does not name its table", hint=hint)
    unknown = model.inputs.keys() - set(model.arguments)
    if unknown:
        hint = f"it has {', '.join(model.arguments) or 'none'}"
        raise PipelineError(f"the model {model.table} has no input {min(unknown)!r}", hint=hint)
    if isinstance(kind, Incremental) and (kind.lookback < 0 or (kind.batch is not None and kind.batch < 1)):
        raise PipelineError(
            f"the model {model.table} has a lookback of {kind.lookback} and a batch of {kind.batch}",
            hint="lookback is 0 or more, batch 1 or more",
        )
    for name, audit in model.audits.items():
        if isinstance(audit, str) and not _is_query(audit):
            raise PipelineError(
                f"the audit {name!r} of the model {model.table} is not one query", hint="write one SELECT"
            )
    model.driving_input  # noqa: B018 - raises where it is none of the inputs


def _is_query(sql: str) -> bool:
    try:
        return is_query(sql)
    except LakeconfError:
        return False


@contextlib.contextmanager
def _placed(model: Model) -> Iterator[None]:
    """Errors begin with the place of the model."""
    try:
        yield
    except PipelineError as error:
        place = model.body.place() if model.body is not None else None
        if place is None:
            raise
        raise PipelineError(f"{place}: {error.message}", hint=error.hint) from error
