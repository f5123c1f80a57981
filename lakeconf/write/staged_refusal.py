"""Why no staged commit can carry out a write, so that it takes statements."""

from __future__ import annotations

from lakeconf.catalog.column_types import Fact, has_throughout
from lakeconf.catalog.data_file import folder_keys
from lakeconf.catalog.file_footers import have_distinct_paths
from lakeconf.catalog.pruning.scan_plan import with_bytes_per_row
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit import journal
from lakeconf.commit.session import Session
from lakeconf.commit.staged_commit import is_metadata_of, table_of_keys
from lakeconf.commit.transaction import Transaction
from lakeconf.ducklake import (
    INTERNAL_ROW_ID,
    PROVEN_STAGED_COMMITS,
    STAGED_COMMIT_CATALOGS,
    STAGED_COMMIT_VERSIONS,
    visible_at,
)
from lakeconf.engines.engine import SparkOperations
from lakeconf.errors import LakeconfError
from lakeconf.sql import folded
from lakeconf.wording import byte_size

# For fewer bytes of updated rows, in the files of the table, DuckDB is faster than another Spark job; an estimate.
LEAST_BYTES = 64 * 1024**2
_PUBLIC = "the store's committer is public"
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


def outcome_refusal(
    transaction: Transaction, info: TableInfo, *, adds_rows: bool = True, updated: int | None = None
) -> str | None:
    """Why no staged commit can or should carry out an outcome that Spark computes; None if one can."""
    session = transaction.session
    if not isinstance(session.engine, SparkOperations):
        return "the lake was opened without Spark"
    refused = _choice_refusal(session) or (None if updated is None else size_refusal(session, info, updated))
    if refused is not None:
        return refused
    if transaction.explicit or transaction.changes or transaction.targets or transaction.audits or transaction.events:
        return "the transaction contains more than one write"
    if hides_places(info):
        return _HIDDEN
    of_table = table_refusal if adds_rows else lake_refusal
    return of_table(session, info, transaction.snapshot_id) or key_refusal(transaction)


def size_refusal(session: Session, info: TableInfo, updated: int) -> str | None:
    """Why DuckDB is faster because so few rows are updated; None if they are many, or if the size does not matter."""
    if session.committer != "auto":
        return None
    # From the catalog: the footers of the outcome would need requests.
    size = int(updated * (with_bytes_per_row(session.reader, info).bytes_per_row or 0))
    if size >= LEAST_BYTES:
        return None
    return f"the updated rows have about {byte_size(size)}, less than {byte_size(LEAST_BYTES)}"


def _choice_refusal(session: Session) -> str | None:
    if session.committer == "public":
        return _PUBLIC
    return _unproven(session.reader) if session.committer == "auto" else None


def table_refusal(session: Session, info: TableInfo, snapshot_id: int) -> str | None:
    """Why no outcome for a table can be staged; None if one can be."""
    return _definition_refusal(info) or lake_refusal(session, info, snapshot_id)


def key_refusal(transaction: Transaction) -> str | None:
    """Why a staged commit cannot record the key of a transaction's write; None if it can, or if there is no key."""
    if transaction.key is None:
        return None
    info = table_of_keys(transaction.session.reader, transaction.snapshot_id)
    if info is None:
        return f"the lake does not have the table {journal.TABLE} yet"
    if info.partition_fields:
        return f"the partitions of {journal.TABLE}"
    return lake_refusal(transaction.session, info, transaction.snapshot_id)


def committer_of_merges(session: Session, info: TableInfo, snapshot_id: int) -> str:
    """Who would commit the rows of a table that Spark updates in a merge, and why; for `Table.explain`."""
    reason = _choice_refusal(session) or table_refusal(session, info, snapshot_id)
    if reason is not None:
        return f"by DuckDB: {reason}"
    size = f", if the updated rows have at least {byte_size(LEAST_BYTES)}" if session.committer == "auto" else ""
    return f"by a staged commit{size}"


def _definition_refusal(info: TableInfo) -> str | None:
    # Not lists and maps: Spark writes no field ids for their elements, and DuckLake would read NULL.
    unlike = next((column for column in info.columns if not has_throughout(column, Fact.AS_SPARK, ("struct",))), None)
    if unlike is not None:
        return f"the type of the column {unlike.name!r}"
    if hides_places(info):
        return _HIDDEN
    if not have_distinct_paths(info.columns):
        return "a column has the name of a field of another column"
    if info.partition_fields and not folder_keys(info, registered=False):
        return "the partition keys of the table"
    return None


def hides_places(info: TableInfo) -> bool:
    """True if a column of a table has the name of a virtual column of DuckLake that locates rows."""
    return any(folded(column.name) in _VIRTUAL for column in info.columns)


def lake_refusal(session: Session, info: TableInfo, snapshot_id: int) -> str | None:
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
