"""What the catalogs that are a file on this machine have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from lakeconf.backends.base import MetadataBackend, Text
from lakeconf.errors import CatalogError, StorageError

_HEADERS = {"SQLite": (0, b"SQLite format 3\x00"), "DuckDB": (8, b"DUCK")}


class CatalogFile(MetadataBackend):
    """A catalog in one file."""

    kind: ClassVar[str]
    uri: Annotated[Text, Field(description="Path of the catalog's file; relative to the configuration file.")]

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("uri",)

    def file(self) -> Path:
        return Path(self.uri)

    def prepare(self, *, read_only: bool) -> None:
        path = self.file()
        if path.is_dir():
            raise CatalogError(f"the catalog {path} is a directory", hint="uri names the catalog's file")
        if path.is_file() and path.stat().st_size:
            self._check_header(path)
        elif read_only:
            raise CatalogError(f"the catalog {path} does not exist, and a read-only store does not make it")
        else:
            make_folder(path.parent)

    def _check_header(self, path: Path) -> None:
        with path.open("rb") as file:
            head = file.read(32)
        found = next((kind for kind, (at, magic) in _HEADERS.items() if head[at:].startswith(magic)), None)
        if found == self.kind:
            return
        what = f"a {found} database" if found else "no database that lakeconf knows"
        hint = f'set type = "{found.lower()}" or name another file' if found else "name the file of the lake's catalog"
        raise CatalogError(f"the catalog {path} is {what}, not one of {self.kind}", hint=hint)


def make_folder(path: Path) -> None:
    """Makes a folder and its parents.

    Raises:
        StorageError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder {path} cannot be made: {error.strerror}") from error
