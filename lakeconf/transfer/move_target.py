"""The store that a lake moves to: it must be empty, apart from what an earlier run of the same move left there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeconf.backends.metadata.file_catalogs import DATABASE_SUFFIXES
from lakeconf.backends.metadata.migration import attach_metadata
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection, connect, remove_files
from lakeconf.ducklake import MARKER, MOVING
from lakeconf.errors import (
    CatalogError,
    CatalogMissingError,
    LakeconfError,
    UnsupportedError,
    storage_errors,
)
from lakeconf.guard.guard import future_place, marker_of, reader_of
from lakeconf.guard.locks import FileLocks
from lakeconf.guard.marker import create_file, hashes, text_in_bucket
from lakeconf.sql import Attach, Use, literal
from lakeconf.store import Store, for_reading, open_connection
from lakeconf.transfer.file_copies import files_below, remove_parts
from lakeconf.transfer.staged_catalog import columns_by_table, replace, write

_CATALOG = "lakeconf_catalog"
_PURPOSE = "marks the folder that a lake is moved to; `lakeconf move SOURCE TARGET` removes this file at the end"
_LARGEST_BYTES = 10_000
# What a killed process leaves of a marker: it is complete under its name, or not there.
_UNFINISHED = re.compile(rf"({re.escape(MOVING)}|{re.escape(MARKER)})\.[0-9a-f]{{32}}")
_NEW = "name a store with a new catalog and an empty folder or prefix"


@dataclass
class MoveTarget:
    """The target of a move, with a connection that has its secrets only."""

    store: Store
    connection: Connection = field(repr=False)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, store: Store) -> Iterator[MoveTarget]:
        """Opens the target; its lake is not attached, and nothing is created."""
        backend = store.metadata_backend
        if store.storage_backend is None or (backend.file() is None and backend.server() is None):
            raise UnsupportedError(
                f"the store {store.name!r} cannot be the target of a move: {backend.type} keeps its own catalog",
                hint="use a catalog in SQLite, DuckDB or PostgreSQL",
            )
        if store.read_only:
            raise LakeconfError(
                f"the store {store.name!r} is read-only", hint="remove read_only from attach_options of the target"
            )
        with connect(store.secrets) as connection:
            for statement in store.own_statements:
                if not isinstance(statement, Attach | Use):
                    connection.run(statement)
            with contextlib.suppress(CatalogMissingError):
                backend.prepare(read_only=True)
            backend.admit(connection)
            store.storage_backend.prepare(read_only=True)
            yield cls(store, connection)

    @property
    def root(self) -> str:
        """The data path, ending in `/`."""
        storage = self.store.storage_backend
        return "" if storage is None else storage.location.rstrip("/") + "/"

    @property
    def schema(self) -> str:
        """The schema of the catalog's tables in its database."""
        return self.store.metadata_backend.catalog_schema(self.store.names) or "main"

    def is_moved(self, lake_id: str) -> bool:
        """True if the catalog of this lake was written, and the move only has to be completed.

        Raises:
            CatalogError: The target is not empty, or has a part of another move.
        """
        marker = self._moving()
        if marker is not None:
            self._check_own(marker, lake_id)
        if self.has_catalog():
            if marker is None or self._lake_id() != lake_id:
                raise self._not_empty(f"the catalog {self.store.metadata_backend.description()} exists")
            return True
        if marker is None:
            self._check_no_files()
        return False

    def check_encryption(self, *, encrypted: bool) -> None:
        """Rejects an option of the target that differs from the lake: its files stay as they are."""
        wanted = self.store.attach_options.get("encrypted")
        if wanted is not None and bool(wanted) != encrypted:
            raise UnsupportedError(
                f"the lake is {'' if encrypted else 'not '}encrypted, and stays so: nothing was copied",
                hint=f"remove encrypted from attach_options of the store {self.store.name!r}; `lakeconf copy` copies "
                "tables to a new lake with another encryption",
            )

    def begin(self, lake_id: str) -> None:
        """Marks the data path, so that nobody takes it for an empty one or for that of a lost catalog."""
        if self._moving() is not None:
            return
        if self.store.storage_backend is not None:
            self.store.storage_backend.prepare(read_only=False)
        self._check_no_files()
        self._remove_unfinished()
        self._write_marker(json.dumps({"lakeconf": _PURPOSE, "lake": lake_id, "catalog": self._place()}))
        self._check_own(self._moving() or {}, lake_id)

    def write_catalog(self, staged: Path, *, private: bool) -> None:
        """Creates the catalog from a staged one: complete, or not at all."""
        file = self.store.metadata_backend.file()
        if file is None:
            with self._attached():
                write(self.connection, _CATALOG, self.schema, staged)
            return
        hint = "check the permissions of the folder of the catalog"
        with storage_errors(f"the catalog {file} cannot be created", hint=hint):
            file.parent.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
            # The holder of the lock is the only one that uses the folder, and removes what a killed process left.
            with FileLocks(file).exclusive():
                self._write_file(file, _working_folder(file), staged, private=private)

    def _write_file(self, file: Path, folder: Path, staged: Path, *, private: bool) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            new = folder / "catalog"
            with self._attached(new):
                write(self.connection, _CATALOG, self.schema, staged)
            if private:
                new.chmod(0o600)
            self._publish(new, file)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def replace_catalog(self, staged: Path, newest: int) -> None:
        """Replaces the existing catalog by a staged one, in one transaction; `newest` is its newest snapshot.

        The caller keeps the writers of the lake out.
        """
        server = self.store.metadata_backend.server()
        with self._attached():
            waiting = None if server is None else server.await_commits(_CATALOG, self.schema)
            replace(self.connection, _CATALOG, self.schema, staged, newest, waiting)
        file = self.store.metadata_backend.file()
        if file is not None:
            shutil.rmtree(_working_folder(file), ignore_errors=True)  # of a killed restore of a lost catalog

    def check_not_moving(self) -> None:
        """Rejects the data path of a lake that is being moved there."""
        if self._moving() is not None:
            raise CatalogError(
                f"a lake is being moved to {self.root}, according to {self.root}{MOVING}: nothing was changed",
                hint="run the same `lakeconf move` again first",
            )

    def _publish(self, new: Path, file: Path) -> None:
        with new.open("rb") as written:
            os.fsync(written.fileno())
        try:
            os.link(new, file)  # fails if it exists
        except FileExistsError:
            raise self._not_empty(f"the catalog {file} was created meanwhile") from None

    def complete(self, lake_id: str) -> int:
        """Marks the lake as that of its new catalog, and returns its newest snapshot."""
        store = for_reading(self.store, read_only=False)
        with open_connection(store) as connection:
            reader = reader_of(store.metadata_backend, store.names, connection)
            if reader.lake_id != lake_id or reader.data_path != self.root:
                raise CatalogError(
                    f"the catalog {store.metadata_backend.description()} is not that of the moved lake", hint=_NEW
                )
            marker_of(reader, store.metadata_backend).repair()
            with reader.transaction() as transaction:
                newest = transaction.newest()
        remove_parts(self.root)
        self._remove_unfinished()
        remove_files(self.connection, [self.root + MOVING])
        return newest

    def has_catalog(self) -> bool:
        """True if there is a catalog, or anything in its place.

        Raises:
            CatalogError: A lost catalog has left something behind.
        """
        file = self.store.metadata_backend.file()
        if file is not None:
            beside = (Path(f"{file}{suffix}") for suffix in DATABASE_SUFFIXES)
            for path in filter(os.path.lexists, beside if not os.path.lexists(file) else ()):
                # The database would apply it to the new catalog.
                raise self._not_empty(f"{path} is there, which a lost catalog has left behind")
            return os.path.lexists(file)
        with self._attached():
            return bool(columns_by_table(self.connection, _CATALOG, self.schema))

    def _lake_id(self) -> str | None:
        store = for_reading(self.store)
        with contextlib.suppress(CatalogError), open_connection(store) as connection:
            reader: CatalogReader = reader_of(store.metadata_backend, store.names, connection)
            return reader.lake_id
        return None

    @contextlib.contextmanager
    def _attached(self, instead: Path | None = None) -> Iterator[None]:
        """Attaches the database of the catalog, or a new file instead of it."""
        options = dict(self.store.metadata_backend.ducklake_options(self.store.names))
        if instead is not None:
            path = str(options["metadata_path"]).removesuffix(str(self.store.metadata_backend.file()))
            options["metadata_path"] = f"{path}{instead}"
        attach_metadata(self.connection, options, _CATALOG, {})
        try:
            yield
        finally:
            self.connection.execute(f"DETACH {_CATALOG}")

    def _place(self) -> list[str]:
        backend = self.store.metadata_backend
        with contextlib.nullcontext() if backend.file() is not None else self._attached():
            return hashes([future_place(backend, self.connection, _CATALOG, self.schema)])

    def _check_own(self, marker: Mapping[str, Any], lake_id: str) -> None:
        """Rejects the marker of another move."""
        where = f"{self.root}, according to {self.root}{MOVING}"
        if marker.get("lake") != lake_id:
            raise CatalogError(f"another lake is being moved to {where}: nothing was changed", hint=_NEW)
        if marker.get("catalog") != self._place():
            # Two catalogs with one data path would remove the files of each other.
            raise CatalogError(
                f"the lake is being moved with another catalog to {where}: nothing was changed",
                hint="name the store with that catalog; or remove all files of that move, and run the command again",
            )

    def _unfinished(self) -> list[str]:
        """What killed moves have left of markers in a folder."""
        if "://" in self.root or not os.path.isdir(self.root):
            return []
        with os.scandir(self.root) as entries:
            return [
                self.root + entry.name
                for entry in entries
                if _UNFINISHED.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            ]

    def _remove_unfinished(self) -> None:
        for path in self._unfinished():
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _check_no_files(self) -> None:
        there = files_below(self.connection, self.root).difference(self._unfinished())
        if there:
            raise self._not_empty(f"{self.root} has files, such as {min(there)}")

    def _not_empty(self, what: str) -> CatalogError:
        return CatalogError(
            f"the store {self.store.name!r} is not empty: {what}. Nothing was changed",
            hint=f"{_NEW}; to copy tables into a lake, use `lakeconf copy`",
        )

    def _moving(self) -> Mapping[str, Any] | None:
        """The content of the marker of a move; None without one."""
        path = self.root + MOVING
        if "://" in path:
            text = text_in_bucket(self.connection, path)
            if text is None:
                return None
        else:
            if os.path.islink(path):
                return {}  # it is no marker of lakeconf
            if not os.path.isfile(path):
                return None
            with open(path, "rb") as file:
                text = file.read(_LARGEST_BYTES).decode(errors="replace")
        with contextlib.suppress(ValueError, RecursionError):
            content = json.loads(text)
            if isinstance(content, dict):
                return content
        return {}

    def _write_marker(self, content: str) -> None:
        path = self.root + MOVING
        if "://" in path:
            value = f"SELECT encode({literal(content)}) AS content"
            self.connection.execute(f"COPY ({value}) TO {literal(path)} (FORMAT BLOB)")
            return
        create_file(Path(path), content)


def _working_folder(file: Path) -> Path:
    return file.parent / f".{file.name}.lakeconf-move"
