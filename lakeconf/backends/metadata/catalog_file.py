"""What the catalogs that are a file on this machine have in common."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from lakeconf.backends.base import MetadataBackend
from lakeconf.backends.fields import Text
from lakeconf.errors import CatalogError, CatalogMissingError, StorageError

_HEADERS = {"SQLite": (0, b"SQLite format 3\x00"), "DuckDB": (8, b"DUCK")}
# Closing a file drops every POSIX lock that this process holds on it, also those of a database that has it open
# (https://www.sqlite.org/howtocorrupt.html §2.2). So lakeconf looks into each catalog once, before it attaches it.
_LOOKED_INTO: set[Path] = set()
_OWNER_ONLY, _OWNER_ONLY_FOLDER = 0o600, 0o700


class CatalogFile(MetadataBackend):
    """A catalog in one file."""

    kind: ClassVar[str]
    uri: Annotated[
        Text,
        Field(
            examples=[".lakeconf/catalog.sqlite"],
            description="Path of the catalog file, relative to the configuration file.",
        ),
    ]

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("uri",)

    def file(self) -> Path:
        return Path(self.uri)

    def prepare(self, *, read_only: bool) -> None:
        path = self.file()
        if path.is_dir():
            raise CatalogError(f"the catalog {path} is a directory", hint="uri names the catalog's file")
        exists = path.is_file() and path.stat().st_size > 0
        if exists and path not in _LOOKED_INTO:
            self.look_into(path)
        if not exists and read_only:
            raise CatalogMissingError(f"the catalog {path} does not exist")
        if not exists:
            make_folder(path.parent)
        _LOOKED_INTO.add(path)

    def make_private(self) -> None:
        path = self.file()
        make_folder(path.parent, mode=_OWNER_ONLY_FOLDER)
        if path.exists():
            return
        try:
            with tempfile.TemporaryDirectory(prefix=".lakeconf-", dir=path.parent) as folder:
                made = Path(folder) / "catalog"
                self.make_empty(made)
                made.chmod(_OWNER_ONLY)
                # Another process may create the catalog at the same time. File systems without links have no rights.
                with contextlib.suppress(OSError):
                    os.link(made, path)
        except OSError as error:
            raise StorageError(f"the catalog {path} cannot be created: {error.strerror}") from error

    def make_empty(self, path: Path) -> None:
        """Creates a database without tables.

        Args:
            path: A file that does not exist.
        """
        path.touch()

    def look_into(self, path: Path) -> None:
        """Checks that a file is a catalog of this type.

        Args:
            path: A file that is not empty.

        Raises:
            CatalogError: It is something else.
            StorageError: It cannot be read.
        """
        try:
            with path.open("rb") as file:
                head = file.read(32)
        except OSError as error:
            raise StorageError(f"the catalog {path} cannot be read: {error.strerror}") from error
        found = next((kind for kind, (at, magic) in _HEADERS.items() if head[at:].startswith(magic)), None)
        if found == self.kind:
            return
        what = f"a {found} database" if found else "no database that lakeconf knows"
        hint = f'set type = "{found.lower()}" or name another file' if found else "name the file of the lake's catalog"
        raise CatalogError(f"the catalog {path} is {what}, not one of {self.kind}", hint=hint)


def refuse_foreign(path: Path, kind: str, tables: Collection[str]) -> None:
    """Refuses a database with tables of somebody else: DuckLake would make its own among them.

    Args:
        path: The database's file.
        kind: What it is, such as `SQLite`.
        tables: The names of its tables.

    Raises:
        CatalogError: None of them is DuckLake's.
    """
    if tables and "ducklake_metadata" not in tables:
        raise CatalogError(
            f"{path} is a database of {kind}, but no DuckLake catalog (it has the table {min(tables)!r})",
            hint="name the catalog's own file; lakeconf does not make a catalog among other tables",
        )


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Makes a folder and its parents.

    Args:
        path: The folder.
        mode: The rights of the folder, if it is made; the umask limits them.

    Raises:
        StorageError: It cannot be made.
    """
    try:
        path.mkdir(mode, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder {path} cannot be made: {error.strerror}") from error
