"""Groups the files of a plan, so that one relation of Spark can read each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.scan import ScanPlan
from lakeconf.engines.spark.columns import IN_PATH, Found, assumed, by_field_id, by_name, needs_footer
from lakeconf.engines.spark.footers import Stored, footers
from lakeconf.engines.spark.projection import ROW_ID, SNAPSHOT
from lakeconf.engines.spark.reading import reading
from lakeconf.engines.spark.relation import relation
from lakeconf.engines.spark.types import all_types

# They write no bounds where there is a NaN; others write the bounds of the rest, though NaN is greater than all.
_HONEST_WRITERS = ("DuckDB", "parquet-mr")


@dataclass(frozen=True)
class Group:
    """Files that are read alike.

    Attributes:
        places: Of each column of the plan where they have it; None where they lack it.
        is_mapped: True where they are read by name.
        is_assumed: True where nobody has looked into their footers.
        by_duckdb: True where Spark's reader cannot read them.
        has_deletes: True where rows of them are deleted.
        snapshot_filter: As `DataFile.snapshot_filter`.
        has_honest_bounds: False where the files' statistics may leave NaN out, so that no filter may rely on them.
        internal: The names of the columns with row ids and snapshots; None for what a file lacks or nobody looked for.
        files: The files.
    """

    places: tuple[Found | None, ...]
    is_mapped: bool
    is_assumed: bool
    by_duckdb: bool
    has_deletes: bool
    snapshot_filter: int | None
    has_honest_bounds: bool = True
    internal: tuple[str | None, str | None] = (None, None)
    files: tuple[DataFile, ...] = ()


def groups(private: SparkSession, plan: ScanPlan) -> list[Group]:
    """The files of a plan in groups; looks into footers only where the catalog does not say what it needs to know."""
    look = any(needs_footer(column) for column in plan.columns)
    opened = [file for file in plan.files if file.encryption_key is None and (look or file.mapping_id is not None)]
    contents = _contents(private, opened)
    has_floats = any(all_types(column) & {"float32", "float64"} for column in plan.columns)
    usual = tuple(assumed(column) for column in plan.columns)
    found: defaultdict[Group, list[DataFile]] = defaultdict(list)
    for file in plan.files:
        content = contents.get(file.path)
        fields = None if content is None else content.children
        places = usual if fields is None else _places(plan, file, fields)
        key = Group(
            places=places,
            is_mapped=file.mapping_id is not None,
            is_assumed=fields is None,
            by_duckdb=file.encryption_key is not None or not _is_readable(plan, places),
            has_deletes=file.delete_file is not None or bool(file.inlined_deletes),
            snapshot_filter=file.snapshot_filter,
            has_honest_bounds=content is None or not has_floats or content.name.startswith(_HONEST_WRITERS),
            internal=(_name_of(ROW_ID, fields), _name_of(SNAPSHOT, fields)),
        )
        found[key].append(file)
    return [replace(key, files=tuple(files)) for key, files in found.items()]


def _contents(private: SparkSession, files: Sequence[DataFile]) -> dict[str, Stored]:
    """What each file holds, by its path."""
    if not files:
        return {}
    listed = relation(private, files, StructType())
    ordered = sorted(files, key=lambda file: listed.positions[file.path])
    known = footers(private, listed.statuses, [(file.path, file.file_size_bytes) for file in ordered])
    return {file.path: stored for file, stored in zip(ordered, known, strict=True)}


def _places(plan: ScanPlan, file: DataFile, fields: Sequence[Stored]) -> tuple[Found | None, ...]:
    if file.mapping_id is None:
        return tuple(by_field_id(column, fields) for column in plan.columns)
    mappings = plan.name_mappings[file.mapping_id]
    return tuple(by_name(column, mappings, fields) for column in plan.columns)


def _name_of(internal: tuple[int, str], fields: Sequence[Stored] | None) -> str | None:
    return next((field.name for field in fields or () if field.field_id == internal[0]), None)


def _is_readable(plan: ScanPlan, places: Sequence[Found | None]) -> bool:
    return all(
        place is None or place == IN_PATH or reading(column, place) is not None
        for column, place in zip(plan.columns, places, strict=True)
    )
