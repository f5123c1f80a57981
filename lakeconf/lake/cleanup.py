"""Removes files that no snapshot needs, after proving that each path belongs to this lake."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from lakeconf.catalog.admission import canonical, compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.commit.session import Session
from lakeconf.connection.connection import remove_files
from lakeconf.ducklake import MARKER
from lakeconf.engines.file_names import (
    is_announced,
    is_below,
    is_written_name,
    manifests_among,
    real_path,
    unique_name,
)
from lakeconf.errors import CatalogError, StorageError, exists, storage_errors
from lakeconf.guard.marker import LakeMarker
from lakeconf.lake.adoption.known_files import AdoptedFiles
from lakeconf.lake.compaction_step import CatalogStatement
from lakeconf.logs import event_logger
from lakeconf.sql import URL_ENDS, listing_sql, literal

_log = event_logger("cleanup")
# DuckLake lists files with a glob pattern that starts with the data path. If the path contains one of these
# characters, it lists other folders.
_PATTERN = re.compile(r"[*?\[{\\]")
_HINT = "find out what wrote these rows to ducklake_files_scheduled_for_deletion"
_LISTINGS = 5
_FOLDERS = """
    SELECT DISTINCT s.path, s.path_is_relative, t.path, t.path_is_relative
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
"""
_KNOWN = """
    SELECT path FROM ducklake_data_file UNION SELECT path FROM ducklake_delete_file
    UNION SELECT path FROM ducklake_files_scheduled_for_deletion
"""
_SCHEDULED = """
    SELECT data_file_id, path, path_is_relative, CAST(schedule_start AS TIMESTAMPTZ) < CAST(? AS TIMESTAMPTZ)
    FROM ducklake_files_scheduled_for_deletion
"""
# The id and the path of each scheduled row of a file: several tables can give up an adopted file.
_Rows: TypeAlias = list[tuple[int, str]]
_LIVE = "SELECT path FROM ducklake_data_file UNION SELECT path FROM ducklake_delete_file"


@dataclass(frozen=True)
class Removal:
    """The files that a cleanup would remove.

    Attributes:
        scheduled: Files that DuckLake has scheduled for deletion: only expired snapshots needed them.
        orphans: Files left behind by crashed writers.
        skipped: The reason why orphans were not searched for; None if they were.
    """

    scheduled: tuple[str, ...]
    orphans: tuple[str, ...]
    skipped: str | None = None

    @property
    def paths(self) -> list[str]:
        """All paths."""
        return [*self.scheduled, *self.orphans]


@dataclass(frozen=True)
class Cleanup:
    """A cleanup of a lake."""

    session: Session
    marker: LakeMarker | None  # the lake's marker; None if the metadata backend keeps the files
    # True to forget scheduled files that may be those of others, in place of an error that lets a person decide.
    forgets_others: bool = False

    @property
    def reader(self) -> CatalogReader:
        """Reads the catalog."""
        return self.session.reader

    def plan(self, older_than: datetime) -> Removal:
        """The files that may be removed; nothing is changed."""
        return self._planned(older_than)[0]

    def _planned(self, older_than: datetime) -> tuple[Removal, list[tuple[int, str]]]:
        """A plan, and the id and path of each row of the scheduled files, also of adopted ones, which stay."""
        if self.marker is not None:
            self.marker.before_cleanup()
        given_up = self._given_up(older_than)
        left = self._others(given_up) if self.forgets_others else self._left(given_up)
        if left:
            _log.info("keeps files that others own, or tables still need: %s", ", ".join(left))
        scheduled = self._scheduled({path: rows for path, rows in given_up.items() if path not in left})
        skipped = self._skipped()
        if skipped is not None:
            _log.warning("orphans were not searched for: %s", skipped)
        orphans = () if skipped else tuple(self._orphans(older_than))
        if self.session.backed_up is not None:
            # Also without files to remove: an operator learns early that the backups cannot be read.
            kept = {unique_name(path) for path in self.session.backed_up()}
            scheduled = {path: rows for path, rows in scheduled.items() if unique_name(path) not in kept}
            orphans = tuple(path for path in orphans if unique_name(path) not in kept)
        rows = [row for each in (scheduled, left) for rows in each.values() for row in rows]
        return Removal(tuple(scheduled), orphans, skipped), rows

    def remove(self, older_than: datetime) -> Removal:
        """Removes the files that may be removed; the caller holds the lake's lock exclusively."""
        removal, rows = self._planned(older_than)
        if self.marker is not None:
            # From this snapshot on, the removed files are not needed. A catalog from an older backup may need them.
            self.marker.record(is_cleanup=True)
        if removal.paths:
            # Not by DuckLake, which would read the catalog again: these paths have been checked.
            remote = [path for path in removal.paths if "://" in path]
            if remote:
                remove_files(self.reader.connection, remote)
            self._remove_local([path for path in removal.paths if "://" not in path])
        if rows:
            ids, paths = (", ".join(map(literal, each)) for each in zip(*rows, strict=True))
            scheduled = f"{self.reader.metadata}.ducklake_files_scheduled_for_deletion"
            delete = f"DELETE FROM {scheduled} WHERE data_file_id IN ({ids}) AND path IN ({paths})"
            CatalogStatement(self.session, delete).run()
        for path in removal.paths:
            _log.info("removed %s", path)
        return removal

    def _remove_local(self, paths: Sequence[str]) -> None:
        """Removes files below the data path, also if somebody puts links in the place of folders meanwhile."""
        roots, real_paths = self.session.own_files.roots(), list(map(real_path, paths))
        outside = [path for path in real_paths if not path.startswith(tuple(roots))]
        _refuse(outside, f"that are not below {' or '.join(roots)}", hint=_HINT)
        for path in real_paths:
            root = next(root for root in roots if path.startswith(root))
            *folders, name = path.removeprefix(root).split("/")
            hint = "find out who puts links in the place of folders"
            with storage_errors(f"{path} cannot be removed", hint=hint), contextlib.ExitStack() as opened:
                opened.enter_context(contextlib.suppress(FileNotFoundError))
                at = None
                for folder in (root, *folders):
                    flags = os.O_RDONLY | os.O_DIRECTORY | (os.O_NOFOLLOW if at is not None else 0)
                    at = os.open(folder, flags, dir_fd=at)
                    opened.callback(os.close, at)
                os.unlink(name, dir_fd=at)

    def _left(self, paths: Mapping[str, _Rows]) -> dict[str, _Rows]:
        """The adopted files among scheduled ones that the lake does not own, or that other tables have adopted too.

        Only their rows are removed. A file gets another row when the last table gives it up.
        """
        outside = {path: rows for path, rows in paths.items() if not is_below(path, self.reader.data_path)}
        if not outside:
            return {}
        adopted, needed = AdoptedFiles(self.reader).paths(), {_file(path) for path in self._live_paths()}
        return {
            path: rows
            for path, rows in outside.items()
            if path in adopted and (_file(path) in needed or path not in self.session.own_files)
        }

    def _others(self, paths: Mapping[str, _Rows]) -> dict[str, _Rows]:
        """The scheduled files outside the data path, or below the marker of another lake there."""
        other = self._other_lakes([*paths])
        return {
            path: rows
            for path, rows in paths.items()
            if not is_below(path, self.reader.data_path) or _is_in_folders(real_path(path), other)
        }

    def _live_paths(self) -> set[str]:
        with self.reader.transaction() as transaction:
            return {path for (path,) in transaction.rows(_LIVE)}

    def _scheduled(self, paths: dict[str, _Rows]) -> dict[str, _Rows]:
        """The scheduled files that may be removed, each with its rows."""
        if not paths:
            return {}
        foreign = [path for path in paths if path not in self.session.own_files]
        _refuse(
            foreign,
            f"that are not below {self.reader.data_path}",
            hint=f"{_HINT}; to keep the files, delete the rows in the catalog's database",
        )
        other = self._other_lakes([*paths])
        nested = [path for path in paths if _is_in_folders(real_path(path), other)]
        _refuse(nested, "below the marker of another lake", hint=f"{_HINT}; give each lake its own data path")
        live_paths = self._live_paths()
        live = {unique_name(path) for path in (*live_paths, "" if self.marker is None else self.marker.path)}
        outside = {_file(path) for path in live_paths}
        # Names of adopted files are not unique.
        own = {path for path in paths if is_below(path, self.reader.data_path)}
        needed = [path for path in paths if (unique_name(path) in live if path in own else _file(path) in outside)]
        _refuse(needed, "that snapshots still need", hint=_HINT)
        return paths

    def _given_up(self, older_than: datetime) -> dict[str, _Rows]:
        with self.reader.transaction() as transaction:
            rows = transaction.rows(_SCHEDULED, [older_than.isoformat()])
        root = self.reader.data_path
        scheduled = [
            (compose_path(root, path, is_relative=is_relative), (id_, path), is_old)
            for id_, path, is_relative, is_old in rows
        ]
        kept = {path for path, _, is_old in scheduled if not is_old}
        given_up: dict[str, _Rows] = {}
        for path, row, _ in scheduled:
            if path not in kept:
                given_up.setdefault(path, []).append(row)
        return given_up

    def _orphans(self, older_than: datetime) -> list[str]:
        paths = self._listed(older_than)
        if not paths:
            return []
        if self.marker is not None and not self.marker.knows_files():
            raise CatalogError(
                f"the catalog has no files, but there are {len(paths):,} Parquet files below {self.reader.data_path}, "
                f"such as {paths[0]}: no file was removed",
                hint="delete them yourself if they are not needed: they may belong to a lost catalog",
            )
        with self.reader.transaction() as transaction:
            registered, root = {unique_name(path) for (path,) in transaction.rows(_KNOWN)}, self.reader.data_path
            folders = {
                compose_path(compose_path(root, schema, is_relative=in_root), table, is_relative=in_schema)
                for schema, in_root, table, in_schema in transaction.rows(_FOLDERS)
            }
        manifests = manifests_among(self.reader.connection, paths, self.reader.lake_id)
        other = self._other_lakes(paths)
        return [
            path
            for path in paths
            if is_below(path, self.reader.data_path)
            and not _is_in_folders(real_path(path), other)
            and unique_name(path) not in registered
            and (_is_in(path, folders) or is_announced(path, manifests))
        ]

    def _other_lakes(self, paths: Sequence[str]) -> set[str]:
        """The folders below the data path that have their own marker and contain one of the paths."""
        root = real_path(self.reader.data_path)
        if "://" in root:
            if not paths:
                return set()
            markers = self.reader.connection.rows(listing_sql(self.reader.data_path, f"**/{MARKER}"))
            return {real_path(str(path).removesuffix(MARKER)) for (path,) in markers} - {root}
        folders = {folder for path in paths for folder in _folders_of(real_path(path)) if not root.startswith(folder)}
        with storage_errors("the folders of the files to delete cannot be examined", hint="check their permissions"):
            return {folder for folder in folders if exists(folder + MARKER)}

    def _listed(self, older_than: datetime) -> list[str]:
        moment = f"CAST({literal(older_than.isoformat())} AS TIMESTAMPTZ)"
        arguments = f"{literal(self.reader.alias)}, older_than => {moment}, dry_run => true"
        orphans = CatalogStatement(self.session, f"FROM ducklake_delete_orphaned_files({arguments})")
        for _ in range(_LISTINGS - 1):
            # DuckDB raises an error if another process deletes a file during the listing.
            with contextlib.suppress(StorageError):
                return self._without_ends(orphans.run())
        return self._without_ends(orphans.run())

    def _without_ends(self, listed: Sequence[tuple[str, ...]]) -> list[str]:
        """The paths that are not keys of a bucket with parameters of a URL, which nothing of the lake has."""
        root = self.reader.data_path
        return [path for (path,) in listed if "://" not in root or not re.search(URL_ENDS, path.removeprefix(root))]

    def _skipped(self) -> str | None:
        pattern = _PATTERN.search(self.reader.data_path)
        if pattern is None:
            return None
        return f"the data path contains {pattern.group()!r}, which DuckLake treats as a glob pattern"


def _refuse(paths: Sequence[str], which: str, *, hint: str) -> None:
    """Rejects scheduled files that a cleanup must not remove."""
    if paths:
        raise CatalogError(
            f"the catalog lists files for removal {which}, so no file was removed: {', '.join(paths)}", hint=hint
        )


def _file(path: str) -> str:
    """A path in a form that all paths of a file outside the data path have."""
    return canonical(real_path(path))


def _folders_of(path: str) -> list[str]:
    """All parent folders of a path, each with a trailing slash."""
    return [path[: match.end()] for match in re.finditer("/", path)]


def _is_in_folders(path: str, folders: set[str]) -> bool:
    return not folders.isdisjoint(_folders_of(path))


def _is_in(path: str, folders: set[str]) -> bool:
    """True if a writer could have written this path directly into the folder of a table."""
    rests = [path[len(folder) :] for folder in _folders_of(path) if folder in folders]
    return any(map(is_written_name, rests))
