"""Decides whether a staged commit can carry the outcome of a merge or an update, and prepares its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakeconf.catalog.file_footers import have_distinct_paths, read_footers
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.commit.change import Change, Target
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.staged_tables import is_metadata_of
from lakeconf.commit.transaction import Transaction
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_ROW_ID, STAGED_COMMIT_CATALOGS, STAGED_COMMIT_VERSIONS, visible_at
from lakeconf.engines.base import ROW_ID, Engine, SparkOperations, Staged, StagingRequest
from lakeconf.engines.staging import announce, staging_folder
from lakeconf.errors import CommitError
from lakeconf.sql import folded, literal
from lakeconf.write.merge_clauses import ACTION, DELETE, INSERT, UPDATE

# Types that Spark writes like DuckLake. Not lists and maps: Spark writes no field ids for their elements, and DuckLake
# would read NULL.
_TYPES = frozenset(
    ("boolean", "int8", "int16", "int32", "int64", "float32", "float64", "date", "timestamp", "timestamptz")
) | {"varchar", "blob", "struct"}
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


def refusal(transaction: Transaction, target: Target, engine: Engine) -> str | None:
    """Why DuckDB must rewrite the rows of an outcome in the commit's transaction; None if a staged commit can carry it.

    Args:
        transaction: The transaction, without the outcome.
        target: The table.
        engine: The engine that has computed the outcome.
    """
    session, info = transaction.session, target.info
    if session.committer != "staged":
        return f"the store's committer is {session.committer}"
    if not isinstance(engine, SparkOperations):
        return "DuckDB has computed the outcome"
    alone = len(transaction.changes) == 1 and not (transaction.targets or transaction.audits or transaction.runs)
    if transaction.explicit or transaction.has_key or not alone:
        return "the transaction contains more than one write"
    reason = _table_refusal(info)
    if reason is not None:
        return reason
    return lake_refusal(transaction, info)


def _table_refusal(info: TableInfo) -> str | None:
    if info.partition_fields:
        return "the table is partitioned"
    unlike = next((column for column in info.columns if not _is_like(column)), None)
    if unlike is not None:
        return f"the type of the column {unlike.name!r}"
    if hides_places(info):
        return "a column hides the places of rows"
    if not have_distinct_paths(info.columns):
        return "a column has the name of a field of another column"
    return None


def hides_places(info: TableInfo) -> bool:
    """True if a column of a table has the name of a virtual column of DuckLake that locates rows."""
    return any(folded(column.name) in _VIRTUAL for column in info.columns)


def _is_like(column: Column) -> bool:
    known = column.type in _TYPES or column.type.startswith("decimal(")
    return known and all(map(_is_like, column.children))


def lake_refusal(transaction: Transaction, info: TableInfo) -> str | None:
    """Why `ducklake_commit` cannot commit files of a table; None if it can."""
    reader = transaction.session.reader
    with reader.lake_cursor() as cursor:
        query = "SELECT catalog_type, extension_version FROM ducklake_settings(?)"
        ((catalog, version),) = cursor.rows(query, [reader.alias])
    if version not in STAGED_COMMIT_VERSIONS or catalog not in STAGED_COMMIT_CATALOGS:
        return f"the version {version} of the ducklake extension, or a catalog of the type {catalog}"
    if not is_metadata_of(reader.connection, reader.metadata_database, reader.lake_id):
        return "the catalog is in a schema of its own"
    if not reader.data_path_is_absolute or not info.path.startswith(reader.data_path):
        return "the folder of the table is not below an absolute data path"
    parameters = [transaction.snapshot_id, info.table_id]
    with reader.transaction() as metadata:
        if not metadata.rows(_FOLDERS, parameters):
            return "the folder of the table is not relative to the data path"
        if metadata.rows(_OTHER_DELETES, parameters):
            return "the table has deletion vectors"
        if metadata.rows(_REPEATED, parameters):
            return "the table contains a file twice"
    return None


def add_changes(transaction: Transaction, target: Target, engine: Engine, counts: Mapping[str, int]) -> None:
    """Replaces the last change of a transaction, which has staged an outcome, by changes for a staged commit.

    Args:
        transaction: The transaction.
        target: The table.
        engine: The engine that has staged the outcome.
        counts: The number of rows for each action; at least one row is updated or deleted.

    Raises:
        CommitError: The files do not contain the expected rows.
    """
    session, info, outcome = transaction.session, target.info, transaction.changes[-1]
    staged = outcome.staged
    assert staged is not None  # noqa: S101 - it has staged the outcome
    folder = staging_folder(info, transaction.next_token())
    row_ids = f"SELECT {ROW_ID} FROM ({staged.source}) WHERE {ACTION} IN ('{UPDATE}', '{DELETE}')"
    gone = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    deleted = FileChange(info, row_ids=row_ids, row_count=gone, folder=folder)
    transaction.changes[-1] = replace(outcome, staged=replace(staged, row_count=gone), by_files=deleted)
    announce(session.writer, folder, session.reader.lake_id)
    _add(transaction, outcome, info, Staged("", folder=folder, row_count=0))
    for action in (UPDATE, INSERT):
        if not counts.get(action):
            continue
        request = StagingRequest(info, target.types, transaction.next_token(), row_ids=action == UPDATE)
        part = engine.stage_part(staged, f"{ACTION} = '{action}'", request)
        # Updated rows are counted with the deleted ones.
        shown = replace(part, row_count=0) if action == UPDATE else part
        _add(transaction, outcome, info, shown, own_row_ids=action == UPDATE)
        _check_rows(session.writer, info, part, counts[action])
        if action == UPDATE:
            _check_row_ids(session.writer, info, part, f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'")


def _add(
    transaction: Transaction, outcome: Change, info: TableInfo, staged: Staged, *, own_row_ids: bool = False
) -> None:
    by_files = FileChange(info, staged.files, own_row_ids=own_row_ids)
    transaction.add(replace(outcome, staged=staged, decision=None, by_files=by_files))


def _check_rows(writer: Connection, info: TableInfo, part: Staged, count: int) -> None:
    found = sum(footer.row_count for footer in read_footers(writer, part.files))
    if found != count or part.rest is not None:
        raise CommitError(f"Spark wrote {found} rows of {info.full_name} instead of {count}: nothing was written")


def _check_row_ids(writer: Connection, info: TableInfo, part: Staged, updated: str) -> None:
    """Refuses files of updated rows that do not contain exactly the ids of these rows."""
    listed = ", ".join(map(literal, part.files))
    written = f"SELECT {INTERNAL_ROW_ID.name} AS {ROW_ID} FROM read_parquet([{listed}], hive_partitioning = false)"
    summed = f"SELECT count({ROW_ID}), sum(hash({ROW_ID})::HUGEINT), min({ROW_ID}), max({ROW_ID})"
    if writer.rows(f"{summed} FROM ({written})") != writer.rows(f"{summed} FROM ({updated})"):
        raise CommitError(f"Spark wrote other rows of {info.full_name} than those that change: nothing was written")
