"""The files of a pattern: which are new, and which have changed since they were loaded."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lakeconf.errors import StorageError, listed
from lakeconf.lake.lake import Lake
from lakeconf.lake.run_journal import FileState, ModelRun
from lakeconf.pipelines.file_rows import sql_rows
from lakeconf.pipelines.models.kinds import Append
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.recorded_runs import SHOWN
from lakeconf.sql import URL_ENDS, literal


def new_files(lake: Lake, model: Model, pattern: str, runs: Sequence[ModelRun]) -> tuple[list[str], list[str]]:
    """Returns the files of a pattern that no run has loaded, and a warning if others have changed since then.

    A pattern that becomes relative, or absolute, does not load its files again. A file that is gone causes no warning:
    landing zones are emptied.
    """

    def identity(file: str) -> str:
        return file if "://" in pattern else os.path.abspath(model.folder / file)

    by_identity = {identity(file): file for file in _found_files(lake, model, pattern)}
    # The last run that loaded a file counts: `--rebuild` loads it again.
    before = {identity(file): run.file_states.get(file) for run in runs for file in run.files}
    loaded = {file: state for key, file in by_identity.items() if (state := before.get(key)) is not None}
    now = file_states(lake, model, loaded)
    changed = [file for file, state in loaded.items() if now.get(file, state) != state]
    warning = (
        f"{model.at('files')}{listed(changed, SHOWN)} changed after the table was loaded "
        "from it: run with --rebuild to load all files of the pattern again, or write new rows to new files"
    )
    return [file for key, file in by_identity.items() if key not in before], [warning] if changed else []


def _found_files(lake: Lake, model: Model, pattern: str) -> Sequence[str]:
    """Returns the files of a pattern, sorted: URIs, or paths as the pattern has them, absolute or relative."""
    if "://" in pattern:
        uris = sorted({str(file) for (file,) in sql_rows(lake, f"SELECT file FROM glob({literal(pattern)})")})
        for file in uris:
            if re.search(URL_ENDS, file):
                message = f"{model.at('files')}{file!r} has a character that ends the path of a URL"
                raise StorageError(message, hint="rename the object, without ? and #, or choose a pattern without it")
        return uris
    # With `root_dir`, brackets in the name of the folder are not a pattern.
    return sorted(set(map(os.path.normpath, glob.glob(pattern, root_dir=model.folder, recursive=True))))


def file_states(lake: Lake, model: Model, files: Iterable[str]) -> dict[str, FileState]:
    """Returns the states of files that match the pattern of a model; those that do not exist are left out."""
    names = list(files)
    pattern = model.kind.files if isinstance(model.kind, Append) else None
    if pattern is None or "://" not in pattern:
        states = {file: local_state(model.folder / file) for file in names}
        return {file: state for file, state in states.items() if state is not None}
    # DuckDB reads no content here: sizes and times are in the listing of the bucket.
    sql = f"SELECT filename, size, epoch_us(last_modified) FROM read_blob({literal(pattern)})"
    by_name = {name: FileState(size, modified) for name, size, modified in sql_rows(lake, sql)} if names else {}
    return {file: by_name[file] for file in names if file in by_name}


def local_state(path: Path) -> FileState | None:
    """Returns the state of a file; None if it is gone, or cannot be read."""
    try:
        status = path.stat()
    except OSError:  # loading it says so
        return None
    return FileState(status.st_size, status.st_mtime_ns // 1000)
