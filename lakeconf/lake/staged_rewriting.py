"""Rewrites files in staged commits: if DuckLake's own rewrite would forget bounds, or its merge would change row ids.

DuckLake keeps the bounds of a table as long as one of its files has deleted rows, or if all of its files have bounds.
So the files without bounds get those of the table, if they are small; otherwise one file with deleted rows stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.file_groups import FileGroup, ReplacedFile, groups_of, inlined_deletes
from lakeconf.catalog.lost_bounds import forgotten_bounds
from lakeconf.catalog.row_size import with_bytes_per_row
from lakeconf.catalog.sort_keys import SortKey, sort_keys
from lakeconf.catalog.table import TableInfo, load_table
from lakeconf.catalog.table_options import table_options
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.engines.sorting import SortRequest
from lakeconf.errors import CatalogError, CommitConflictError, SchemaError, TableNotFoundError, UnsupportedError
from lakeconf.lake.compaction import RewrittenFiles, target_file_size
from lakeconf.lake.replacing import add_replacement, newest, replacement_refusal
from lakeconf.lake.time_limit import TimeLimit
from lakeconf.sql import qualified
from lakeconf.write.writes import Writing

# What one transaction reads, and writes, at most.
FILES_READ, BYTES_READ, FILES_WRITTEN = 2000, 8 * 1024**3, 200
# The number of times that other writers may change rows of the files while they are rewritten.
_CONFLICTS = 5


@dataclass(frozen=True)
class StagedRewriting:
    """The rewrite of files with deleted rows; each new file has the rows of files of one partition.

    Attributes:
        session: The lake.
        limit: No transaction begins after it.
    """

    session: Session
    limit: TimeLimit

    def planned(self, table: RewrittenFiles) -> int:
        """The number of these files that `run` would rewrite."""
        snapshot_id = self.session.snapshot_id
        try:
            info = load_table(self.session.reader, _name(table), snapshot_id)
        except TableNotFoundError:
            return 0  # it is newer than the snapshot that reads see
        parts = self._parts(info, table, snapshot_id)
        if self._refusal(info, snapshot_id, parts):
            return 0
        listed = {*table.ids}
        return sum(len(_ids(part) & listed) for part in parts)

    def run(self, table: RewrittenFiles) -> str | None:
        """Rewrites files in transactions of a limited size, first those with most deleted rows.

        Args:
            table: The files.

        Returns:
            Why files are left; None if all are rewritten, or if the time is over.
        """
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
        session = self.session
        info = newest(session, _name(table))
        with Writing(Scope(session), "rewrite") as transaction:
            snapshot_id = transaction.snapshot_id
            parts = self._parts(info, table, snapshot_id)
            reason = self._refusal(info, snapshot_id, parts)
            if reason is not None:
                raise UnsupportedError(reason)
            # DuckDB does the work of maintenance, regardless of the lake's engine.
            engine = session.engine.for_small_merges() or session.engine
            keys, sized = self._keys(info, snapshot_id), with_bytes_per_row(session.reader, info)
            for part in _limited(parts):
                token = transaction.next_token()
                request = SortRequest(sized, snapshot_id, part, is_whole=False, keys=keys, file_count=1, token=token)
                add_replacement(transaction, engine, request)
        return bool(parts)

    def _refusal(self, info: TableInfo, snapshot_id: int, parts: Sequence[FileGroup]) -> str | None:
        encrypted = any(part.encrypted for part in parts)
        return replacement_refusal(self.session, info, snapshot_id, encrypted=encrypted) if parts else None

    def _keys(self, info: TableInfo, snapshot_id: int) -> tuple[SortKey, ...]:
        """The order of the table, in which DuckLake would write the rows, too; none that engines do not share."""
        texts = table_options(self.session.reader, info, snapshot_id).sorted_by
        try:
            return sort_keys(texts, info.columns) if texts else ()
        except SchemaError:
            return ()

    def _parts(self, info: TableInfo, table: RewrittenFiles, snapshot_id: int) -> list[FileGroup]:
        """The files that are left, those of each new file together; first those with most deleted rows."""
        target, listed = target_file_size(self.session.reader, info), {*table.ids}
        with self.session.reader.transaction() as metadata:
            groups = groups_of(metadata, info, snapshot_id)
            # A flush writes deletes of the catalog to a file.
            fixed = inlined_deletes(metadata, info, snapshot_id)
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


def _name(table: RewrittenFiles) -> str:
    return qualified(table.schema, table.name)


def _ids(part: FileGroup) -> set[int]:
    return {file.data_file_id for file in part.files}


def _is_small(files: Collection[ReplacedFile], target: int) -> bool:
    """True if writing these files again costs no more than writing one file, and needs one transaction."""
    return sum(file.size for file in files) <= target and len(files) <= FILES_WRITTEN


def _divided(files: Iterable[ReplacedFile], target: int) -> Iterator[tuple[ReplacedFile, ...]]:
    """Divides files so that the rows that are left in each part make one file; at least one row is left in a part."""
    part: list[ReplacedFile] = []
    size = 0.0
    for file in sorted(files, key=_left):
        if any(one.rows for one in part) and (size + _left(file) > target or len(part) >= FILES_READ):
            yield tuple(part)
            part, size = [], 0.0
        part.append(file)
        size += _left(file)
    if any(one.rows for one in part):
        yield tuple(part)


def _left(file: ReplacedFile) -> float:
    """The bytes of the rows that are left in a file, about."""
    return file.size * file.rows / max(file.rows + file.deleted, 1)


def _limited(parts: Sequence[FileGroup]) -> Iterator[FileGroup]:
    """The first parts, as far as one transaction may read and write them; at least one."""
    read, size = 0, 0
    for number, part in enumerate(parts[:FILES_WRITTEN]):
        read, size = read + len(part.files), size + part.size
        if number and (read > FILES_READ or size > BYTES_READ):
            return
        yield part
