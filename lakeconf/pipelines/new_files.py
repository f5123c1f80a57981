"""The files of a pattern: which are new, and which have changed since they were loaded."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lakeconf.connection.connection import fetched
from lakeconf.errors import listed
from lakeconf.lake.lake import Lake
from lakeconf.lake.run_journal import FileState, ModelRun
from lakeconf.pipelines.models.kinds import Append
from lakeconf.pipelines.models.model import Model
from lakeconf.sql import literal


def found_files(lake: Lake, model: Model, pattern: str) -> Sequence[str]:
    """Returns the files of a pattern, sorted: URIs, or paths as the pattern has them, absolute or relative."""
    if "://" in pattern:
        secrets = lake._session.writer.secrets  # noqa: SLF001 - for scrubbing only
        rows = fetched(lake.sql(f"SELECT file FROM glob({literal(pattern)})"), secrets)
        return sorted({str(file) for (file,) in rows})
    # With `root_dir`, brackets in the name of the folder are no pattern.
    paths = glob.glob(pattern, root_dir=model.folder, recursive=True)
    return sorted({_full_name(model, pattern, path) for path in paths})


def runs_by_full_name(model: Model, pattern: str, runs: Sequence[ModelRun]) -> Sequence[ModelRun]:
    """Returns runs with the names that `found_files` gives to the loaded files.

    A pattern that becomes relative, or absolute, does not load its files again.
    """
    if "://" in pattern:
        return runs
    return [
        replace(
            run,
            files=[_full_name(model, pattern, file) for file in run.files],
            file_states={_full_name(model, pattern, file): state for file, state in run.file_states.items()},
        )
        for run in runs
    ]


def _full_name(model: Model, pattern: str, path: str) -> str:
    if "://" in path:
        return path
    if os.path.isabs(pattern):
        return os.path.normpath(model.folder / path)
    return os.path.relpath(model.folder / path, model.folder)


# A larger file is compared by size and time only: a run reads no large file twice.
MAX_DIGEST_BYTES = 64 * 1024**2
_SHOWN = 3


def file_states(lake: Lake, model: Model, files: Iterable[str]) -> dict[str, FileState]:
    """Returns the states of files that match the pattern of a model; those that do not exist are left out."""
    wanted = list(files)
    pattern = model.kind.files if isinstance(model.kind, Append) else None
    if pattern is not None and "://" in pattern:
        return _remote(lake, pattern, wanted) if wanted else {}
    states = {file: local_state(model.folder / file) for file in wanted}
    return {file: state for file, state in states.items() if state is not None}


def changed_file_warnings(lake: Lake, model: Model, found: Iterable[str], runs: Sequence[ModelRun]) -> list[str]:
    """Returns a warning if loaded files have changed since they were loaded.

    A file that is gone causes none: landing zones are emptied.
    """
    # The last run that loaded a file counts: `--rebuild` loads it again.
    before = {file: run.file_states.get(file) for run in runs for file in run.files}
    known = {file: state for file in found if (state := before.get(file)) is not None}
    remote = file_states(lake, model, [file for file in known if "://" in file])
    changed = [
        file
        for file, state in known.items()
        if (remote.get(file, state) != state if "://" in file else _has_changed(model.folder / file, state))
    ]
    if not changed:
        return []
    return [
        f"{model.at('files')}{listed(changed, _SHOWN)} changed after the table was loaded "
        "from it: run with --rebuild to load all files of the pattern again, or write new rows to new files"
    ]


def _has_changed(path: Path, before: FileState) -> bool:
    """Compares a file with its state. A copy, such as a new checkout, has another time and the same content."""
    now = local_state(path, with_digest=False)
    if now is None or now == before._replace(digest=None):
        return False
    if now.size != before.size or before.digest is None:
        return True
    read = local_state(path)
    return read is not None and read.digest != before.digest


def local_state(path: Path, *, with_digest: bool = True) -> FileState | None:
    """Returns the state of a file; None if it is gone, or cannot be read."""
    try:
        found = path.stat()
        digest = None
        if with_digest and found.st_size <= MAX_DIGEST_BYTES:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # loading it says so
        return None
    return FileState(found.st_size, found.st_mtime_ns // 1000, digest)


def _remote(lake: Lake, pattern: str, files: Sequence[str]) -> dict[str, FileState]:
    secrets = lake._session.writer.secrets  # noqa: SLF001 - for scrubbing only
    # DuckDB reads no content here: sizes and times are in the listing of the bucket.
    sql = f"SELECT filename, size, epoch_us(last_modified) FROM read_blob({literal(pattern)})"
    rows = fetched(lake.sql(sql), secrets)
    states: Mapping[str, FileState] = {name: FileState(size, modified) for name, size, modified in rows}
    return {file: states[file] for file in files if file in states}
