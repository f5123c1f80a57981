"""Rows that another library reads with pyarrow, from files that the connection of the lake reads for it."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeconf.connection.connection import Connection
from lakeconf.lake.adoption.folder import Folder
from lakeconf.lake.adoption.tally import Tally, merged_tally

if TYPE_CHECKING:
    import pyarrow

_BATCH_ROWS = 1 << 17


class ArrowReader:
    """Reads fragments of a data set of pyarrow, a batch at a time."""

    def __init__(self, connection: Connection, fragments: Mapping[str, Any], schema: pyarrow.Schema) -> None:
        self._connection, self._fragments, self._schema = connection, fragments, schema

    def tally(self, paths: Sequence[str], types: Mapping[str, str], *, full: bool) -> Tally:
        """The tally of the rows of some files."""
        batches = (
            batch
            for path in paths
            for batch in self._fragments[path].to_batches(schema=self._schema, batch_size=_BATCH_ROWS)
        )
        return arrow_tally(self._connection, batches, types, full=full)


def arrow_tally(
    connection: Connection, batches: Iterator[pyarrow.RecordBatch], types: Mapping[str, str], *, full: bool
) -> Tally:
    """The tally of batches, each of which is in memory before DuckDB reads it."""
    import pyarrow as pa

    tables = (pa.Table.from_batches([batch]) for batch in batches)
    return merged_tally(connection, tables, types, full=full)


def duckdb_types(connection: Connection, schema: pyarrow.Schema) -> dict[str, str]:
    """The columns of a schema and the DuckDB names of their types."""
    relation = connection.from_arrow(schema.empty_table())
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def folder_files(folder: Folder) -> Any:
    """A file system of pyarrow that has the files of a folder, by their paths relative to it, and cannot write."""
    import pyarrow as pa
    from pyarrow.fs import FileInfo, FileSystemHandler, FileType, PyFileSystem

    lock = threading.Lock()

    class Handler(FileSystemHandler):  # type: ignore[misc]
        """Reads whole files."""

        def get_type_name(self) -> str:
            return "lakeconf"

        def normalize_path(self, path: str) -> str:
            return path

        def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
            return [FileInfo(path, FileType.File) for path in paths]

        def open_input_file(self, path: str) -> Any:
            with lock:
                return pa.PythonFile(io.BytesIO(folder.content(folder.root + path)), mode="r")

        def open_input_stream(self, path: str) -> Any:
            return self.open_input_file(path)

        def _refused(self, *_: object, **__: object) -> Any:
            raise PermissionError("lakeconf only reads the files of a source")

        get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refused
        delete_file = move = copy_file = open_output_stream = open_append_stream = _refused

    return PyFileSystem(Handler())
