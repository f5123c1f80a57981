"""Rewrites files: merged, or without deleted rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeconf.catalog.data_file import DataFile, FileGroup, groups_of, inlined_deletes
from lakeconf.catalog.health import forgotten_bounds, lost_bounds
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.sort_keys import SortKey, sort_keys
from lakeconf.catalog.table_options import table_options
from lakeconf.catalog.tables import TableInfo, joined_name, load_table, tables
from lakeconf.commit.actions import Action, ReplaceFiles
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.moved_values import ValuesChangedError
from lakeconf.commit.positions import have_row_ids
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.commit.staged_tables import changed_meanwhile
from lakeconf.engines.engine import ROW_ID
from lakeconf.engines.sorted_files import SortedFile, SortRequest, stage_sorted
from lakeconf.errors import (
    CatalogError,
    CommitConflictError,
    CommitUnknownError,
    LakeconfError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.lake.compaction import (
    RewrittenFiles,
    SmallFiles,
    all_tables,
    merges,
    rewritten_files,
    small_files,
    tables_with_deletes,
    target_file_size,
)
from lakeconf.lake.compaction_step import CompactionStep, RowsChangedError, of_table
from lakeconf.lake.limits import TimeLimit
from lakeconf.logs import EventLogger
from lakeconf.sql import identifier, literal, qualified
from lakeconf.write.capabilities import hides_places, lake_obstacle
from lakeconf.write.context import WriteContext, write

# What one transaction reads, and writes, at most.
FILES_READ, BYTES_READ, FILES_WRITTEN = 2000, 8 * 1024**3, 200
# The number of times that other writers may change rows of the files while they are rewritten.
_CONFLICTS = 5


@dataclass(frozen=True)
class StagedRewriting:
    """The rewrite of files with deleted rows; each new file has the rows of files of one partition."""

    session: Session  # the lake
    limit: TimeLimit  # no transaction begins after it

    def planned(self, table: RewrittenFiles) -> int:
        """The number of these files that `run` would rewrite."""
        snapshot_id = self.session.snapshot_id
        try:
            info = load_table(self.session.reader, _name(table), snapshot_id)
        except TableNotFoundError:
            return 0  # it is newer than the snapshot that reads see
        parts = self.parts(info, table, snapshot_id)
        if self.obstacle(info, snapshot_id, parts):
            return 0
        listed = {*table.ids}
        return sum(len(_ids(part) & listed) for part in parts)

    def run(self, table: RewrittenFiles) -> str | None:
        """Rewrites files in transactions of a limited size, first those with most deleted rows."""
        conflicts = 0
        while not self.limit.is_over:
            try:
                if not self._rewrite(table):
                    return None
            except TableNotFoundError:
                return None
            except (UnsupportedError, SchemaError, CatalogError) as error:
                return error.message
            except CommitConflictError as error:
                conflicts += 1
                if conflicts == _CONFLICTS:
                    return error.message
        return None

    def _rewrite(self, table: RewrittenFiles) -> bool:
        """Commits one transaction; False if there is nothing left to do."""
        name = _name(table)
        rewrite = RewriteFiles(self, newest(self.session, name), table)
        before = self.session.snapshot_id
        return write(Scope(self.session), name, rewrite, message="rewrite") != before

    def obstacle(self, info: TableInfo, snapshot_id: int, parts: Sequence[FileGroup]) -> str | None:
        """Why files cannot be replaced; None if they can."""
        encrypted = any(part.encrypted for part in parts)
        return replacement_obstacle(self.session, info, snapshot_id, encrypted=encrypted) if parts else None

    def parts(self, info: TableInfo, table: RewrittenFiles, snapshot_id: int) -> list[FileGroup]:
        """The files that are left, those of each new file together; first those with most deleted rows."""
        target, listed = target_file_size(self.session.reader, info), {*table.ids}
        with self.session.reader.transaction() as metadata:
            groups = groups_of(metadata, info, snapshot_id)
            # A flush writes deletes of the catalog to a file.
            fixed = inlined_deletes(metadata, info.table_id, snapshot_id)
            files = [file for group in groups for file in group.files if file.data_file_id not in fixed]
            wanted = {file.data_file_id: file for file in files if file.data_file_id in listed}
            unbounded = forgotten_bounds(metadata, info.table_id, wanted).keys() if wanted else set[int]()
        added = {file.data_file_id: file for file in files if file.data_file_id in unbounded}
        if len(added) < len(unbounded) or not _is_small(added.values(), target):
            if not any(file.deleted for file in wanted.values()):
                return []
            del wanted[min(wanted, key=lambda file_id: wanted[file_id].deleted)]
            added = {}
        wanted |= added
        parts = []
        for group in groups:
            found = [file for file in group.files if file.data_file_id in wanted]
            divided = _divided(found, target)
            # Nothing is gained if one file without deleted rows is written again.
            parts += [replace(group, files=part) for part in divided if len(part) > 1 or part[0].deleted or added]
        # While there are deleted rows, DuckLake forgets nothing; after them, no file without bounds may be left.
        return sorted(parts, key=lambda part: (not _ids(part) & added.keys(), -sum(one.deleted for one in part.files)))


@dataclass(frozen=True)
class RewriteFiles:
    """Writes the rows of files again: an operation whose staged commit replaces the files."""

    rewriting: StagedRewriting
    info: TableInfo
    files: RewrittenFiles

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Writes as many new files as one transaction may write; nothing if there is nothing left to do."""
        session, info, snapshot_id = context.session, self.info, context.snapshot_id
        parts = self.rewriting.parts(info, self.files, snapshot_id)
        obstacle = self.rewriting.obstacle(info, snapshot_id, parts)
        if obstacle is not None:
            raise UnsupportedError(obstacle)
        if not parts:
            return []
        keys = _sort_keys(session, info, snapshot_id)
        groups = []
        for part in _limited(parts):
            # DuckDB does the work of maintenance, regardless of the lake's engine.
            request = SortRequest(info, snapshot_id, part, keys, context.staging.next_token())
            file = stage_sorted(session.writer, session.reader, request)
            context.staging.own(file.staged)
            _check_row_ids(session, context.quoted(info), request, file)
            groups.append((part, file.footer))
        since = ReadDependency(info.table_id, info.full_name, snapshot_id, on_rows=False)
        return [ReplaceFiles(table=info.full_name, info=info, groups=groups, depends_on=since, written_for=info)]


def _sort_keys(session: Session, info: TableInfo, snapshot_id: int) -> tuple[SortKey, ...]:
    """The order of the table, in which DuckLake would write the rows, too; none that engines do not share."""
    texts = table_options(session.reader, info, snapshot_id).sorted_by
    try:
        return sort_keys(texts, info.columns) if texts else ()
    except SchemaError:
        return ()


def _name(table: RewrittenFiles) -> str:
    return qualified(table.schema, table.name)


def _ids(part: FileGroup) -> set[int]:
    return {file.data_file_id for file in part.files}


def _is_small(files: Collection[DataFile], target: int) -> bool:
    """True if writing these files again costs no more than writing one file, and needs one transaction."""
    return sum(file.file_size_bytes for file in files) <= target and len(files) <= FILES_WRITTEN


def _divided(files: Iterable[DataFile], target: int) -> Iterator[tuple[DataFile, ...]]:
    """Divides files so that the rows that are left in each part make one file; at least one row is left in a part."""
    part: list[DataFile] = []
    size = 0.0
    for file in sorted(files, key=_left):
        if any(one.rows for one in part) and (size + _left(file) > target or len(part) >= FILES_READ):
            yield tuple(part)
            part, size = [], 0.0
        part.append(file)
        size += _left(file)
    if any(one.rows for one in part):
        yield tuple(part)


def _left(file: DataFile) -> float:
    """The bytes of the rows that are left in a file, about."""
    return file.file_size_bytes * file.rows / max(file.rows + file.deleted, 1)


def _limited(parts: Sequence[FileGroup]) -> Iterator[FileGroup]:
    """The first parts, as far as one transaction may read and write them; at least one."""
    read, size = 0, 0
    for number, part in enumerate(parts[:FILES_WRITTEN]):
        read, size = read + len(part.files), size + part.size
        if number and (read > FILES_READ or size > BYTES_READ):
            return
        yield part


_log = EventLogger("maintenance")
_TARGET = "ducklake_target_file_size"


def merge_files(session: Session, limit: TimeLimit) -> None:
    """Merges small files, first of the tables with most of them, until no merge creates a file."""
    tables, left = merges(session.reader)
    merged = [table for table in tables if (table.schema, table.name) not in left]
    if sum(len(table.sizes) for table in merged) > FILES_READ:
        for table in sorted(merged, key=lambda found: -found.saved):
            _merge_table(session, limit, table)
    # All tables of a small lake in one transaction; and what only DuckLake knows, because it reads more options.
    others = [of_table(*name) for name in all_tables(session.reader) if name not in left] if left else [""]
    for arguments in others:
        _merge(session, limit, arguments, FILES_WRITTEN, {})
    for table in tables:
        if (table.schema, table.name) in left:
            _merge_staged(session, limit, table)


def _merge_staged(session: Session, limit: TimeLimit, table: SmallFiles) -> None:
    """Merges files by staged commits, which keep row ids, until that makes no fewer files."""
    found: SmallFiles | None = table
    while found is not None and not limit.is_over:
        why = "DuckLake would change row ids or fail"
        _replace(session, limit, found.replaced, f"{len(found.ids)} small files", why)
        left = small_files(session.reader, table.schema, table.name)
        found = left if left is not None and len(left.ids) < len(found.ids) else None


def _replace(session: Session, limit: TimeLimit, table: RewrittenFiles, files: str, why: str) -> None:
    """Rewrites files by staged commits, because DuckLake would do it wrong."""
    reason = StagedRewriting(session, limit).run(table)
    if reason is not None:
        name = joined_name(table.schema, table.name)
        _log.warning("%s keeps %s: %s, and no staged commit is possible: %s", name, files, why, reason)


def _merge_table(session: Session, limit: TimeLimit, table: SmallFiles) -> None:
    """Merges the files of a table in rounds; each transaction reads at most `FILES_READ` files of a group."""
    arguments = of_table(table.schema, table.name)
    found: SmallFiles | None = table
    target = 0
    while found is not None and not limit.is_over:
        # More files than these are larger together.
        target = max(sum(found.sizes[:FILES_READ]), 2 * target)
        is_last = found.largest <= FILES_READ or target >= found.target
        written = min(max(1, FILES_READ * found.groups // len(found.sizes)), FILES_WRITTEN)
        _merge(session, limit, arguments, written, {} if is_last else {_TARGET: f"{target} bytes"})
        if is_last:
            return
        found = small_files(session.reader, table.schema, table.name)


def _merge(session: Session, limit: TimeLimit, arguments: str, written: int, settings: Mapping[str, str]) -> None:
    """Repeats one transaction until it creates no file."""
    given = f"{literal(session.alias)}{arguments}, max_compacted_files => {written}"
    call = f"CALL ducklake_merge_adjacent_files({given})"
    while not limit.is_over:
        if not any(created for *_, created in _carried_out(session, call, arguments, settings)):
            return


def rewrite_files(session: Session, limit: TimeLimit) -> None:
    """Rewrites files with deleted rows, first of the tables with most deleted bytes, then what only DuckLake knows.

    Tables whose bounds DuckLake would forget come last; they are left if no staged commit can carry them.
    """
    reader = session.reader
    lost, deleted = lost_bounds(reader), tables_with_deletes(reader)
    left = lost.keys() | deleted
    found = sorted(rewritten_files(reader), key=lambda one: -one.saved)
    tables = [table for table in found if (table.schema, table.name) not in left]
    sizes = [size for table in tables for _, size in table.files]
    if len(sizes) > FILES_READ or sum(sizes) > BYTES_READ:
        for table in tables:
            for share in _parts(table.files):
                # A decimal number would be rounded.
                threshold = f", delete_threshold => CAST({literal(repr(share))} AS DOUBLE)"
                _rewrite(session, limit, of_table(table.schema, table.name), threshold)
    others = [of_table(*name) for name in all_tables(reader) if name not in left] if left else [""]
    for arguments in others:
        _rewrite(session, limit, arguments)
    for table in found:
        columns = lost.get((table.schema, table.name))
        if columns is not None:
            why = f"DuckLake would forget the bounds of the column {columns[0]}"
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
        found = tables_with_deletes(session.reader, lambda *name: arguments in ("", of_table(*name)))
        if found:
            raise RowsChangedError(f"{joined_name(*min(found))} has deletes in the catalog")
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


_HINT = "create a new table with these rows if they must be in files"


def flush_lake(session: Session, _limit: TimeLimit) -> None:
    """Flushes all tables in one commit. If that fails or would change rows, each table is flushed alone."""
    try:
        flush_table(session, None)
    except CommitUnknownError:
        raise
    except LakeconfError as error:
        found = tables(session.reader, latest(session.reader).snapshot_id)
        done = [_is_flushed(session, info) for info in found]
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
        return [one for one in moved(snapshot_id) if one.table_id in dead]

    named = "" if info is None else f", schema_name => {literal(info.schema_name)}, table_name => {literal(info.name)}"
    try:
        call = f"CALL ducklake_flush_inlined_data({literal(session.alias)}{named})"
        CompactionStep(session, call, unchanged=unchanged, moved=moved).run()
    except RowsChangedError as error:
        raise RowsChangedError(
            f"{error.message}: DuckLake's flush would restore deleted rows, so its rows stay in the catalog", hint=_HINT
        ) from error


def _tables_with_dead_rows(reader: CatalogReader) -> set[int]:
    """The ids of the tables of which the catalog contains deleted rows."""
    query = "SELECT 1 FROM {} WHERE end_snapshot IS NOT NULL LIMIT 1"
    with reader.transaction() as transaction:
        inlined = transaction.rows("SELECT table_id, table_name FROM ducklake_inlined_data_tables")
        return {table_id for table_id, name in inlined if transaction.rows(query.format(identifier(name)))}


def newest(session: Session, name: str) -> TableInfo:
    """The table at the latest snapshot, to which reads move."""
    session.advance(latest(session.reader).snapshot_id)
    return load_table(session.reader, name, session.snapshot_id)


def replacement_obstacle(session: Session, info: TableInfo, snapshot_id: int, *, encrypted: bool) -> str | None:
    """Why the files of a table cannot be replaced with the ids of their rows; None if they can."""
    if session.committer == "public":
        return "the store's committer is public, which cannot register row ids"
    if hides_places(info):
        return "a column hides the row ids"
    if encrypted:
        return "the files are encrypted"
    return lake_obstacle(session, info, snapshot_id)


def _check_row_ids(session: Session, table: str, request: SortRequest, file: SortedFile) -> None:
    """Rejects a file that does not contain exactly the ids of the rows that they replace."""
    info = request.table
    listed = ", ".join(literal(file.path) for file in request.group.files)
    table = f"{table} AT (VERSION => {request.snapshot_id})"
    with session.writer.cursor() as cursor:
        ids = f"SELECT rowid AS {ROW_ID} FROM {table} WHERE filename IN ({listed})"
        if not have_row_ids(cursor, file.staged.files, ids):
            raise changed_meanwhile(f"rows of {info.full_name}")
