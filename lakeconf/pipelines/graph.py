"""Columns and the columns from which they are computed, and a graph of models in Mermaid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeconf.logs import escaped
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline


@dataclass(frozen=True, order=True)
class SourceColumn:
    """A column of an input; `*` stands for all columns of an input whose columns are unknown."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


# The sources of each column; None if they are unknown.
Lineage = Mapping[str, Sequence[SourceColumn] | None]


def mermaid(pipeline: Pipeline, models: Sequence[Model]) -> str:
    """The graph as Mermaid, which many sites draw; tables that are no models have round corners."""
    inputs = {model.table: dict.fromkeys(pipeline.inputs(model).values()) for model in models}
    kinds = {model.table: model.kind.name for model in models}
    tables = dict.fromkeys([*kinds, *(table for read in inputs.values() for table in read)])
    numbers = {table: f"t{number}" for number, table in enumerate(tables)}
    lines = [f'    {numbers[table]}["{_text(table)}<br>{kinds[table]}"]' for table in kinds]
    lines += [f'    {number}("{_text(table)}")' for table, number in numbers.items() if table not in kinds]
    lines += [f"    {numbers[source]} --> {numbers[table]}" for table, read in inputs.items() for source in read]
    return "\n".join(["flowchart LR", *lines])


def _text(name: str) -> str:
    """A name in Mermaid, which reads character references."""
    return "".join(one if one.isalnum() or one in "_. " else f"#{ord(one)};" for one in escaped(name))


def sources_text(sources: Sequence[SourceColumn] | None) -> str:
    """The sources of a column in words."""
    if sources is None:
        return "unknown"
    return ", ".join(map(str, sources)) or "no column"
