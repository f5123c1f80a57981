"""Groups the files of a plan, so that one relation of Spark can read each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.scan import ScanPlan
from lakeconf.ducklake import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID, InternalColumn
from lakeconf.engines.spark.read.column_reader import reading
from lakeconf.engines.spark.read.columns import (
    IN_PATH,
    Found,
    assumed,
    assumed_by_name,
    by_field_id,
    by_name,
    is_reserved,
    needs_footer,
    without_ids,
)
from lakeconf.engines.spark.read.footers import MILLISECONDS, Stored
from lakeconf.engines.spark.read.source import Source
from lakeconf.engines.spark.read.written_files import known_contents
from lakeconf.errors import UnsupportedError


@dataclass(frozen=True)
class Group:
    """Files that are read in the same way.

    Attributes:
        places: Location of each column of the plan in the files; None if they lack it.
        is_mapped: True if their columns are matched by name.
        is_assumed: True if their footers have not been read.
        by_duckdb: True if Spark's reader cannot read them.
        has_deletes: True if they have deleted rows.
        snapshot_filter: As `DataFile.snapshot_filter`.
        can_filter: False if Spark would filter row groups incorrectly.
        internal: The names of the columns with row ids and snapshots; None for each that is missing or unknown.
        files: The files.
    """

    places: tuple[Found | None, ...]
    is_mapped: bool
    is_assumed: bool
    by_duckdb: bool
    has_deletes: bool
    snapshot_filter: int | None
    can_filter: bool = True
    internal: tuple[str | None, str | None] = (None, None)
    files: tuple[DataFile, ...] = ()


def groups(source: Source, plan: ScanPlan, *, row_ids: bool = False) -> list[Group]:
    """Groups the files of a plan; reads footers only if the catalog does not contain the required information.

    Args:
        source: Reads the files.
        plan: The plan.
        row_ids: True if the scan also returns the ids of the rows.
    """
    contents = _contents(source, plan, row_ids=row_ids)
    found: defaultdict[tuple[object, ...], list[DataFile]] = defaultdict(list)
    for file in plan.files:
        has_deletes = file.delete_file is not None or bool(file.inlined_deletes)
        # Equal schemas are one object.
        schema = id(contents.get(file.path))
        found[schema, file.mapping_id, file.encryption_key is None, has_deletes, file.snapshot_filter].append(file)
    merged: defaultdict[Group, list[DataFile]] = defaultdict(list)
    for files in found.values():
        merged[_group(source, plan, files[0], contents.get(files[0].path))] += files
    return [replace(group, files=tuple(files)) for group, files in merged.items()]


def _group(source: Source, plan: ScanPlan, file: DataFile, content: Stored | None) -> Group:
    """The group of a file, without its files."""
    fields = None if content is None else content.children
    if fields is not None:
        places = _places(plan, file, fields, as_stored=source.by_name)
    else:
        places = tuple(map(assumed_by_name if source.by_name else assumed, plan.columns))
    if source.by_name:
        places = tuple(None if place is None else without_ids(place) for place in places)
    is_clear = not source.by_name or not _are_alike(fields or ())
    by_duckdb = file.encryption_key is not None or not is_clear or not _is_readable(plan, places)
    if by_duckdb and fields is not None:
        places = _places(plan, file, fields, as_stored=True)
    return Group(
        places=places,
        is_mapped=file.mapping_id is not None,
        is_assumed=fields is None,
        by_duckdb=by_duckdb,
        has_deletes=file.delete_file is not None or bool(file.inlined_deletes),
        snapshot_filter=file.snapshot_filter,
        can_filter=not any(place is not None and _has_milliseconds(place) for place in places),
        internal=(_name_of(INTERNAL_ROW_ID, fields), _name_of(INTERNAL_SNAPSHOT_ID, fields)),
    )


def _contents(source: Source, plan: ScanPlan, *, row_ids: bool) -> dict[str, Stored]:
    """The schemas of the files whose columns are not all known otherwise, by path."""
    named = source.by_name
    look = any(needs_footer(column, keeps_structs=source.keeps_structs, by_name=named) for column in plan.columns)
    contents = known_contents(plan)

    def is_opened(file: DataFile) -> bool:
        # Only the footer tells if a column with the name of an internal one is DuckLake's.
        has_internal = named and (row_ids or file.snapshot_filter is not None)
        needed = look or has_internal or file.mapping_id is not None
        return needed and file.encryption_key is None and file.path not in contents

    return contents | source.contents(list(filter(is_opened, plan.files)))


def _places(
    plan: ScanPlan, file: DataFile, fields: Sequence[Stored], *, as_stored: bool = False
) -> tuple[Found | None, ...]:
    if file.mapping_id is None:
        if fields and all(field.field_id is None for field in fields):
            raise UnsupportedError(
                f"the file {file.path} has no field ids, and the catalog has no names for its columns; such files "
                "are in lakes that are older than DuckLake 0.2",
                hint="read the table with DuckDB, and write it to a new table",
            )
        return tuple(by_field_id(column, fields, as_stored=as_stored) for column in plan.columns)
    mappings = plan.name_mappings[file.mapping_id]
    return tuple(by_name(column, mappings, fields) for column in plan.columns)


def _name_of(internal: InternalColumn, fields: Sequence[Stored] | None) -> str | None:
    return next((field.name for field in fields or () if field.field_id == internal.field_id), None)


def _is_readable(plan: ScanPlan, places: Sequence[Found | None]) -> bool:
    # The session that runs the scan may ignore the case of names.
    names = [place.name.lower() for place in places if place is not None and place != IN_PATH]
    return len(set(names)) == len(names) and all(
        place is None or place == IN_PATH or (not _is_hidden(place) and reading(column, place) is not None)
        for column, place in zip(plan.columns, places, strict=True)
    )


def _are_alike(fields: Sequence[Stored]) -> bool:
    """True if two names in a file differ only by case: a session that ignores the case cannot tell them apart."""
    names = [field.name.lower() for field in fields]
    return len(set(names)) < len(names) or any(_are_alike(field.children) for field in fields)


def _is_hidden(place: Found) -> bool:
    """True if the column must be read by a name that Spark's reader or a scan reserves."""
    return place.field_id is None and is_reserved(place.name)


def _has_milliseconds(place: Found) -> bool:
    """True if timestamps are stored in milliseconds: Spark rounds the value of a filter down to compare it."""
    return place.type == MILLISECONDS or any(at is not None and _has_milliseconds(at) for at in place.children)
