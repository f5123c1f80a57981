"""An Iceberg table at its current snapshot as a source: `pyiceberg` reads its metadata and rows, without credentials.

The metadata is hostile input: it names files by absolute paths, and its properties can name a server, and a class that
reads the files. So all files are read through `Folder`, and no property is used.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeconf.errors import FileMissingError, SchemaError, UnsupportedError, required
from lakeconf.lake.adoption.adopted_source import Source, named_errors
from lakeconf.lake.adoption.arrow_rows import arrow_tally, duckdb_types
from lakeconf.lake.adoption.folder import Folder, spelled
from lakeconf.lake.adoption.footers import Field, check_schemas, schemas_of
from lakeconf.lake.adoption.other_tables import ENDING, METADATA
from lakeconf.lake.adoption.tally import Tally
from lakeconf.sql import folded

if TYPE_CHECKING:
    from lakeconf.connection.connection import Connection

_HINT_FILE = "version-hint.text"
_LATEST_FORMAT = 2
_LOAD = "compact the table with its own tool; or load its rows: lake.table(…).append(table.scan().to_arrow())"


def iceberg_table(folder: Folder, metadata_file: str | None) -> Source:
    """The files of the current snapshot, according to a metadata file or the one that the table's hint names."""
    with required("pyiceberg", extra="iceberg", needed_for="an Iceberg table"):
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import StaticTable
    location = folder.admit(f"{folder.root}{METADATA}/{metadata_file or _current(folder)}")
    with named_errors("the Iceberg table"):
        files = folder_io(folder)
        metadata = FromInputFile.table_metadata(files.new_input(location))
        if metadata.format_version > _LATEST_FORMAT:
            raise UnsupportedError(f"{folder.root} has the Iceberg format {metadata.format_version}", hint=_LOAD)
        table = StaticTable(("adopted",), metadata, location, files, NoopCatalog("adopted"))
        _check_files(table, files, folder)
        tasks = {_below(folder, task.file.file_path): task for task in table.scan().plan_files()}
        schema = table.schema()
        types = duckdb_types(folder.connection, schema_to_pyarrow(schema, include_field_ids=False))
    schemas = schemas_of(folder.connection, list(tasks)) if tasks else {}
    if tasks:
        check_schemas(schemas)
        for path, columns in schemas.items():
            _check_ids(path, columns, schema.as_struct().fields, "")
    reader = _IcebergReader(folder.connection, table, tasks)
    snapshot = table.current_snapshot()
    version = 0 if snapshot is None else snapshot.snapshot_id
    return Source("Iceberg table", folder, types, tuple(sorted(tasks)), reader, schemas, version)


class _IcebergReader:
    """Reads the rows of files with pyiceberg."""

    def __init__(self, connection: Connection, table: Any, tasks: Mapping[str, Any]) -> None:
        self._connection, self._table, self._tasks = connection, table, tasks

    def tally(self, paths: Sequence[str], types: Mapping[str, str], *, full: bool) -> Tally:
        """The tally of the rows of some files."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        with named_errors("the Iceberg table"):
            scan = ArrowScan(self._table.metadata, self._table.io, self._table.schema(), AlwaysTrue())
            batches = scan.to_record_batches([self._tasks[path] for path in paths])
            return arrow_tally(self._connection, batches, types, full=full)


def _current(folder: Folder) -> str:
    """The name of the metadata file that the hint of the table names; only a catalog knows that of other tables."""
    names = [path.rpartition("/")[2] for path in Folder(folder.connection, f"{folder.root}{METADATA}/").direct_paths()]
    if _HINT_FILE in names:
        hint = folder.content(f"{folder.root}{METADATA}/{_HINT_FILE}").decode("utf-8", "replace").strip()
        wanted = hint if hint.endswith(ENDING) else f"v{hint}{ENDING}" if hint.isdecimal() else f"{hint}{ENDING}"
        if wanted in names:
            return wanted
        raise FileMissingError(
            f"{_HINT_FILE} names {wanted!r}, which does not exist", hint="check the table with its own tools"
        )
    newest = max((name for name in names if name.endswith(ENDING)), default=None)
    if newest is None:
        raise FileMissingError(f"{folder.root}{METADATA}/ has no file *{ENDING}", hint="check the path")
    raise UnsupportedError(
        f"only its catalog knows the current version of the Iceberg table {folder.root}",
        hint=f"adopt the metadata file that the catalog names, such as {folder.root}{METADATA}/{newest}",
    )


def _check_files(table: Any, files: Any, folder: Folder) -> None:
    """Rejects deletes, and files that are encrypted or no Parquet files."""
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(files) if snapshot is not None else ():
        for entry in manifest.fetch_manifest_entry(files):
            file = entry.data_file
            content = getattr(file.content, "name", str(file.content))
            if content != "DATA":
                kind = content.lower().replace("_", " ")
                raise UnsupportedError(f"{folder.root} has {kind}, which DuckLake does not read", hint=_LOAD)
            if file.file_format != "PARQUET" or file.key_metadata:
                kind = "encrypted" if file.key_metadata else f"a file of the format {file.file_format}"
                raise UnsupportedError(f"{file.file_path} is {kind}, and not a plain Parquet file", hint=_LOAD)


def _check_ids(path: str, columns: Sequence[Field], fields: Sequence[Any], parent: str) -> None:
    """Rejects files in which columns have other names than in the table: DuckLake finds them by their names only."""
    by_name = {folded(column.name): column for column in columns}
    for field in fields:
        shown = f"{parent}{field.name}"
        column = by_name.get(folded(field.name))
        if column is None or column.field_id != field.field_id:
            raise SchemaError(
                f"the column {shown!r} of the table has another name in {path}, is missing there, or has no id",
                hint=_LOAD,
            )
        kind = field.field_type
        if kind.is_struct:
            _check_ids(path, column.fields, kind.fields, f"{shown}.")
        elif hasattr(kind, "fields") and column.fields:
            # The element of a list, or the key and the value of a map, whatever the file calls them.
            for inner, part in zip(column.fields[0].fields, kind.fields, strict=True):
                if inner.field_id != part.field_id:
                    raise SchemaError(f"{shown!r} in {path} has another id than in the table", hint=_LOAD)
                if part.field_type.is_struct:
                    _check_ids(path, inner.fields, part.field_type.fields, f"{shown}.")


def _below(folder: Folder, location: str) -> str:
    """The path of a file that the metadata names, which must be below the folder."""
    path = location.removeprefix("file://") if location.startswith("file:///") else location
    return folder.admit(spelled(path, folder.root))


def folder_io(folder: Folder) -> Any:
    """A FileIO of pyiceberg that reads the files of a folder only, and cannot write."""
    from pyiceberg.io import FileIO, InputFile

    lock = threading.Lock()

    class FolderFile(InputFile):
        """A file of the folder."""

        def __len__(self) -> int:
            return len(self._content())

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> Any:  # noqa: ARG002, FBT001, FBT002 - the signature of pyiceberg
            return io.BytesIO(self._content())

        def _content(self) -> bytes:
            with lock:
                return folder.content(_below(folder, self.location))

    class FolderIO(FileIO):
        """The files of the folder."""

        def new_input(self, location: str) -> InputFile:
            return FolderFile(location)

        def new_output(self, location: str) -> Any:
            raise PermissionError(f"lakeconf only reads the files of a source, and does not write {location}")

        def delete(self, location: Any) -> None:
            raise PermissionError(f"lakeconf only reads the files of a source, and does not remove {location}")

    return FolderIO()
