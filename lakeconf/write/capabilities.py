"""What a staged commit can carry: tables, types and versions for which Spark's files can become files of the lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from lakeconf.catalog.column_types import NESTED, Fact, has_throughout
from lakeconf.catalog.data_file import folder_keys
from lakeconf.catalog.file_footers import have_distinct_paths
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit import journal
from lakeconf.commit.session import Session
from lakeconf.commit.staged_tables import is_metadata_of
from lakeconf.ducklake import (
    INTERNAL_ROW_ID,
    PROVEN_STAGED_COMMITS,
    STAGED_COMMIT_CATALOGS,
    STAGED_COMMIT_VERSIONS,
    visible_at,
)
from lakeconf.errors import LakeconfError
from lakeconf.sql import folded, spark_folded

# What `engine=` of a write demands: a statement of DuckDB, or files of Spark.
EngineName: TypeAlias = Literal["duckdb", "spark"]
_HIDDEN = "a column hides the places of rows"
# Virtual columns of DuckLake that locate rows, which a column of the table hides; and that of row ids in files.
_VIRTUAL = frozenset(("filename", "file_row_number", "rowid", INTERNAL_ROW_ID.name))
_FOLDERS = f"""
    SELECT 1 FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE t.table_id = $2 AND t.path_is_relative AND s.path_is_relative
      AND {visible_at(row="t")} AND {visible_at(row="s")}
"""

_OTHER_DELETES = f"""
    SELECT 1 FROM ducklake_delete_file WHERE table_id = $2 AND format <> 'parquet' AND {visible_at()} LIMIT 1
"""
_REPEATED = f"""
    SELECT 1 FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()} GROUP BY path HAVING count(*) > 1 LIMIT 1
"""


def commit_obstacle(
    session: Session, info: TableInfo, snapshot_id: int, engine: EngineName | None, *, adds_rows: bool
) -> str | None:
    """Why no staged commit can carry out a write to a table; None if one can."""
    unproven = _unproven(session.reader) if session.committer == "auto" and engine is None else None
    if unproven is not None:
        return unproven
    if adds_rows:
        return table_obstacle(session, info, snapshot_id)
    return _HIDDEN if hides_places(info) else lake_obstacle(session, info, snapshot_id)


def table_obstacle(session: Session, info: TableInfo, snapshot_id: int) -> str | None:
    """Why no staged commit can add files to a table; None if one can."""
    return _definition_obstacle(info) or lake_obstacle(session, info, snapshot_id)


def key_obstacle(session: Session, snapshot_id: int) -> str | None:
    """Why a staged commit cannot record an idempotency key; None if it can."""
    info = journal.table_of_keys(session.reader, snapshot_id)
    if info is None:
        return f"the lake does not have the table {journal.TABLE} yet"
    if info.partition_fields:
        return f"the partitions of {journal.TABLE}"
    return lake_obstacle(session, info, snapshot_id)


def append_obstacle(info: TableInfo) -> str | None:
    """Why files of Spark cannot become files of a table as they are; None if they can."""
    return _types_obstacle(info) or _keys_obstacle(info, registered=True)


def _definition_obstacle(info: TableInfo) -> str | None:
    # Not lists and maps: Spark writes no field ids for their elements, and DuckLake would read NULL.
    unlike = _types_obstacle(info, ("struct",))
    if unlike is not None:
        return unlike
    if hides_places(info):
        return _HIDDEN
    if len({spark_folded(column.name) for column in info.columns}) < len(info.columns):
        return "Spark takes the names of two columns for the same"
    if not have_distinct_paths(info.columns):
        return "a column has the name of a field of another column"
    return _keys_obstacle(info, registered=False)


def _types_obstacle(info: TableInfo, nested: Sequence[str] = NESTED) -> str | None:
    unlike = next((column for column in info.columns if not has_throughout(column, Fact.AS_SPARK, nested)), None)
    return None if unlike is None else f"the type of the column {unlike.name!r}"


def _keys_obstacle(info: TableInfo, *, registered: bool) -> str | None:
    is_lacking = info.partition_fields and not folder_keys(info, registered=registered)
    return "the partition keys of the table" if is_lacking else None


def hides_places(info: TableInfo) -> bool:
    """True if a column of a table has the name of a virtual column of DuckLake that locates rows."""
    return any(folded(column.name) in _VIRTUAL for column in info.columns)


def lake_obstacle(session: Session, info: TableInfo, snapshot_id: int) -> str | None:
    """Why `ducklake_commit` cannot commit files of a table; None if it can."""
    reader = session.reader
    if reader.encrypted:
        return "the files are encrypted"
    version, catalog = _versions(reader)
    if version not in STAGED_COMMIT_VERSIONS or catalog not in STAGED_COMMIT_CATALOGS:
        return f"the version {version} of the ducklake extension, or a catalog of the type {catalog}"
    if not _finds_metadata(reader):
        return "the catalog is in a schema of its own"
    if not reader.data_path_is_absolute or not info.path.startswith(reader.data_path):
        return "the folder of the table is not below an absolute data path"
    parameters = [snapshot_id, info.table_id]
    with reader.transaction() as metadata:
        if not metadata.rows(_FOLDERS, parameters):
            return "the folder of the table is not relative to the data path"
        if metadata.rows(_OTHER_DELETES, parameters):
            return "the table has deletion vectors"
        if metadata.rows(_REPEATED, parameters):
            return "the table contains a file twice"
    return None


def _unproven(reader: CatalogReader) -> str | None:
    version, catalog = _versions(reader)
    if (version, catalog) in PROVEN_STAGED_COMMITS:
        return None
    return f"the committer auto waits for proof: version {version} of the ducklake extension, {catalog} catalog"


def _versions(reader: CatalogReader) -> tuple[str, str]:
    """The version of the extension, and the type of the catalog."""
    with reader.lake_cursor() as cursor:
        query = "SELECT extension_version, catalog_type FROM ducklake_settings(?)"
        ((version, catalog),) = cursor.rows(query, [reader.alias])
    return str(version), str(catalog)


def _finds_metadata(reader: CatalogReader) -> bool:
    try:
        return is_metadata_of(reader.connection, reader.metadata_database, reader.lake_id)
    except LakeconfError:
        return False
