"""A Delta table at its latest version as a source: `deltalake` reads the log and the rows, without any credential.

The log is hostile input. It is copied to a temporary folder, and its files are read through `Folder`, so that no path
in it leads elsewhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakeconf.errors import QueryError, SchemaError, UnsupportedError, required
from lakeconf.lake.adoption.adopted_source import Source, named_errors
from lakeconf.lake.adoption.arrow_rows import ArrowReader, duckdb_types, folder_files
from lakeconf.lake.adoption.folder import Folder, path_values
from lakeconf.lake.adoption.footers import check_schemas, schemas_of
from lakeconf.lake.adoption.other_tables import LOG
from lakeconf.sql import folded

# The features that change nothing about the rows of the files that the log lists.
_FEATURES = {"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint", "appendOnly"}
_LOAD = "write the table again without it; or load its rows: lake.table(…).append(DeltaTable(…).to_pyarrow_table())"


def delta_table(folder: Folder) -> Source:
    """The files of the latest version of a Delta table."""
    with required("deltalake", extra="delta", needed_for="a Delta table"):
        import deltalake
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as copy, named_errors("the log of the Delta table"):
        _copy_log(folder, Path(copy))
        table = deltalake.DeltaTable(copy)
        _check_features(table, folder)
        entries = _live_files(table)
        partitions = tuple(table.metadata().partition_columns)
        version = int(table.version())
        files = {folder.admit(folder.root + _relative(path)): values for path, values in entries.items()}
        values = _values(folder, files, partitions)
        dataset = table.to_pyarrow_dataset(filesystem=folder_files(folder))
        types = duckdb_types(folder.connection, dataset.schema)
    schemas = schemas_of(folder.connection, list(files)) if files else {}
    if files:
        check_schemas(schemas)
        own = {folded(field.name) for field in next(iter(schemas.values()))}
        missing = [name for name in types if folded(name) not in own and name not in partitions]
        if missing:
            raise SchemaError(
                f"the files of {folder.root} lack the column {missing[0]!r}, which the table has", hint=_LOAD
            )
    by_path = {folder.root + fragment.path: fragment for fragment in dataset.get_fragments()}
    if by_path.keys() != files.keys():
        raise UnsupportedError(f"deltalake reads other files of {folder.root} than its log lists", hint=_LOAD)
    reader = ArrowReader(folder.connection, by_path, dataset.schema)
    return Source("Delta table", folder, types, tuple(sorted(files)), reader, schemas, version, partitions, values)


def _copy_log(folder: Folder, copy: Path) -> None:
    """Copies the log, which is small, and nothing else."""
    log = Folder(folder.connection, f"{folder.root}{LOG}/")
    for path in log.direct_paths():
        target = copy / LOG / path.removeprefix(log.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(log.content(path))


def _check_features(table: Any, folder: Folder) -> None:
    protocol, configuration = table.protocol(), table.metadata().configuration
    features = {*(protocol.reader_features or ())}
    mapped = configuration.get("delta.columnMapping.mode", "none")
    if mapped != "none" or "columnMapping" in features:
        raise UnsupportedError(
            f"{folder.root} has column mapping: its files have other names of columns than the table", hint=_LOAD
        )
    if "deletionVectors" in features:
        raise UnsupportedError(
            f"{folder.root} may have deletion vectors, which DuckLake does not read",
            hint=_LOAD,
        )
    other = sorted(features - _FEATURES)
    if other or protocol.min_reader_version > 3:
        raise UnsupportedError(f"{folder.root} needs the feature {', '.join(other) or 'of a later reader'}", hint=_LOAD)


def _live_files(table: Any) -> dict[str, Mapping[str, str | None]]:
    """The path of each file as the log has it, and the values of partitions as text."""
    import pyarrow as pa

    rows = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    partitions: dict[str, Mapping[str, str | None]] = {}
    for row in rows:
        if row["path"] in partitions:
            raise QueryError(f"the log lists the file {row['path']!r} twice", hint="check the table with its own tools")
        partitions[row["path"]] = row.get("partition") or {}
    return partitions


def _relative(path: str) -> str:
    if "://" in path or path.startswith("/") or ".." in path.split("/"):
        raise UnsupportedError(
            f"the log names the file {path!r} outside the folder of the table",
            hint="adopt the table that has the file: nothing outside the folder is read",
        )
    return unquote(path)


def _values(
    folder: Folder, files: Mapping[str, Mapping[str, Any]], partitions: Sequence[str]
) -> dict[str, Mapping[str, str | None]]:
    """The values of partitions in the paths, which must be those in the log: DuckLake reads the paths."""
    in_paths: dict[str, Mapping[str, str | None]] = {}
    for path, recorded in files.items() if partitions else ():
        values = path_values(folder.root, path)
        for name in partitions:
            if name not in values or (values[name] is None) != (recorded[name] is None):
                raise SchemaError(
                    f"the path {path} does not have the value of the column {name!r}, which the log has", hint=_LOAD
                )
        in_paths[path] = {name: values[name] for name in partitions}
    return in_paths
