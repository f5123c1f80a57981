"""What bugs and interrupted commits leave behind in a catalog, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeconf.catalog.health import lost_deletes, stale_bounds
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import joined_name
from lakeconf.errors import CatalogError, LakeconfError
from lakeconf.inspection.catalog_files import data_path_files
from lakeconf.inspection.doctor_lake import examine_columns
from lakeconf.logs import escaped
from lakeconf.wording import counted

_SHOWN = 3
_BACKUP = "restore a backup of the catalog from before it (docs/operations.md)"
# The tables whose rows belong to snapshots.
_VERSIONED = tuple(f"ducklake_{kind}" for kind in ("schema", "table", "view", "column", "data_file", "delete_file"))
# DuckDB compares names without the case of the letters of ASCII only.
_FOLDED = "translate({}, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
_LIVE = "end_snapshot IS NULL"
_NEWEST = "(SELECT max(snapshot_id) FROM ducklake_snapshot)"
_CATALOG_IDS = " UNION ALL ".join(
    f"SELECT '{kind} ' || {kind}_name AS what, {kind}_id AS id FROM ducklake_{kind} WHERE {_LIVE}"  # noqa: S608
    for kind in ("schema", "table", "view")
)
_FILE_IDS = " UNION ALL ".join(
    f"SELECT {kind}_file_id AS id FROM ducklake_{kind}_file"  # noqa: S608 - constants
    for kind in ("data", "delete")
)
# Ids below that of a staged commit are given in order by DuckLake.
_ROW_IDS = """
    SELECT t.table_id, s.schema_name || '.' || t.table_name AS what,
        max(f.row_id_start + f.record_count) AS wanted, any_value(x.next_row_id) AS next
    FROM ducklake_data_file AS f
    JOIN ducklake_table AS t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    JOIN ducklake_table_stats AS x ON x.table_id = f.table_id
    WHERE f.row_id_start < 1000000000000000 AND f.end_snapshot IS NULL AND f.partial_max IS NULL GROUP BY ALL
    HAVING max(f.row_id_start + f.record_count) > any_value(x.next_row_id)
"""


@dataclass(frozen=True)
class Finding:
    """Something wrong in a catalog."""

    check: str  # what was checked, in a word or two
    what: str  # what is wrong
    hint: str  # how to repair it

    def __str__(self) -> str:
        return f"{self.check}: {escaped(self.what)}\n  hint: {self.hint}"


@dataclass(frozen=True)
class _Check:
    """A query whose rows, each a text, are wrong."""

    check: str
    query: str
    sentence: str  # `{}` are the rows
    hint: str


_CHECKS = (
    _Check(
        "ids",
        f"SELECT string_agg(what, ' and ' ORDER BY what) FROM ({_CATALOG_IDS}) "  # noqa: S608 - constants
        "WHERE id > 0 GROUP BY id HAVING count(*) > 1",
        "have one id: {}",
        f"DuckLake mixes their columns and files; {_BACKUP}",
    ),
    _Check(
        "ids",
        "SELECT kind || ' ' || id FROM ("  # noqa: S608 - constants
        "SELECT 'snapshot' AS kind, snapshot_id AS id FROM ducklake_snapshot"
        f" UNION ALL SELECT 'file', id FROM ({_FILE_IDS})"
        ") GROUP BY ALL HAVING count(*) > 1",
        "used twice: {}",
        f"rows of one are taken for those of the other; {_BACKUP}",
    ),
    _Check(
        "ids",
        f"SELECT 'column ' || column_id || ' of table ' || table_id FROM ducklake_column WHERE {_LIVE} "  # noqa: S608
        "GROUP BY table_id, column_id HAVING count(*) > 1",
        "used twice: {}",
        f"files have the values of one column only; {_BACKUP}",
    ),
    _Check(
        "names",
        "SELECT any_value(name) FROM ("  # noqa: S608 - constants
        f"SELECT schema_id, table_name AS name FROM ducklake_table WHERE {_LIVE}"
        f" UNION ALL SELECT schema_id, view_name FROM ducklake_view WHERE {_LIVE}"
        f") GROUP BY schema_id, {_FOLDED.format('name')} HAVING count(*) > 1",
        "two tables or views have one name: {}",
        f"two writers created them at once, and only one can be read; {_BACKUP}",
    ),
    _Check(
        "names",
        f"SELECT any_value(column_name) || ' of table ' || table_id FROM ducklake_column WHERE {_LIVE} "  # noqa: S608
        f"GROUP BY table_id, coalesce(parent_column, -1), {_FOLDED.format('column_name')} HAVING count(*) > 1",
        "two columns have one name: {}",
        f"two writers added them at once; {_BACKUP}",
    ),
    _Check(
        "schemas",
        f"SELECT table_name FROM ducklake_table AS t WHERE {_LIVE} AND NOT EXISTS "  # noqa: S608 - constants
        f"(SELECT 1 FROM ducklake_schema AS s WHERE s.schema_id = t.schema_id AND s.{_LIVE})",
        "tables in a schema that was dropped: {}",
        f"a writer created them while another dropped the schema; {_BACKUP}",
    ),
    _Check(
        "files",
        "SELECT path FROM ducklake_data_file AS f WHERE NOT EXISTS "  # noqa: S608 - constants
        f"(SELECT 1 FROM ducklake_table AS t WHERE t.table_id = f.table_id) AND {_LIVE}",
        "data files of no table: {}",
        f"no tool reads their rows; {_BACKUP}",
    ),
    _Check(
        "files",
        f"SELECT any_value(path) FROM ducklake_data_file WHERE {_LIVE} "  # noqa: S608 - constants
        "GROUP BY table_id, path, path_is_relative HAVING count(*) > 1",
        "registered twice: {}",
        "their rows are there twice; write them to another table, and put that in the place of the first",
    ),
    _Check(
        "deletes",
        f"SELECT any_value(path) FROM ducklake_delete_file WHERE {_LIVE} "  # noqa: S608 - constants
        "GROUP BY data_file_id HAVING count(*) > 1",
        "two delete files for one data file, so that deleted rows are visible again: {}",
        "`lakeconf` stops the next delete from the table, and its hint has the SQL that rebuilds it",
    ),
    _Check(
        "deletes",
        "SELECT d.path FROM ducklake_delete_file AS d JOIN ducklake_data_file AS f USING (data_file_id) "
        "WHERE d.end_snapshot IS NULL AND f.end_snapshot IS NULL AND d.delete_count > f.record_count",
        "more rows deleted than there are: {}",
        "write the rows of the table again: table.overwrite(table.scan())",
    ),
)


def audit_catalog(reader: CatalogReader) -> list[Finding]:
    """What is wrong in a catalog; empty if nothing is."""
    with reader.transaction() as transaction:
        findings = [finding for check in _CHECKS for finding in _checked(transaction, check)]
        findings += [*_later_rows(transaction), *_half_snapshots(transaction), *_next_ids(transaction, reader.metadata)]
        try:
            examine_columns(transaction)
        except CatalogError as error:
            findings.append(Finding("columns", error.message, str(error.hint)))
    findings += _by_table("deletes", "deleted rows are visible again", lost_deletes(reader), "repeat the deletes")
    findings += _by_table(
        "statistics",
        "outside lakeconf, DuckDB may hide rows from filters",
        {table: ", ".join(columns) for table, columns in stale_bounds(reader).items()},
        "write the rows of each table again: table.overwrite(table.scan())",
    )
    return findings + _lost_files(reader)


def _checked(transaction: MetadataTransaction, check: _Check) -> Iterator[Finding]:
    texts = [str(text) for (text,) in transaction.rows(f"SELECT * FROM ({check.query}) ORDER BY ALL")]  # noqa: S608
    if texts:
        yield Finding(check.check, check.sentence.format(_some(texts)), check.hint)


def _later_rows(transaction: MetadataTransaction) -> Iterator[Finding]:
    """Rows that the next commit would make visible."""
    for table in _VERSIONED:
        ((count,),) = transaction.rows(f"SELECT count(*) FROM {table} WHERE begin_snapshot > {_NEWEST}")  # noqa: S608
        if count:
            what = f"{counted(count, 'row')} of {table} are of no snapshot: half of a commit"
            yield Finding("snapshots", what, f"the next commit would show them; {_BACKUP}")


def _half_snapshots(transaction: MetadataTransaction) -> Iterator[Finding]:
    rows = transaction.rows(
        "SELECT snapshot_id FROM ducklake_snapshot ANTI JOIN ducklake_snapshot_changes USING (snapshot_id) ORDER BY ALL"
    )
    if rows:
        what = f"no changes are recorded for {_some([str(version) for (version,) in rows])}: half of a commit"
        yield Finding("snapshots", what, f"compare its rows with those of the snapshot before; {_BACKUP}")


def _next_ids(transaction: MetadataTransaction, metadata: str) -> Iterator[Finding]:
    """Ids that the next commit would use a second time."""
    newest = transaction.newest()
    for column, ids in (("next_catalog_id", _CATALOG_IDS), ("next_file_id", _FILE_IDS)):
        ((wanted, value),) = transaction.rows(
            f"SELECT (SELECT max(id) + 1 FROM ({ids})), {column} FROM ducklake_snapshot "  # noqa: S608 - constants
            f"WHERE snapshot_id = {newest}"
        )
        if wanted is not None and wanted > value:
            what = f"{column} is {value}, but the greatest id in use is {wanted - 1}: the next commit repeats it"
            yield Finding("ids", what, _update(f"{metadata}.ducklake_snapshot", column, wanted, "snapshot_id", newest))
    for table_id, name, wanted, value in transaction.rows(_ROW_IDS):
        what = f"the next row id of {name} is {value}, but files have ids up to {wanted - 1}"
        hint = _update(f"{metadata}.ducklake_table_stats", "next_row_id", wanted, "table_id", table_id)
        yield Finding("ids", what, hint)


def _update(table: str, column: str, value: int, key: str, id_: int) -> str:
    """The hint that corrects an id which is too low."""
    return f"run with DuckDB, while nobody writes: UPDATE {table} SET {column} = {value} WHERE {key} = {id_}"  # noqa: S608


def _by_table(check: str, what: str, values: Mapping[tuple[str, str], object], hint: str) -> Iterator[Finding]:
    for table, value in values.items():
        yield Finding(check, f"{what}: {joined_name(*table)} ({value})", hint)


def _lost_files(reader: CatalogReader) -> list[Finding]:
    try:
        files = data_path_files(reader)
    except LakeconfError as error:
        return [Finding("files", f"the data path cannot be listed: {error.message}", error.hint or "check its path")]
    hint = "restore the files from a backup, or the table as of a snapshot without them: lakeconf restore"
    return [
        Finding("files", f"{sentence}: {_some(paths)}", hint)
        for sentence, paths in (("lost", files.missing), ("of another size than in the catalog", files.damaged))
        if paths
    ]


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:_SHOWN]) + (f" and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else "")
