"""Merges, rewrites and flushes by DuckLake's functions, and by staged commits where these would be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lakeconf.catalog.health import lost_bounds
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import TableInfo, joined_name, tables
from lakeconf.commit.moved_values import ValuesChangedError
from lakeconf.commit.session import Session
from lakeconf.errors import CommitUnknownError, LakeconfError, SchemaError
from lakeconf.lake.compaction import (
    RewrittenFiles,
    SmallFiles,
    merges,
    rewritten_files,
    small_files,
    tables_with_adopted,
    tables_with_deletes,
)
from lakeconf.lake.compaction_step import CompactionStep, RowsChangedError, of_table
from lakeconf.lake.failed_tables import FailedTables
from lakeconf.lake.limits import TimeLimit
from lakeconf.lake.staged_rewriting import BYTES_READ, FILES_READ, FILES_WRITTEN, StagedRewriting
from lakeconf.logs import event_logger
from lakeconf.sql import identifier, literal

_log = event_logger("maintenance")
_TARGET = "ducklake_target_file_size"
_ADOPTED = "DuckLake would rewrite its adopted files too"
_HINT = "create a new table with these rows if they must be in files"


def merge_files(session: Session, limit: TimeLimit, failed: FailedTables) -> None:
    """Merges small files, first of the tables with most of them, until no merge creates a file."""
    small, left = merges(session.reader, session.own_files)
    tables = [table for table in small if (table.schema, table.name) not in failed.others]
    merged = [table for table in tables if (table.schema, table.name) not in left]
    if sum(len(table.sizes) for table in merged) > FILES_READ:
        for table in sorted(merged, key=lambda small: -small.saved):
            with failed.apart(table.schema, table.name):
                _merge_table(session, limit, table)
    # All tables of a small lake in one transaction; and what only DuckLake knows, because it reads more options.
    failed.for_others(lambda arguments: _merge(session, limit, arguments, FILES_WRITTEN, {}), left)
    for table in tables:
        if (table.schema, table.name) in left:
            with failed.apart(table.schema, table.name):
                _merge_staged(session, limit, table)


def _merge_staged(session: Session, limit: TimeLimit, table: SmallFiles) -> None:
    """Merges files by staged commits, which keep row ids, until that makes no fewer files."""
    small: SmallFiles | None = table
    while small is not None and not limit.is_over:
        why = "DuckLake would change row ids or fail, or rewrite adopted files too"
        _replace(session, limit, small.replaced, f"{len(small.ids)} small files", why)
        left = small_files(session.reader, session.own_files, table.schema, table.name)
        small = left if left is not None and len(left.ids) < len(small.ids) else None


def _replace(session: Session, limit: TimeLimit, table: RewrittenFiles, files: str, why: str) -> None:
    """Rewrites files by staged commits, because DuckLake would do it wrong."""
    reason = StagedRewriting(session, limit).run(table)
    if reason is not None:
        name = joined_name(table.schema, table.name)
        _log.warning("%s keeps %s: %s, and no staged commit is possible: %s", name, files, why, reason)


def _merge_table(session: Session, limit: TimeLimit, table: SmallFiles) -> None:
    """Merges the files of a table in rounds; each transaction reads at most `FILES_READ` files of a group."""
    arguments = of_table(table.schema, table.name)
    small: SmallFiles | None = table
    target = 0
    while small is not None and not limit.is_over:
        # More files than these are larger together.
        target = max(sum(small.sizes[:FILES_READ]), 2 * target)
        is_last = small.largest <= FILES_READ or target >= small.target
        written = min(max(1, FILES_READ * small.groups // len(small.sizes)), FILES_WRITTEN)
        _merge(session, limit, arguments, written, {} if is_last else {_TARGET: f"{target} bytes"})
        if is_last:
            return
        small = small_files(session.reader, session.own_files, table.schema, table.name)


def _merge(session: Session, limit: TimeLimit, arguments: str, written: int, settings: Mapping[str, str]) -> None:
    """Repeats one transaction until it creates no file."""
    given = f"{literal(session.alias)}{arguments}, max_compacted_files => {written}"
    call = f"CALL ducklake_merge_adjacent_files({given})"
    while not limit.is_over:
        if not any(created for *_, created in _carried_out(session, call, arguments, settings)):
            return


def rewrite_files(session: Session, limit: TimeLimit, failed: FailedTables) -> None:
    """Rewrites files with deleted rows, first of the tables with most deleted bytes, then what only DuckLake knows.

    Tables whose bounds DuckLake would forget come last; they are left if no staged commit can carry them.
    """
    reader = session.reader
    lost, deleted = lost_bounds(reader), tables_with_deletes(reader)
    adopted = tables_with_adopted(reader, session.own_files)
    left = lost.keys() | deleted | adopted
    rewritten = [
        table for table in rewritten_files(reader, session.own_files) if (table.schema, table.name) not in failed.others
    ]
    rewritten.sort(key=lambda table: -table.saved)
    tables = [table for table in rewritten if (table.schema, table.name) not in left]
    sizes = [size for table in tables for _, size in table.files]
    if len(sizes) > FILES_READ or sum(sizes) > BYTES_READ:
        for table in tables:
            with failed.apart(table.schema, table.name):
                for share in _parts(table.files):
                    # A decimal number would be rounded.
                    threshold = f", delete_threshold => CAST({literal(repr(share))} AS DOUBLE)"
                    _rewrite(session, limit, of_table(table.schema, table.name), threshold)
    failed.for_others(lambda arguments: _rewrite(session, limit, arguments), left)
    for table in rewritten:
        columns = lost.get((table.schema, table.name))
        if columns is not None or (table.schema, table.name) in adopted:
            why = f"DuckLake would forget the bounds of the column {columns[0]}" if columns else _ADOPTED
            with failed.apart(table.schema, table.name):
                _replace(session, limit, table, "files with deleted rows", why)


def _rewrite(session: Session, limit: TimeLimit, arguments: str, threshold: str = "") -> None:
    if not limit.is_over:
        call = f"CALL ducklake_rewrite_data_files({literal(session.alias)}{arguments}{threshold})"
        _carried_out(session, call, arguments)


def _carried_out(
    session: Session, call: str, arguments: str, settings: Mapping[str, str] | None = None
) -> list[tuple[Any, ...]]:
    """Runs a step that writes files again, unless other writers delete rows in the catalog meanwhile."""

    def checked(_: int) -> Sequence[TableInfo]:
        with_deletes = tables_with_deletes(session.reader, lambda *name: arguments in ("", of_table(*name)))
        if with_deletes:
            raise RowsChangedError(f"{joined_name(*min(with_deletes))} has deletes in the catalog")
        return ()

    try:
        return CompactionStep(session, call, settings or {}, moved=checked).run()
    except RowsChangedError as error:
        _log.warning("%s: its files are left until the next compaction", error.message)
        return []


def _parts(files: Iterable[tuple[float, int]]) -> Iterator[float]:
    """The smallest share of deleted rows in each part of a transaction's size; equal shares cannot be separated."""
    count, size, last = 0, 0, None
    for share, file_size in files:
        is_full = count + 1 > FILES_READ or size + file_size > BYTES_READ
        if last is not None and is_full and share < last:
            yield last
            count, size = 0, 0
        count, size, last = count + 1, size + file_size, share
    if last is not None:
        yield last


def flush_lake(session: Session, _limit: TimeLimit, failed: FailedTables) -> None:
    """Flushes all tables in one commit. If that fails or would change rows, each table is flushed alone."""
    if failed.others:
        for info in tables(session.reader, latest(session.reader).snapshot_id):
            if (info.schema_name, info.name) not in failed.others:
                _is_flushed(session, info)
        return
    try:
        flush_table(session, None)
    except CommitUnknownError:
        raise
    except LakeconfError as error:
        infos = tables(session.reader, latest(session.reader).snapshot_id)
        done = [_is_flushed(session, info) for info in infos]
        if not (any(done) or isinstance(error, (RowsChangedError, ValuesChangedError))):
            raise


def _is_flushed(session: Session, info: TableInfo) -> bool:
    try:
        flush_table(session, info)
    except CommitUnknownError:
        raise
    except (RowsChangedError, ValuesChangedError) as error:
        _log.warning("%s", error.message)
    except LakeconfError as error:
        _log.warning("the rows of %s in the catalog cannot be flushed: %s", info.full_name, error.message)
    else:
        return True
    return False


def flush_table(session: Session, info: TableInfo | None) -> None:
    """Flushes a table, or all tables."""

    def moved(snapshot_id: int) -> Sequence[TableInfo]:
        return tables(session.reader, snapshot_id) if info is None else (info,)

    def unchanged(snapshot_id: int) -> list[TableInfo]:
        dead = _tables_with_dead_rows(session.reader)
        return [info for info in moved(snapshot_id) if info.table_id in dead]

    named = "" if info is None else f", schema_name => {literal(info.schema_name)}, table_name => {literal(info.name)}"
    try:
        call = f"CALL ducklake_flush_inlined_data({literal(session.alias)}{named})"
        CompactionStep(session, call, unchanged=unchanged, moved=moved).run()
    except RowsChangedError as error:
        raise RowsChangedError(
            f"{error.message}: DuckLake's flush would restore deleted rows, so its rows stay in the catalog", hint=_HINT
        ) from error
    except SchemaError as error:  # ducklake#1383: the column was NOT NULL when the catalog got its first rows
        raise SchemaError(f"DuckLake cannot flush its rows in the catalog: {error.message}", hint=_HINT) from error


def _tables_with_dead_rows(reader: CatalogReader) -> set[int]:
    """The ids of the tables of which the catalog contains deleted rows."""
    query = "SELECT 1 FROM {} WHERE end_snapshot IS NOT NULL LIMIT 1"
    with reader.transaction() as transaction:
        inlined = transaction.rows("SELECT table_id, table_name FROM ducklake_inlined_data_tables")
        return {table_id for table_id, name in inlined if transaction.rows(query.format(identifier(name)))}
