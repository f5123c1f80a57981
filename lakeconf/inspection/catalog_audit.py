"""What bugs and interrupted commits leave behind in a catalog, with what to do about it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakeconf.catalog.health import lost_deletes
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import joined_name
from lakeconf.errors import CatalogError, LakeconfError, QueryError, UnknownNameError
from lakeconf.inspection.catalog_files import data_path_files
from lakeconf.inspection.catalog_repairs import (
    FILE_IDS,
    LIVE_IDS,
    Finding,
    hidden_rows,
    too_low_ids,
    too_many_deletes,
)
from lakeconf.inspection.doctor_lake import examine_columns
from lakeconf.wording import counted

_SHOWN = 3
_BACKUP = "restore a backup of the catalog from before it (docs/operations.md)"
# The tables whose rows belong to snapshots.
_VERSIONED = tuple(f"ducklake_{kind}" for kind in ("schema", "table", "view", "column", "data_file", "delete_file"))
# DuckDB compares names without the case of the letters of ASCII only.
_FOLDED = "translate({}, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
_LIVE = "end_snapshot IS NULL"
_NEWEST = "(SELECT max(snapshot_id) FROM ducklake_snapshot)"
_Audit = Callable[[CatalogReader, MetadataTransaction], Iterable[Finding]]
_LATER = f"begin_snapshot > {_NEWEST} OR end_snapshot > {_NEWEST}"


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
        f"SELECT string_agg(what, ' and ' ORDER BY what) FROM ({LIVE_IDS}) "  # noqa: S608 - constants
        "WHERE id > 0 GROUP BY id HAVING count(*) > 1",
        "have one id: {}; DuckLake mixes their columns and files",
        _BACKUP,
    ),
    _Check(
        "ids",
        "SELECT kind || ' ' || id FROM ("  # noqa: S608 - constants
        "SELECT 'snapshot' AS kind, snapshot_id AS id FROM ducklake_snapshot"
        f" UNION ALL SELECT 'file', id FROM ({FILE_IDS})"
        ") GROUP BY ALL HAVING count(*) > 1",
        "used twice: {}; rows of one are taken for those of the other",
        _BACKUP,
    ),
    _Check(
        "ids",
        f"SELECT 'column ' || column_id || ' of table ' || table_id FROM ducklake_column WHERE {_LIVE} "  # noqa: S608
        "GROUP BY table_id, column_id HAVING count(*) > 1",
        "used twice: {}; files have the values of one column only",
        _BACKUP,
    ),
    _Check(
        "names",
        "SELECT any_value(name) FROM ("  # noqa: S608 - constants
        f"SELECT schema_id, table_name AS name FROM ducklake_table WHERE {_LIVE}"
        f" UNION ALL SELECT schema_id, view_name FROM ducklake_view WHERE {_LIVE}"
        f") GROUP BY schema_id, {_FOLDED.format('name')} HAVING count(*) > 1",
        "two tables or views have one name: {}; two writers created them at once, and only one can be read",
        _BACKUP,
    ),
    _Check(
        "names",
        f"SELECT any_value(column_name) || ' of table ' || table_id FROM ducklake_column WHERE {_LIVE} "  # noqa: S608
        f"GROUP BY table_id, coalesce(parent_column, -1), {_FOLDED.format('column_name')} HAVING count(*) > 1",
        "two columns have one name: {}; two writers added them at once",
        _BACKUP,
    ),
    _Check(
        "schemas",
        f"SELECT table_name FROM ducklake_table AS t WHERE {_LIVE} AND NOT EXISTS "  # noqa: S608 - constants
        f"(SELECT 1 FROM ducklake_schema AS s WHERE s.schema_id = t.schema_id AND s.{_LIVE})",
        "tables in a schema that was dropped: {}; a writer created them while another dropped the schema",
        _BACKUP,
    ),
    _Check(
        "files",
        "SELECT path FROM ducklake_data_file AS f WHERE NOT EXISTS "  # noqa: S608 - constants
        f"(SELECT 1 FROM ducklake_table AS t WHERE t.table_id = f.table_id) AND {_LIVE}",
        "data files of no table: {}; no tool reads their rows",
        _BACKUP,
    ),
    _Check(
        "files",
        f"SELECT any_value(path) FROM ducklake_data_file WHERE {_LIVE} "  # noqa: S608 - constants
        "GROUP BY table_id, path, path_is_relative HAVING count(*) > 1",
        "registered twice: {}; their rows are there twice",
        "write the rows to another table, and put that in the place of the first",
    ),
    _Check(
        "deletes",
        f"SELECT any_value(path) FROM ducklake_delete_file WHERE {_LIVE} "  # noqa: S608 - constants
        "GROUP BY data_file_id HAVING count(*) > 1",
        "two delete files for one data file, so that deleted rows are visible again: {}",
        "delete a row of the table with lakeconf: the hint of its error has the SQL that rebuilds the table",
    ),
    _Check(
        "statistics",
        f"SELECT table_name FROM ducklake_table AS t WHERE {_LIVE} AND EXISTS "  # noqa: S608 - constants
        f"(SELECT 1 FROM ducklake_data_file AS f WHERE f.table_id = t.table_id AND f.{_LIVE}) AND NOT EXISTS "
        "(SELECT 1 FROM ducklake_table_stats AS x WHERE x.table_id = t.table_id)",
        "tables without a next row id: {}; new rows get the ids of others",
        _BACKUP,
    ),
)


def audit_catalog(reader: CatalogReader) -> list[Finding]:
    """What is wrong in a catalog; empty if nothing is."""
    try:
        with reader.transaction() as transaction:
            newest = transaction.rows(f"SELECT {_NEWEST}")
    except QueryError as error:
        return [_unreadable(error)]
    if newest == [(None,)]:
        return [Finding("snapshots", "the catalog has no snapshot", _BACKUP), *_lost_files(reader)]
    findings = [finding for name, check in _audits() for finding in _safely(reader, name, check)]
    return [*dict.fromkeys(findings), *_lost_files(reader)]


def _safely(reader: CatalogReader, name: str, check: _Audit) -> list[Finding]:
    """What a check finds; if it fails, that is a finding, which hides none of the other checks."""
    try:
        with reader.one_state() as state, state.transaction() as transaction:  # an error ends its transaction
            return [*check(state, transaction)]
    except UnknownNameError as error:
        return [_unreadable(error)]
    except LakeconfError as error:
        return [Finding(name, f"could not be checked: {error.message}", error.hint or _BACKUP)]


def _unreadable(error: QueryError) -> Finding:
    """A table or column of the catalog is not there."""
    return Finding("tables", f"the catalog cannot be read: {error.message}", _BACKUP)


def _audits() -> Iterator[tuple[str, _Audit]]:
    """All checks, with their names."""
    for check in _CHECKS:
        yield check.check, _of_transaction(functools.partial(_checked, check))
    yield "snapshots", _of_transaction(_later_rows)
    yield "snapshots", _of_transaction(_half_snapshots)
    yield "ids", too_low_ids
    yield "inlined rows", _of_transaction(_lost_inlined_rows)
    yield "columns", _of_transaction(_damaged_columns)
    yield "deletes", too_many_deletes
    yield "deletes", _lost_deletes
    yield "statistics", _of_transaction(hidden_rows)


def _of_transaction(audit: Callable[[MetadataTransaction], Iterable[Finding]]) -> _Audit:
    return lambda _, transaction: audit(transaction)


def _lost_deletes(reader: CatalogReader, _: MetadataTransaction) -> Iterator[Finding]:
    for table, rows in lost_deletes(reader).items():
        yield Finding(
            "deletes", f"deleted rows are visible again: {joined_name(*table)} ({rows})", "repeat the deletes"
        )


def _damaged_columns(transaction: MetadataTransaction) -> Iterator[Finding]:
    try:
        examine_columns(transaction)
    except CatalogError as error:
        yield Finding("columns", error.message, str(error.hint))


def _checked(check: _Check, transaction: MetadataTransaction) -> Iterator[Finding]:
    texts = [str(text) for (text,) in transaction.rows(f"SELECT * FROM ({check.query}) ORDER BY ALL")]  # noqa: S608
    if texts:
        yield Finding(check.check, check.sentence.format(_some(texts)), check.hint)


def _later_rows(transaction: MetadataTransaction) -> Iterator[Finding]:
    """Rows that the next commit would show or hide."""
    for table in _VERSIONED:
        ((count,),) = transaction.rows(f"SELECT count(*) FROM {table} WHERE {_LATER}")  # noqa: S608
        if count:
            what = (
                f"{counted(count, 'row')} of {table} are of no snapshot: half of a commit, which the next one completes"
            )
            yield Finding("snapshots", what, _BACKUP)


def _half_snapshots(transaction: MetadataTransaction) -> Iterator[Finding]:
    rows = transaction.rows(
        "SELECT snapshot_id FROM ducklake_snapshot ANTI JOIN ducklake_snapshot_changes USING (snapshot_id) ORDER BY ALL"
    )
    if rows:
        what = f"no changes are recorded for {_some([str(version) for (version,) in rows])}: half of a commit"
        yield Finding("snapshots", what, f"compare its rows with those of the snapshot before, or {_BACKUP}")


def _lost_inlined_rows(transaction: MetadataTransaction) -> Iterator[Finding]:
    rows = transaction.rows("SELECT table_name FROM ducklake_inlined_data_tables ORDER BY ALL")
    lost = [str(name) for (name,) in rows if not transaction.has_table(str(name))]
    if lost:
        yield Finding("inlined rows", f"lost, with their tables of the catalog: {_some(lost)}", _BACKUP)


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
