"""The schema of files that lakeconf wrote with Spark, from the catalog: a scan does not open their footers."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.engines.spark.read.footers import Stored
from lakeconf.engines.spark.types import is_shared
from lakeconf.engines.staging import is_staged


def known_contents(plan: ScanPlan) -> dict[str, Stored]:
    """The schema of each file whose columns lakeconf wrote with the types of the plan, by its path.

    DuckLake matches registered files by name, and its name mapping has an entry for each column of a file. Only the
    columns of the plan are in the result.
    """
    if not all(is_shared(column) and not _was_promoted(column) for column in plan.columns):
        return {}
    schemas = {number: _schema(plan.columns, mappings) for number, mappings in plan.name_mappings.items()}
    return {file.path: schema for file in plan.files if (schema := _schema_of(plan, file, schemas)) is not None}


def _schema_of(plan: ScanPlan, file: DataFile, schemas: dict[int, Stored | None]) -> Stored | None:
    if file.mapping_id is None or not is_staged(plan.table, file.path):
        return None
    return schemas[file.mapping_id]


def _was_promoted(column: Column) -> bool:
    return bool(column.former_types or column.later_types) or any(map(_was_promoted, column.children))


def _schema(columns: Sequence[Column], mappings: Sequence[NameMapping]) -> Stored | None:
    fields = _fields(columns, mappings)
    return None if fields is None else Stored("", None, "struct", fields)


def _fields(columns: Sequence[Column], mappings: Sequence[NameMapping]) -> tuple[Stored, ...] | None:
    """The columns that a mapping has; None if it is not sufficient for one of them."""
    found = []
    by_id = {mapping.field_id: mapping for mapping in mappings if not mapping.in_path}
    for column in columns:
        if column.field_id in by_id:
            mapping = by_id[column.field_id]
            children = _fields(column.children, mapping.children)
            # A field without a mapping can show whether a struct is NULL, and a list needs its element.
            needed = min(len(column.children), 1) if column.type == "struct" else len(column.children)
            if children is None or len(children) < needed:
                return None
            found.append(Stored(mapping.source_name, None, column.type, children))
    return tuple(found)
