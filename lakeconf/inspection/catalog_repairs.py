"""What is wrong in a catalog and can be repaired there, because no row of any snapshot depends on it."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from lakeconf.catalog.data_file import DeleteFile, load_data_files
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.table_statistics import HidingStatistics, hiding_statistics
from lakeconf.catalog.tables import find_table, joined_name
from lakeconf.ducklake import INTERNAL_ROW_ID, OWN_ROW_IDS
from lakeconf.errors import LakeconfError
from lakeconf.logs import escaped
from lakeconf.sql import files_sql, identifier

_REPAIR = "run: lakeconf verify --catalog --repair --backup-to PLACE"
_WRITE_AGAIN = "write the rows of the table again: table.overwrite(table.scan())"
LIVE_IDS = " UNION ALL ".join(
    f"SELECT '{kind} ' || {kind}_name AS what, {kind}_id AS id FROM ducklake_{kind} WHERE end_snapshot IS NULL"  # noqa: S608
    for kind in ("schema", "table", "view")
)
FILE_IDS = " UNION ALL ".join(
    f"SELECT {kind}_file_id AS id FROM ducklake_{kind}_file"  # noqa: S608 - constants
    for kind in ("data", "delete")
)
# All that has an id of `next_catalog_id`, also at older snapshots.
_CATALOG_IDS = " UNION ALL ".join(
    f"SELECT {column} AS id FROM ducklake_{table}"  # noqa: S608 - constants
    for table, column in (
        *((kind, f"{kind}_id") for kind in ("schema", "table", "view", "macro")),
        ("partition_info", "partition_id"),
        ("sort_info", "sort_id"),
    )
)
_ROW_IDS = f"""
    SELECT t.table_id, s.schema_name, t.table_name, any_value(x.next_row_id), max(f.row_id_start + f.record_count)
    FROM ducklake_table AS t
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    JOIN ducklake_table_stats AS x ON x.table_id = t.table_id
    LEFT JOIN ducklake_data_file AS f
        ON f.table_id = t.table_id AND f.row_id_start < {OWN_ROW_IDS} AND f.partial_max IS NULL
    WHERE t.end_snapshot IS NULL GROUP BY ALL ORDER BY ALL
"""  # noqa: S608 - a constant
_STORED = f"""
    SELECT DISTINCT t.table_id, s.schema_name, t.table_name
    FROM ducklake_data_file AS f
    JOIN ducklake_table AS t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    WHERE f.end_snapshot IS NULL
        AND (f.row_id_start IS NULL OR f.row_id_start >= {OWN_ROW_IDS} OR f.partial_max IS NOT NULL)
    ORDER BY ALL
"""  # noqa: S608 - a constant
_GREATEST = (
    "SELECT max(TRY_CAST(stats_max_value AS BIGINT)) FROM {} "  # noqa: S608 - a constant
    f"WHERE path_in_schema = '{INTERNAL_ROW_ID.name}' AND TRY_CAST(stats_max_value AS BIGINT) < {OWN_ROW_IDS}"
)
_INLINED = "SELECT table_id, table_name FROM ducklake_inlined_data_tables ORDER BY ALL"
_TOO_MANY = """
    SELECT s.schema_name, t.table_name, f.data_file_id, d.delete_file_id, d.path, f.record_count
    FROM ducklake_delete_file AS d
    JOIN ducklake_data_file AS f ON f.data_file_id = d.data_file_id
    JOIN ducklake_table AS t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    WHERE d.end_snapshot IS NULL AND f.end_snapshot IS NULL AND d.delete_count > f.record_count
    ORDER BY ALL
"""


@dataclass(frozen=True)
class Finding:
    """Something wrong in a catalog."""

    check: str  # what was checked, in a word or two
    what: str  # what is wrong
    hint: str  # how to repair it
    # The statements that repair it in a copy of the catalog; empty if no repair is safe.
    repairs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.check}: {escaped(self.what)}\n  hint: {self.hint}"

    def data(self) -> dict[str, object]:
        """What it says, as values of JSON."""
        return {"check": self.check, "what": self.what, "hint": self.hint, "repairable": bool(self.repairs)}


def _repairable(check: str, what: str, table: str, change: str, where: str) -> Finding:
    return Finding(check, what, _REPAIR, (f"UPDATE {table} SET {change} WHERE {where}",))  # noqa: S608 - of this module


def too_low_ids(reader: CatalogReader, transaction: MetadataTransaction) -> Iterator[Finding]:
    """Ids that the next commit would use a second time."""
    newest = transaction.newest()
    for column, ids in (("next_catalog_id", _CATALOG_IDS), ("next_file_id", FILE_IDS)):
        ((wanted, value),) = transaction.rows(
            f"SELECT (SELECT max(id) + 1 FROM ({ids})), {column} FROM ducklake_snapshot "  # noqa: S608 - constants
            f"WHERE snapshot_id = {newest}"
        )
        if wanted is not None and wanted > value:
            what = f"{column} is {value}, but the greatest id in use is {wanted - 1}: the next commit repeats it"
            newest_row = "snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)"
            yield _repairable(
                "ids", what, "ducklake_snapshot", f"{column} = greatest({column}, {wanted + 1})", newest_row
            )
    inlined, stored = _inlined_row_ids(transaction), _stored_row_ids(reader, transaction)
    for table_id, schema, name, value, in_files in transaction.rows(_ROW_IDS):
        wanted = max(in_files or 0, inlined[table_id], stored[table_id])
        if wanted > value:
            what = f"the next row id of {joined_name(schema, name)} is {value}, but rows have ids up to {wanted - 1}"
            yield _repairable("ids", what, "ducklake_table_stats", f"next_row_id = {wanted}", f"table_id = {table_id}")


def _inlined_row_ids(transaction: MetadataTransaction) -> dict[int, int]:
    """The first id after those of a table's inlined rows, by table."""
    ids = defaultdict[int, int](int)
    for table_id, name in transaction.rows(_INLINED):
        if transaction.has_table(name):
            ((wanted,),) = transaction.rows(
                f"SELECT coalesce(max(row_id) + 1, 0) FROM {identifier(name)} WHERE row_id < {OWN_ROW_IDS}"  # noqa: S608
            )
            ids[table_id] = max(ids[table_id], int(wanted))
    return ids


def _stored_row_ids(reader: CatalogReader, transaction: MetadataTransaction) -> dict[int, int]:
    """The first id after those in files that store their row ids, such as merged ones, by table."""
    newest, ids = transaction.newest(), defaultdict[int, int](int)
    for table_id, schema, name in transaction.rows(_STORED):
        with contextlib.suppress(LakeconfError):  # a file that cannot be read proves nothing
            table = find_table(transaction, joined_name(schema, name), newest)
            files = [file for file in load_data_files(transaction, table, newest) if file.encryption_key is None]
            rows = reader.connection.rows(
                _GREATEST.format(files_sql("parquet_metadata", [file.path for file in files]))
            )
            ids[table_id] = 0 if rows[0][0] is None else int(rows[0][0]) + 1
    return ids


def too_many_deletes(reader: CatalogReader, transaction: MetadataTransaction) -> Iterator[Finding]:
    """Delete files with more rows, according to the catalog, than their data file; the file itself may be right."""
    for schema, name, data_file_id, delete_file_id, path, record_count in transaction.rows(_TOO_MANY):
        what = f"more rows deleted than there are: {path}"
        count = None
        with contextlib.suppress(LakeconfError):  # a file that cannot be read proves nothing
            table = find_table(transaction, joined_name(schema, name), transaction.newest())
            (file,) = load_data_files(transaction, table, transaction.newest(), [data_file_id])
            if file.delete_file is not None and file.delete_file.delete_file_id == delete_file_id:
                count = _deleted(reader, file.delete_file, record_count)
        if count is None:
            yield Finding("deletes", what, _WRITE_AGAIN)
        else:
            where = f"delete_file_id = {delete_file_id}"
            yield _repairable("deletes", what, "ducklake_delete_file", f"delete_count = {count}", where)


def _deleted(reader: CatalogReader, file: DeleteFile, record_count: int) -> int | None:
    """The number of rows that a delete file deletes; None if they are not all in the data file, each once."""
    if file.encryption_key is not None or file.format != "parquet":
        return None
    query = f"SELECT count(*), count(DISTINCT pos), min(pos), max(pos) FROM {files_sql('read_parquet', [file.path])}"  # noqa: S608
    ((rows, positions, lowest, highest),) = reader.connection.rows(query)
    is_right = rows and rows == positions and lowest >= 0 and highest < record_count
    return int(rows) if is_right else None


def hidden_rows(transaction: MetadataTransaction) -> Iterator[Finding]:
    """Tables whose statistics do not cover their rows, so that plain DuckDB may hide some."""
    by_table = defaultdict[tuple[str, str], list[HidingStatistics]](list)
    for statistics in hiding_statistics(transaction):
        by_table[statistics.schema, statistics.table].append(statistics)
    for table, columns in by_table.items():
        names = ", ".join(statistics.column for statistics in columns)
        what = f"outside lakeconf, DuckDB may hide rows from filters: {joined_name(*table)} ({names})"
        yield Finding("statistics", what, _REPAIR, tuple(statistics.repair for statistics in columns))
