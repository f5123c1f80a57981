"""Rewrites files by staged commits, which keep the ids of rows: merged, and without deleted rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.data_file import DataFile, FileGroup, groups_of, inlined_deletes
from lakeconf.catalog.health import forgotten_bounds
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.sort_keys import SortKey, sort_keys
from lakeconf.catalog.table_options import table_options
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.commit.actions import Action, ReplaceFiles
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.positions import have_row_ids
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.commit.staged_tables import changed_meanwhile
from lakeconf.engines.engine import ROW_ID
from lakeconf.engines.sorted_files import SortedFile, SortRequest, stage_sorted
from lakeconf.errors import (
    CatalogError,
    CommitConflictError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.lake.compaction import (
    RewrittenFiles,
    target_file_size,
)
from lakeconf.lake.limits import TimeLimit
from lakeconf.sql import literal, qualified
from lakeconf.write.capabilities import hides_places, lake_obstacle
from lakeconf.write.context import WriteContext, perform

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
        return perform(Scope(self.session), name, rewrite, message="rewrite") != before

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
            files = [
                file
                for group in groups
                for file in group.files
                if file.data_file_id not in fixed and file.path in self.session.own_files
            ]
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
            files_of_group = [file for file in group.files if file.data_file_id in wanted]
            divided = _divided(files_of_group, target)
            # Nothing is gained if one file without deleted rows is written again.
            parts += [replace(group, files=part) for part in divided if len(part) > 1 or part[0].deleted or added]
        # While there are deleted rows, DuckLake forgets nothing; after them, no file without bounds may be left.
        return sorted(parts, key=lambda part: (not _ids(part) & added.keys(), -_deleted(part)))


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


def _deleted(part: FileGroup) -> int:
    return sum(file.deleted for file in part.files)


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
        if any(each.rows for each in part) and (size + _left(file) > target or len(part) >= FILES_READ):
            yield tuple(part)
            part, size = [], 0.0
        part.append(file)
        size += _left(file)
    if any(each.rows for each in part):
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
