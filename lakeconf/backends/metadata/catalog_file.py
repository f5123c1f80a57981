"""The base class of catalogs in a local file."""

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
# Closing a file drops all POSIX locks of this process on it, including those of a database that has it open
# (https://www.sqlite.org/howtocorrupt.html §2.2). lakeconf therefore inspects each catalog once, before it attaches it.
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
            raise CatalogError(f"the catalog {path} is a directory", hint="set uri to the catalog's file")
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
                # Another process may create the file at the same time. File systems without links have no permissions.
                with contextlib.suppress(OSError):
                    os.link(made, path)
        except OSError as error:
            raise StorageError(
                f"the catalog {path} cannot be created: {error.strerror}", hint="check the permissions of its folder"
            ) from error

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
            CatalogError: The file is something else.
            StorageError: The file cannot be read.
        """
        try:
            with path.open("rb") as file:
                head = file.read(32)
        except OSError as error:
            raise StorageError(
                f"the catalog {path} cannot be read: {error.strerror}", hint="check the permissions of the file"
            ) from error
        found = next((kind for kind, (at, magic) in _HEADERS.items() if head[at:].startswith(magic)), None)
        if found == self.kind:
            return
        what = f"a {found} database" if found else "an unknown type of file"
        hint = f'set type = "{found.lower()}" or name another file' if found else "name the file of the lake's catalog"
        raise CatalogError(f"the catalog {path} is {what}, not a {self.kind} database", hint=hint)


def refuse_foreign(path: Path, kind: str, tables: Collection[str]) -> None:
    """Refuses a database of another application, because DuckLake would create its tables in it.

    Args:
        path: The database's file.
        kind: The kind of database, such as `SQLite`.
        tables: The names of its tables.

    Raises:
        CatalogError: There are tables, but none of DuckLake.
    """
    if tables and "ducklake_metadata" not in tables:
        raise CatalogError(
            f"{path} is a {kind} database, but not a DuckLake catalog (it contains the table {min(tables)!r})",
            hint="use a separate file for the catalog; lakeconf does not create a catalog among other tables",
        )


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Creates a folder and its parents.

    Args:
        path: The folder.
        mode: The permissions of a new folder, limited by the umask.

    Raises:
        StorageError: The folder cannot be created.
    """
    try:
        path.mkdir(mode, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the folder {path} cannot be created: {error.strerror}",
            hint="check the permissions of the folder above it",
        ) from error
