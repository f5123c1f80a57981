"""The marker of a lake: a file below the data path that names the catalog that owns the files there."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import MARKER
from lakeconf.errors import CatalogError, CatalogMovedError, CatalogRestoredError, FileMissingError, StorageError
from lakeconf.sql import files_sql, listing_sql, literal

# DuckLake lists and removes only Parquet files, and Hadoop skips names that start with an underscore.
_PURPOSE = "marks the folder of one DuckLake; `lakeconf doctor --store STORE --repair` creates this file"
_LARGEST_BYTES = 10_000
_CLEANED = "cleaned"  # the key of the time of the last cleanup


@dataclass
class LakeMarker:
    """The marker of an attached lake."""

    reader: CatalogReader
    # Returns identifiers of the catalog's location, such as its path. A copy of the catalog has the same lake id, but
    # other identifiers. Without identifiers, the location is not compared.
    places: Callable[[], Sequence[str]] = tuple
    # Returns location identifiers of the files next to the catalog, if the catalog is a file.
    neighbours: Callable[[], Sequence[str]] = tuple
    _is_checked: bool = field(default=False, repr=False)  # True if `before_write` has passed

    @property
    def path(self) -> str:
        """The path or URI of the marker."""
        return self.reader.data_path + MARKER

    def before_write(self) -> None:
        """Rejects writes below the data path of another lake, and creates the marker of a new lake.

        If the lake has files but no marker, this creates none; `lakeconf doctor --store STORE --repair` does.
        """
        if self._is_checked:
            return
        if self.check_free():
            self.create()
        self._is_checked = True

    def check_free(self) -> bool:
        """Rejects the data path of another lake; true if a new lake would create its marker there."""
        content = self._read()
        if content is not None and content.get("lake") != self.reader.lake_id:
            raise self._other()
        is_new = content is None and not self.knows_files()
        if is_new:
            self._check_empty()
        return is_new

    def is_of_another(self) -> bool:
        """True if the data path is that of another lake."""
        content = self._read()
        return content is not None and content.get("lake") != self.reader.lake_id

    def before_cleanup(self) -> None:
        """Refuses to remove files unless the marker names this catalog.

        A new lake without files and without a marker passes.
        """
        content = self._read()
        if content is None and not self.knows_files() and not self._has_files():
            return
        if content is None:
            raise CatalogError(
                f"{self.path} does not exist, so the files below {self.reader.data_path} may belong to another lake: "
                "no file was removed",
                hint="run, if no other lake uses this data path: lakeconf doctor --store STORE --repair",
            )
        if content.get("lake") != self.reader.lake_id:
            raise self._other()
        if self._is_elsewhere(content):
            raise CatalogMovedError(
                f"{self.path} was created for a catalog at another location: this catalog was copied or moved. "
                "The files may still belong to the original: no file was removed",
                hint="confirm the move if no other catalog uses this data path: lakeconf doctor --store STORE --repair",
            )
        self._check_age(content)

    def before_expiry(self) -> None:
        """Refuses to expire snapshots of a restored catalog: `before_cleanup` would not recognize it any more."""
        content = self._read()
        if content is not None and content.get("lake") == self.reader.lake_id and not self._is_elsewhere(content):
            self._check_age(content)

    def record(self, *, is_cleanup: bool = False) -> None:
        """Records the location and the newest snapshot of the catalog in the marker of this lake, if there is one.

        Args:
            is_cleanup: True to record the time of a cleanup that begins, too; see `last_cleanup`.
        """
        content = self._read()
        if content is None:
            return
        self.before_cleanup()
        cleaned: dict[str, object] = (
            {_CLEANED: time.time()} if is_cleanup else {key: content[key] for key in content.keys() & {_CLEANED}}
        )
        if content != {**self._content(), **cleaned}:
            self._write(replace_file, cleaned)

    def last_cleanup(self) -> float | None:
        """The time at which the last cleanup of this lake began, in seconds since 1970; None if it is not known."""
        content = self._read() or {}
        moment = content.get(_CLEANED)
        is_own = content.get("lake") == self.reader.lake_id and not isinstance(moment, bool)
        return moment if is_own and isinstance(moment, int | float) else None

    def _is_elsewhere(self, content: Mapping[str, object]) -> bool:
        recorded, here = content.get("catalog"), set(hashes(self.places()))
        if not here or not isinstance(recorded, list) or not recorded:
            return False
        recorded_hashes = {str(mark) for mark in recorded}
        elsewhere = recorded_hashes - here
        # A rename keeps one identifier. A file next to this catalog with the other identifier may be the original.
        return elsewhere == recorded_hashes or (bool(elsewhere) and not elsewhere.isdisjoint(hashes(self.neighbours())))

    def _check_age(self, content: Mapping[str, object]) -> None:
        recorded, moment = content.get("snapshot"), content.get("snapshot_time")
        if not isinstance(recorded, int):
            return
        newest, _, here = self._newest(recorded)
        if newest < recorded or (here is not None and here != moment):
            raise CatalogRestoredError(
                f"{self.path} records snapshot {recorded}, which this catalog lacks: the catalog was restored from an "
                "older backup. Files of later snapshots may still be needed: nothing was removed",
                hint="restore a newer backup of the catalog; or, if the later snapshots are not needed, confirm that "
                "this catalog is the right one: lakeconf doctor --store STORE --repair",
            )

    def _newest(self, version: int = -1) -> tuple[int, int, int | None]:
        """The newest snapshot, its time in microseconds, and the time of snapshot `version`, None if it is missing."""
        moments = "SELECT snapshot_id, epoch_us(CAST(snapshot_time AS TIMESTAMPTZ)) AS moment FROM ducklake_snapshot"
        with self.reader.transaction() as transaction:
            (newest,) = transaction.rows(
                "SELECT max(snapshot_id), arg_max(moment, snapshot_id), "  # noqa: S608 - a constant
                f"max(moment) FILTER (snapshot_id = {version}) FROM ({moments})"
            )
        return newest

    def repair(self) -> str:
        """Creates the marker of a lake without one; an existing marker is not changed."""
        if self._read() is None:
            if not self.knows_files():
                self._check_empty()
            self.create()
            return f"created {self.path}"
        self.before_cleanup()
        return f"{self.path} names this catalog"

    def confirm_move(self) -> None:
        """Records the location and age of this catalog in the marker; one at the earlier location loses the marker."""
        try:
            self.before_cleanup()
        except (CatalogMovedError, CatalogRestoredError):
            self._write(replace_file)
            self.before_cleanup()

    def create(self) -> None:
        """Creates the marker, and checks that no other lake has created one at the same time."""
        self._write(create_file)
        content = self._read()
        if content is None or content.get("lake") != self.reader.lake_id:
            raise self._other()

    def _content(self) -> dict[str, object]:
        version, moment, _ = self._newest()
        identity = {"lakeconf": _PURPOSE, "lake": self.reader.lake_id, "catalog": hashes(self.places())}
        return identity | {"snapshot": version, "snapshot_time": moment}

    def _write(self, write_file: Callable[[Path, str], None], more: Mapping[str, object] | None = None) -> None:
        content = json.dumps({**self._content(), **(more or {})})
        if "://" in self.path:
            copy = f"COPY (SELECT {literal(content)} AS marker) TO {literal(self.path)} "
            self.reader.connection.execute(copy + "(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\t')")
        else:
            write_file(Path(self.path), content)

    def knows_files(self) -> bool:
        """True if the catalog has recorded a file in any snapshot."""
        with self.reader.transaction() as transaction:
            rows = transaction.rows(
                "SELECT EXISTS (SELECT 1 FROM ducklake_data_file) OR EXISTS (SELECT 1 FROM ducklake_delete_file) "
                "OR EXISTS (SELECT 1 FROM ducklake_files_scheduled_for_deletion)"
            )
        return bool(rows[0][0])

    def _check_empty(self) -> None:
        """Rejects a data path with files if the catalog has none."""
        if self._has_files():
            raise CatalogError(
                f"the catalog has no files, but there are Parquet files below {self.reader.data_path}: "
                "they belong to another lake or to a lost catalog. Nothing was written",
                hint="check `path` and `metadata_schema` of the store, or choose an empty folder",
            )

    def _has_files(self) -> bool:
        if "://" not in self.path:
            return any(Path(self.reader.data_path).rglob("*.parquet"))
        return bool(self.reader.connection.rows(listing_sql(self.reader.data_path, "**/*.parquet") + " LIMIT 1"))

    def _read(self) -> dict[str, object] | None:
        text = self._text()
        try:
            content = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            content = None
        if text is not None and not isinstance(content, dict):
            raise CatalogError(
                f"{self.path} is damaged: it does not name a catalog",
                hint="delete that file if no other lake uses this data path, and run: "
                "lakeconf doctor --store STORE --repair",
            )
        return content

    def _text(self) -> str | None:
        if "://" in self.path:
            return text_in_bucket(self.reader.connection, self.path)
        if Path(self.path).is_fifo():
            raise StorageError(
                f"the marker {self.path} is not a regular file", hint="find out who made it, and remove it"
            )
        try:
            with Path(self.path).open("rb") as file:
                return file.read(_LARGEST_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(
                f"the marker {self.path} cannot be read: {error.strerror}", hint="check the permissions of the file"
            ) from error

    def _other(self) -> CatalogError:
        return CatalogError(
            f"the data path {self.reader.data_path} belongs to another lake, according to {self.path}: nothing was "
            "changed",
            hint="check `path` and `metadata_schema` of the store: each lake needs its own data path. If the other "
            "lake no longer exists, delete that file and run: lakeconf doctor --store STORE --repair",
        )


def text_in_bucket(connection: Connection, path: str) -> str | None:
    """The text of a file of a bucket; None without one: of Azure, DuckDB returns no row, and of S3, it is an error."""
    try:
        rows = connection.rows(f"SELECT content FROM {files_sql('read_text', path)}")  # noqa: S608
    except FileMissingError:
        return None
    return str(rows[0][0]) if rows else None


def hashes(places: Sequence[str]) -> list[str]:
    """What a marker records of the identifiers of a place."""
    # Hashes do not reveal hosts and folders to users who can list the bucket.
    import hashlib

    return [hashlib.sha256(f"lakeconf:{place}".encode()).hexdigest()[:32] for place in places]


def create_file(path: Path, content: str) -> None:
    """Creates a complete file atomically; an existing file is not changed."""
    with _written_beside(path, content) as temporary, contextlib.suppress(FileExistsError):
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # the file system has no hard links
            with path.open("x") as file:
                file.write(content)


def replace_file(path: Path, content: str) -> None:
    """Replaces a file atomically."""
    with _written_beside(path, content) as temporary:
        temporary.replace(path)


@contextlib.contextmanager
def _written_beside(path: Path, content: str) -> Iterator[Path]:
    """A temporary file with the content, in the folder of the marker."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(content)
        yield temporary
    except OSError as error:
        raise StorageError(
            f"the marker {path} cannot be written: {error.strerror}", hint="check the permissions of the data path"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
