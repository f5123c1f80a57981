"""Copies files between folders and buckets: each once, verified by size and checksum, and never half."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lakeconf.connection.connection import Connection
from lakeconf.errors import FileMissingError, LakeconfError, StorageError, UnsupportedError, storage_errors
from lakeconf.logs import event_logger
from lakeconf.sql import exact_paths, files_sql, listing_sql, literal
from lakeconf.transfer.checksums import differ, local_checksums, told_checksums
from lakeconf.wording import byte_size, counted

_log = event_logger("transfer")
# DuckDB reads a file of a bucket as one value. It refuses larger ones.
_LARGEST_BYTES = 4_100_000_000
# Each copy of a file in a bucket needs memory for the file.
_THREADS = 4
_PART = ".lakeconf-part-"
_SHOWN = 3
_NO_LINKS = "remove the links below the data path of the target"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FileCopy:
    """A file to copy."""

    source: str  # its path or URI
    target: str  # where it goes
    size: int  # its size, in bytes


def files_below(connection: Connection, folder: str) -> set[str]:
    """The paths of all files below a folder or the prefix of a bucket, and of all links below a folder."""
    if "://" not in folder:
        return {
            Path(parent, name).as_posix()
            for parent, folders, names in os.walk(folder)
            for name in (*names, *(name for name in folders if os.path.islink(os.path.join(parent, name))))
        }
    keys = (str(key) for (key,) in connection.rows(listing_sql(folder, "**")))
    return {key for key in keys if not key.endswith("/")}


def sizes(connection: Connection, paths: Sequence[str]) -> dict[str, int]:
    """The sizes of files, by path.

    Raises:
        FileMissingError: One of them does not exist.
    """
    if not paths:
        return {}
    local = [path for path in paths if "://" not in path]
    there = {}
    for path in local:
        try:
            there[path] = os.stat(path).st_size
        except OSError as error:
            raise FileMissingError(f"the file {path} cannot be read: {error.strerror}") from error
    remote = [path for path in paths if "://" in path]
    if remote:
        # Without their content, DuckDB only asks for their sizes.
        rows = connection.rows(f"SELECT filename, size FROM {files_sql('read_blob', remote)}")  # noqa: S608
        there |= {str(path): int(size) for path, size in rows}
    return there


class FileCopies:
    """Copies of files. The connections have the secrets of their own side only."""

    def __init__(self, source: Connection, target: Connection, files: Iterable[FileCopy], root: str) -> None:
        """`root` is the data path of the target."""
        self._source, self._target, self.files, self._root = source, target, tuple(files), root
        for file in self.files:
            if file.size > _LARGEST_BYTES and any("://" in path for path in (file.source, file.target)):
                raise UnsupportedError(
                    f"{file.source} has {byte_size(file.size)}, and lakeconf copies at most "
                    f"{byte_size(_LARGEST_BYTES)} from or to a bucket",
                    hint="write its rows to smaller files first, with an overwrite",
                )

    def check_source(self, root: str) -> None:
        """Rejects files that the source lacks, or that have another size than in its catalog."""
        wanted = [file.source for file in self.files]
        # The link could lead to a file that does not belong to the lake.
        _refuse_links(wanted, root, "put the file in the place of the link")
        there = sizes(self._source, sorted(files_below(self._source, root).intersection(wanted)))
        wrong = [file.source for file in self.files if there.get(file.source) != file.size]
        if wrong:
            shown = ", ".join(wrong[:_SHOWN]) + (", …" if len(wrong) > _SHOWN else "")
            raise StorageError(
                f"{counted(len(wrong), 'file')} of the source ({shown}) are missing, or have another size than in the "
                "catalog: nothing was copied",
                hint="restore the files from a backup; `lakeconf doctor` lists them",
            )

    def missing(self) -> list[FileCopy]:
        """The files that the target lacks."""
        wanted = [file.target for file in self.files]
        _refuse_links(wanted, self._root, _NO_LINKS)
        there = files_below(self._target, self._root)
        copied = [file for file in self.files if file.target in there]
        wrong = self._wrong(copied)
        return [file for file in self.files if file.target not in there or file in wrong]

    def _wrong(self, files: Sequence[FileCopy]) -> list[FileCopy]:
        """The copies with another size than their original, or, where both stores tell it, with another checksum."""
        targets = [file.target for file in files]
        with told_checksums(self._target, targets) as told_by_target:
            there = sizes(self._target, targets)
        complete = [file for file in files if there[file.target] == file.size]
        remote = [file.source for file in complete if "://" in file.source]
        with told_checksums(self._source, remote) as told_by_source:
            sizes(self._source, remote)
        told = told_by_source | told_by_target
        ends = [(file.source, file.target) for file in complete]
        pairs = (pair for source, target in ends for pair in ((source, target), (target, source)))
        told |= local_checksums(path for path, other in pairs if "://" not in other or other in told)
        sides = ({file.source: self._source, file.target: self._target} for file in complete)
        same = {file for file, side in zip(complete, sides, strict=True) if not differ(side, told)}
        return [file for file in files if file not in same]

    def copy(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """Copies files, and verifies the copies; `progress` receives the copied bytes and all bytes."""
        total, done = sum(file.size for file in files), 0
        with (
            tempfile.TemporaryDirectory(prefix="lakeconf-") as folder,
            ThreadPoolExecutor(_THREADS, "lakeconf-copy") as pool,
        ):
            copies = [pool.submit(self._copy, file, folder) for file in files]
            try:
                for file, copied in zip(files, copies, strict=True):
                    copied.result()
                    done += file.size
                    if progress is not None:
                        progress(done, total)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        _refuse_links([file.target for file in files], self._root, _NO_LINKS)
        if wrong := self._wrong(files):
            raise StorageError(
                f"{wrong[0].target} has another size or checksum than {wrong[0].source}", hint="run the command again"
            )

    def _copy(self, file: FileCopy, folder: str) -> None:
        if "://" not in file.target:
            self._to_folder(file)
        elif "://" not in file.source:
            _write_blob(self._target, file.source, file.target)
        else:
            # Through this machine: the secrets of the two sides must not meet in one instance of DuckDB.
            local = os.path.join(folder, uuid.uuid4().hex)
            _write_blob(self._source, file.source, local)
            _write_blob(self._target, local, file.target)
            os.unlink(local)
        _log.debug("copied %s to %s", file.source, file.target)

    def _to_folder(self, file: FileCopy) -> None:
        target = Path(file.target)
        part = target.with_name(f"{target.name}{_PART}{uuid.uuid4().hex}")
        hint = "check the permissions of both folders, and the free space of the target"
        with storage_errors(f"{file.source} cannot be copied to {target}", hint=hint):
            _refuse_links([file.target], self._root, _NO_LINKS)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                if "://" in file.source:
                    _write_blob(self._source, file.source, str(part))
                else:
                    _copy_regular(file.source, part)
                with part.open("rb") as copied:
                    os.fsync(copied.fileno())
                if part.stat().st_size != file.size:
                    raise StorageError(f"{file.source} changed while it was copied", hint="run the command again")
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)


def _refuse_links(paths: Iterable[str], root: str, hint: str) -> None:
    """Rejects links below a folder that lead to one of these paths; a link may lead to the folder itself."""
    if "://" in root:
        return
    real = os.path.realpath(root)
    outside = {
        parent
        for parent in {os.path.dirname(path) for path in paths}
        if not f"{os.path.realpath(parent)}/".startswith(f"{real}/")
    }
    for path in paths:
        if os.path.islink(path) or os.path.dirname(path) in outside:
            raise StorageError(f"a link leads to {path}, and lakeconf follows none", hint=hint)


def remove_parts(folder: str) -> None:
    """Removes what killed copies to a folder left behind."""
    for parent, _, names in os.walk(folder) if "://" not in folder else ():
        for name in names:
            if _PART in name:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(parent, name))


def _copy_regular(source: str, target: Path) -> None:
    # The catalog names the file: it must not be a link to a file elsewhere.
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as original, target.open("xb") as copy:
        shutil.copyfileobj(original, copy, 1 << 23)


def _write_blob(connection: Connection, source: str, target: str) -> None:
    with connection.cursor() as cursor:
        query = f"SELECT content FROM read_blob({exact_paths(source)})"  # noqa: S608 - a literal
        try:
            cursor.execute(f"COPY ({query}) TO {literal(target)} (FORMAT BLOB)")
        except LakeconfError as error:
            raise StorageError(
                f"{source} cannot be copied to {target}: {error.message}", hint=error.hint or "run the command again"
            ) from error
