"""Files that a killed writer has left behind."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from lakeconf.engines.manifest import PREFIX, is_alive, manifest_path
from lakeconf.transaction import LakeState

_STAGED = re.compile(rf"(?P<folder>.*/{PREFIX}[0-9a-f]+)(?:/.*|\.parquet)")
# DuckLake looks for files by a pattern that begins with the data path. With one of these in the path it lists, and
# would remove, what lies in other folders.
_PATTERN = re.compile(r"[*?\[{\\]")
_BY_DUCKDB = re.compile(r".*/ducklake-[0-9a-f-]{36}(?:-delete)?\.parquet")


def remove_orphans(state: LakeState, older_than: datetime, *, dry_run: bool) -> list[str]:
    """Removes files below the data path that no snapshot knows, of writers that did not live to commit them.

    Whatever lakeconf or DuckLake has not written stays, and so does what a running process of this machine has staged.

    Args:
        state: The lake.
        older_than: Files that are younger stay: their writer may still run elsewhere.
        dry_run: True to remove nothing.

    Returns:
        The paths of the removed files. On object storage, where DuckLake alone can remove files, none while something
        lies there that must stay; none at all where the data path has one of `*?[{`, of which DuckLake would make a
        pattern.
    """
    if _PATTERN.search(state.reader.data_path):
        return []
    call = "SELECT path FROM ducklake_delete_orphaned_files(?, older_than => CAST(? AS TIMESTAMPTZ), dry_run => {})"
    arguments = [state.alias, older_than.isoformat()]
    listed = [path for (path,) in state.writer.rows(call.format("true"), arguments)]
    running = {
        folder for folder in _folders(listed) if manifest_path(folder) in listed and is_alive(state.writer, folder)
    }
    removable = [path for path in listed if _is_ours(path) and _folder(path) not in running]
    if not removable or dry_run:
        return removable
    if len(removable) == len(listed):
        # The limit is a moment, so that this removes what was listed and nothing younger.
        return [path for (path,) in state.writer.rows(call.format("false"), arguments)]
    local = [path for path in removable if "://" not in path]
    for path in local:
        Path(path).unlink(missing_ok=True)
    return local


def _is_ours(path: str) -> bool:
    return bool(_STAGED.fullmatch(path) or _BY_DUCKDB.fullmatch(path))


def _folder(path: str) -> str | None:
    found = _STAGED.fullmatch(path)
    return found["folder"] if found else None


def _folders(paths: list[str]) -> set[str]:
    return {folder for path in paths if (folder := _folder(path))}
