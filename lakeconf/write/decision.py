"""The way of each write: a statement that DuckDB runs, or an outcome that Spark computes and a staged commit adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakeconf.catalog.column_types import NESTED, Fact, has_throughout
from lakeconf.catalog.data_file import folder_keys
from lakeconf.catalog.file_footers import have_distinct_paths
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan, with_bytes_per_row
from lakeconf.catalog.pruning.where import Where
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.commit import journal
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.commit.staged_commit import is_metadata_of, table_of_keys
from lakeconf.commit.transaction import DUCKDB, EngineName, Transaction
from lakeconf.ducklake import (
    INTERNAL_ROW_ID,
    PROVEN_STAGED_COMMITS,
    STAGED_COMMIT_CATALOGS,
    STAGED_COMMIT_VERSIONS,
    visible_at,
)
from lakeconf.engines.engine import SparkOperations, Staged
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.sql import folded, spark_folded
from lakeconf.wording import byte_size

_BY_DUCKDB = 'omit engine="spark": then DuckDB carries it out'
# Up to these sizes, a statement is faster than another Spark job. Sizes of Parquet files: DuckDB keeps the frame of a
# merge in memory; of the files it reads the keys and the rows that change.
MOST_FRAME_BYTES = 128 * 1024**2
MOST_FILE_BYTES = 4 * 1024**3
# Of the updated rows in the files of the table; an estimate.
LEAST_BYTES = 64 * 1024**2
# DuckLake needs 30 to 60 bytes of memory for each row that a statement deletes, also if it drops whole files. DuckDB
# counts the rows in 0.02 s for 2,000,000, and a Spark job takes a second.
ROWS_PER_STATEMENT = 2_000_000
# DuckLake's DELETE needs 6 MB for so many rows. It keeps deletes of few rows in the catalog.
FEWEST_POSITIONS = 100_000
_FILES = "its files become files of the table"
SEVERAL = "the transaction contains more than one write"
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


class Amount(NamedTuple):
    """Something that a write reads or changes, and the most of it for a statement."""

    what: str
    value: int
    most: int
    unit: Callable[[int], str] = byte_size

    def __str__(self) -> str:
        return f"{self.what} {self.unit(self.value)}"


class Decision(NamedTuple):
    """The way of a write: an outcome that Spark computes, or a statement that DuckDB runs; and why."""

    by_spark: bool
    reason: str

    def __str__(self) -> str:
        return f"{'spark' if self.by_spark else 'duckdb'}: {self.reason}"


def merged(frame_bytes: int, plan: ScanPlan) -> tuple[Amount, ...]:
    """The amounts of a merge: its frame, and the files that can match."""
    return Amount("the frame has", frame_bytes, MOST_FRAME_BYTES), matching_files(plan)


def matching_files(plan: ScanPlan) -> Amount:
    """What DuckDB would read."""
    size = sum(file.file_size_bytes for file in plan.files)
    return Amount(f"the files that can match ({len(plan.files)}) have", size, MOST_FILE_BYTES)


def searched(plan: ScanPlan) -> tuple[Amount, ...]:
    """The amount of a delete before its rows are counted: those of the files that can match."""
    count = sum(file.record_count for file in plan.files)
    return (Amount(f"the files that can match ({len(plan.files)}) have", count, ROWS_PER_STATEMENT, _rows),)


def counted(count: int) -> tuple[Amount, ...]:
    """The amount of a delete whose rows DuckDB has counted."""
    return (Amount("those to delete are", count, ROWS_PER_STATEMENT, _rows),)


def deleted(count: int) -> tuple[Amount, ...]:
    """The amount of a delete whose rows are found: those in files that keep other rows."""
    return (Amount("in files that keep rows, those to delete are", count, FEWEST_POSITIONS, _rows),)


def updated(session: Session, info: TableInfo, count: int) -> tuple[Amount, ...]:
    """The amount of an update."""
    # From the catalog: the footers of the outcome would need requests.
    size = int(count * (with_bytes_per_row(session.reader, info).bytes_per_row or 0))
    return (Amount("the updated rows have about", size, LEAST_BYTES),)


def _rows(count: int) -> str:
    return f"{count:,} rows"


def by_size(session: Session, amounts: Sequence[Amount], wanted: EngineName | None = None) -> Decision:
    """The rule: Spark computes what is too large for a statement, unless `engine=` or the store says otherwise."""
    if wanted is not None:
        return Decision(wanted == "spark", f"engine={wanted!r}")
    if session.committer == "staged":
        return Decision(by_spark=True, reason="the store's committer is staged")
    for amount in amounts:
        if amount.value > amount.most:
            return Decision(by_spark=True, reason=f"{amount}, more than {amount.unit(amount.most)}")
    return Decision(by_spark=False, reason="; ".join(map(str, amounts)))


def decide(transaction: Transaction, info: TableInfo, amounts: Sequence[Amount], *, adds_rows: bool = True) -> Decision:
    """The way of a write, by its size and by what a staged commit can do.

    Raises:
        UnsupportedError: The write has `engine="spark"`, and no staged commit can carry it out.
    """
    session, wanted = transaction.session, transaction.wanted
    found = by_size(session, amounts, wanted)
    refused = engine_refusal(session, wanted)
    if refused is None and found.by_spark:
        has_more = transaction.changes or transaction.targets or transaction.audits or transaction.events
        several = transaction.explicit or bool(has_more)
        refused = _refusal(session, info, transaction.snapshot_id, wanted, several=several, adds_rows=adds_rows)
        refused = refused or key_refusal(transaction)
    return found if refused is None else by_statement(transaction, info, refused)


def by_statement(transaction: Transaction, info: TableInfo, reason: str) -> Decision:
    """The decision for a statement; an error if the write has `engine="spark"`."""
    if transaction.wanted == "spark":
        raise UnsupportedError(f"Spark cannot carry out the write to {info.full_name}: {reason}", hint=_BY_DUCKDB)
    return Decision(by_spark=False, reason=reason)


def after_error(transaction: Transaction, error: LakeconfError) -> Decision:
    """The decision for a statement after an error of Spark, which is raised if the write has `engine="spark"`."""
    if transaction.wanted == "spark":
        # Its hint is for reads, or for writes by any engine.
        raise UnsupportedError(error.message, hint=_BY_DUCKDB) if isinstance(error, UnsupportedError) else error
    # Not the message, which may quote values: the commit records the reason.
    return Decision(by_spark=False, reason="Spark does not compute it like DuckDB")


def of_rows(transaction: Transaction, info: TableInfo, staged: Staged) -> Decision:
    """The way of new rows: their files become files of the table, or DuckDB inserts the rows."""
    session, wanted = transaction.session, transaction.wanted
    if DUCKDB in (wanted, session.engine.name):
        return by_statement(transaction, info, str(engine_refusal(session, wanted)))
    if staged.row_count != 0 and (staged.rest is not None or not (staged.files and staged.keeps_files)):
        return by_statement(transaction, info, "no files of Spark contain all rows")
    return Decision(by_spark=True, reason=_FILES)


def explained(scope: Scope, table: str, where: Where | None) -> dict[str, str]:
    """The way of each write to the rows of a scan, as far as it is known before; for `Table.explain`."""
    session, snapshot_id = scope.session, scope.snapshot_id
    if not isinstance(session.engine, SparkOperations):
        return {}
    plan = plan_scan(session.reader, table, snapshot_id, None, where)
    info = load_table(session.reader, table, snapshot_id)

    def refusal(*, adds_rows: bool) -> str | None:
        several = scope.transaction is not None
        return engine_refusal(session) or _refusal(
            session, info, snapshot_id, None, several=several, adds_rows=adds_rows
        )

    def way(amounts: Sequence[Amount], *, adds_rows: bool = True) -> Decision:
        found = by_size(session, amounts)
        reason = refusal(adds_rows=adds_rows) if found.by_spark else None
        return found if reason is None else Decision(by_spark=False, reason=reason)

    types = _types_refusal(info) or _keys_refusal(info, registered=True)
    found = way(searched(plan), adds_rows=False)
    is_counted = found.by_spark and not by_size(session, (matching_files(plan),)).by_spark
    counts = f"; duckdb, if at most {_rows(ROWS_PER_STATEMENT)} of them satisfy the condition" * is_counted
    update = str(way(updated(session, info, sum(file.record_count for file in plan.files))))
    return {
        "append": str(Decision(types is None, types or _FILES)),
        "delete": f"{found}{counts}",
        "overwrite": f"{way(searched(plan))}{'' if where is None else counts}",
        "update": update.replace("the updated rows have about", "with all rows of the files, the updated rows have"),
        "merge": _expected_merge(session, plan, refusal(adds_rows=True)),
        "execute": "duckdb: SQL runs in the commit",
    }


def _expected_merge(session: Session, plan: ScanPlan, refused: str | None) -> str:
    """Who would join the rows of a merge, and who would commit those that Spark updates."""
    found, is_auto = by_size(session, merged(0, plan)[1:]), session.committer == "auto"
    limits = "" if found.by_spark else f"; spark, if the frame has more than {byte_size(MOST_FRAME_BYTES)}"
    if refused is not None:
        return f"{found}{limits}; not staged: {refused}"
    return f"{found}{limits}" + (f"; staged, if the updated rows have more than {byte_size(LEAST_BYTES)}" * is_auto)


def engine_refusal(session: Session, wanted: EngineName | None = None) -> str | None:
    """Why no write can be an outcome, whatever it is; None if one can be."""
    if not isinstance(session.engine, SparkOperations):
        return f"the lake was opened with{'out Spark' if session.engine.name == DUCKDB else ' Spark Connect'}"
    if wanted == DUCKDB:
        return "engine='duckdb'"
    return "the store's committer is public" if session.committer == "public" else None


def _refusal(
    session: Session, info: TableInfo, snapshot_id: int, wanted: EngineName | None, *, several: bool, adds_rows: bool
) -> str | None:
    """Why no staged commit can carry out an outcome; None if one can."""
    unproven = _unproven(session.reader) if session.committer == "auto" and wanted is None else None
    if unproven is not None or several:
        return unproven or SEVERAL
    if adds_rows:
        return table_refusal(session, info, snapshot_id)
    return _HIDDEN if hides_places(info) else lake_refusal(session, info, snapshot_id)


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


def _definition_refusal(info: TableInfo) -> str | None:
    # Not lists and maps: Spark writes no field ids for their elements, and DuckLake would read NULL.
    refused = _types_refusal(info, ("struct",))
    if refused is None and hides_places(info):
        return _HIDDEN
    if refused is None and len({spark_folded(column.name) for column in info.columns}) < len(info.columns):
        return "Spark takes the names of two columns for the same"
    if refused is None and not have_distinct_paths(info.columns):
        return "a column has the name of a field of another column"
    return refused or _keys_refusal(info, registered=False)


def _types_refusal(info: TableInfo, nested: Sequence[str] = NESTED) -> str | None:
    unlike = next((column for column in info.columns if not has_throughout(column, Fact.AS_SPARK, nested)), None)
    return None if unlike is None else f"the type of the column {unlike.name!r}"


def _keys_refusal(info: TableInfo, *, registered: bool) -> str | None:
    is_lacking = info.partition_fields and not folder_keys(info, registered=registered)
    return "the partition keys of the table" if is_lacking else None


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
