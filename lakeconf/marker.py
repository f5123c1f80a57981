"""The marker of a lake: a file below the data path that names the one catalog whose files lie there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakeconf.catalog.reader import CatalogReader
from lakeconf.errors import CatalogError, CatalogMovedError, FileMissingError, StorageError
from lakeconf.sql import literal

# DuckLake lists and removes Parquet files only, and Hadoop skips names that begin with an underscore.
MARKER = "_lakeconf.json"
_PURPOSE = "marks the folder of one DuckLake; `lakeconf doctor STORE --repair` creates this file"
_LARGEST_BYTES = 10_000


@dataclass
class LakeMarker:
    """The marker of an attached lake.

    Attributes:
        reader: The lake.
        places: Gives the marks of the place of the catalog, such as its path. A copy of the catalog has the same id,
            but none of the marks. No marks: the place is not compared.
    """

    reader: CatalogReader
    places: Callable[[], Sequence[str]] = tuple
    _checked: bool = field(default=False, repr=False)

    @property
    def path(self) -> str:
        """The path or URI of the marker."""
        return self.reader.data_path + MARKER

    def exists(self) -> bool:
        """True if there is a marker, whatever it says."""
        return self._read() is not None

    def before_write(self) -> None:
        """Refuses a write below a data path of another lake, and creates the marker of a new lake.

        A lake that has files and no marker gets none here: `lakeconf doctor STORE --repair` creates it.

        Raises:
            CatalogError: The data path is another lake's, or has files and the catalog knows none.
            StorageError: The marker cannot be read or created.
        """
        if self._checked:
            return
        found = self._read()
        if found is None:
            if not self.knows_files():
                self._check_empty()
                self.create()
        elif found.get("lake") != self.reader.lake_id:
            raise self._other()
        self._checked = True

    def before_cleanup(self) -> None:
        """Refuses the removal of files unless the marker names this catalog.

        A new lake has neither files nor a marker: there is nothing to remove.

        Raises:
            CatalogError: There are files and no marker, or it names another catalog or a copy of this one.
        """
        found = self._read()
        if found is None and not self.knows_files() and not self._has_files():
            return
        if found is None:
            raise CatalogError(
                f"{self.path} does not exist, so that nothing proves that the files below {self.reader.data_path} are "
                "those of this lake: no file was removed",
                hint="if no other lake uses this data path, run: lakeconf doctor STORE --repair",
            )
        if found.get("lake") != self.reader.lake_id:
            raise self._other()
        recorded, here = found.get("catalog"), set(self._places())
        if here and isinstance(recorded, list) and recorded and here.isdisjoint(map(str, recorded)):
            raise CatalogMovedError(
                f"{self.path} was created for a catalog at another place: this catalog is a copy, or it was moved. "
                "The files may still belong to the original: no file was removed",
                hint="if no other catalog uses this data path any more, confirm the move: lakeconf doctor STORE "
                "--repair",
            )

    def repair(self) -> str:
        """Creates the marker of a lake that has none. A marker that exists stays as it is.

        Returns:
            What was found or done.

        Raises:
            CatalogMovedError: The marker names this lake at another place; `confirm_move` records the new place.
            CatalogError: The marker is another lake's, or the catalog knows none of the files.
        """
        if self._read() is None:
            if not self.knows_files():
                self._check_empty()
            self.create()
            return f"created {self.path}"
        self.before_cleanup()
        return f"{self.path} names this catalog"

    def confirm_move(self) -> None:
        """Records the place of this catalog in the marker of this lake; a catalog at the earlier place loses it.

        Raises:
            CatalogError: There is no marker, or it names another lake.
            StorageError: The marker cannot be written.
        """
        try:
            self.before_cleanup()
        except CatalogMovedError:
            self._write(_replace_file)
            self.before_cleanup()

    def create(self) -> None:
        """Creates the marker, and checks that no other lake has created one at the same time.

        Raises:
            CatalogError: Another lake was faster.
            StorageError: The marker cannot be written.
        """
        self._write(_create_file)
        found = self._read()
        if found is None or found.get("lake") != self.reader.lake_id:
            raise self._other()

    def _write(self, write_file: Callable[[Path, str], None]) -> None:
        content = json.dumps({"lakeconf": _PURPOSE, "lake": self.reader.lake_id, "catalog": list(self._places())})
        if "://" in self.path:
            copy = f"COPY (SELECT {literal(content)} AS marker) TO {literal(self.path)} "
            self.reader.connection.execute(copy + "(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\t')")
        else:
            write_file(Path(self.path), content)

    def knows_files(self) -> bool:
        """True if the catalog has recorded any file, in whatever snapshot."""
        with self.reader.transaction() as transaction:
            found = transaction.rows(
                "SELECT EXISTS (SELECT 1 FROM ducklake_data_file) OR EXISTS (SELECT 1 FROM ducklake_delete_file) "
                "OR EXISTS (SELECT 1 FROM ducklake_files_scheduled_for_deletion)"
            )
        return bool(found[0][0])

    def _check_empty(self) -> None:
        """Refuses files that a catalog which knows none cannot own."""
        if self._has_files():
            raise CatalogError(
                f"the catalog knows no file, but there are Parquet files below {self.reader.data_path}: "
                "they are those of another lake, or of a catalog that was lost. Nothing was written",
                hint="check `path` and `metadata_schema` of the store, or choose an empty folder",
            )

    def _has_files(self) -> bool:
        if "://" not in self.path:
            return any(Path(self.reader.data_path).rglob("*.parquet"))
        pattern = f"{self.reader.data_path}**/*.parquet"
        return bool(self.reader.connection.rows("SELECT 1 FROM glob(?) LIMIT 1", [pattern]))

    def _places(self) -> tuple[str, ...]:
        # Hashes: whoever can list the bucket learns nothing of hosts and folders.
        return tuple(hashlib.sha256(f"lakeconf:{place}".encode()).hexdigest()[:32] for place in self.places())

    def _read(self) -> dict[str, object] | None:
        try:
            text = self._text()
        except FileMissingError:
            return None
        try:
            found = json.loads(text) if text is not None else None
        except ValueError:
            found = None
        if text is not None and not isinstance(found, dict):
            raise CatalogError(
                f"{self.path} is damaged: it names no catalog",
                hint="if no other lake uses this data path, delete that file and run: lakeconf doctor STORE --repair",
            )
        return found

    def _text(self) -> str | None:
        if "://" in self.path:
            rows = self.reader.connection.rows("SELECT content FROM read_text(?)", [self.path])
            return str(rows[0][0]) if rows else None
        try:
            with Path(self.path).open("rb") as file:
                return file.read(_LARGEST_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"the marker {self.path} cannot be read: {error.strerror}") from error

    def _other(self) -> CatalogError:
        return CatalogError(
            f"the data path {self.reader.data_path} belongs to another lake, as {self.path} says: nothing was changed",
            hint="check `path` and `metadata_schema` of the store: each lake needs a data path of its own. If the "
            "other lake does not exist any more, delete that file and run: lakeconf doctor STORE --repair",
        )


def _create_file(path: Path, content: str) -> None:
    """Creates a file with its whole content, or leaves the one that exists as it is."""
    with _written_beside(path, content) as temporary, contextlib.suppress(FileExistsError):
        os.link(temporary, path)


def _replace_file(path: Path, content: str) -> None:
    """Replaces a file by one with another content, at once."""
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
        raise StorageError(f"the marker {path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
