"""The files of appends that a backup does not know: which of them come back with it, and how.

The file of an append has the columns of its table. Those of updates, deletes and compactions have row ids, ids of
snapshots or positions, too. A catalog that is replaced tells what became of the rows of an append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import Column, TableInfo, key_text, tables
from lakeconf.commit.scope import Scope
from lakeconf.ducklake import INTERNAL_SCHEMA
from lakeconf.engines.file_names import (
    is_announced,
    is_written_name,
    manifests_among,
    written_by_ducklake,
)
from lakeconf.engines.schema_check import check_fit
from lakeconf.errors import CommitError, SchemaError, StorageError, UnsupportedError
from lakeconf.inspection.catalog_files import data_path_files
from lakeconf.lake.adoption.adopted_source import Source
from lakeconf.lake.adoption.folder import Folder
from lakeconf.lake.adoption.footers import Field, check_schemas, rows_in, schemas_of
from lakeconf.lake.adoption.parquet_folder import ParquetReader
from lakeconf.lake.adoption.trial import check_rows
from lakeconf.lake.branches.first_write import write
from lakeconf.lake.opening import open_session
from lakeconf.lake.run_journal import FileState
from lakeconf.sql import files_sql, folded, identifier, qualified
from lakeconf.store import Store
from lakeconf.transfer.opened import store_of_copy
from lakeconf.wording import counted
from lakeconf.write.operations.adopt import AdoptFiles

_MESSAGE = "lakeconf restore-lake --adopt-later"
_DELETES = ("-delete.parquet", ".puffin")
_CHANGED = "later commits did more than append to files, or the catalog has rows: no row comes back"
_NO_DELETES = (None, ())


@dataclass(frozen=True)
class LaterFiles:
    """The files of appends to a table that a backup does not know.

    Attributes:
        table: The table.
        files: Their paths, sorted.
        rows: The number of their rows.
        problem: Why the rows do not come back; None if they do.
    """

    table: str
    files: tuple[str, ...]
    rows: int
    problem: str | None = None
    has_keys: bool = field(default=False, repr=False)  # True if they are in partition folders

    def __str__(self) -> str:
        rows = f"{counted(self.rows, 'row')} in {counted(len(self.files), 'file')}"
        return f"{self.table}: {rows if self.problem is None else self.problem}"

    def data(self) -> dict[str, Any]:
        """Its attributes as values of JSON."""
        return {"table": self.table, "files": list(self.files), "rows": self.rows, "problem": self.problem}


class LaterTable(NamedTuple):
    """What a catalog knows of the rows of a table."""

    files: Mapping[str, object]  # the deletes of each file, by path
    rows: int
    inlined: int  # the number of rows that are in the catalog


def later_tables(reader: CatalogReader) -> dict[int, LaterTable]:
    """The tables of the catalog that is replaced, by their ids."""
    version = latest(reader).snapshot_id
    return {table.table_id: _state(reader, table, version) for table in tables(reader, version)}


def _state(reader: CatalogReader, table: TableInfo, version: int) -> LaterTable:
    plan = plan_scan(reader, table.full_name, version)
    ((rows,),) = reader.connection.rows(f"SELECT count(*) FROM {_name(reader, table)}")  # noqa: S608
    deletes = {file.path: (file.delete_file, file.inlined_deletes) for file in plan.files}
    return LaterTable(deletes, rows, plan.inlined_row_count)


def _name(reader: CatalogReader, table: TableInfo) -> str:
    return qualified(reader.alias, table.schema_name, table.name)


def later_files(
    copy: CatalogReader, moment: datetime, known: Mapping[int, LaterTable] | None
) -> tuple[LaterFiles, ...]:
    """The files of appends after a backup, by the table that has them, sorted; nothing is changed.

    Args:
        copy: The lake with the catalog of the backup.
        moment: The time of the backup's newest snapshot.
        known: The tables of the catalog that is replaced; None if it is lost.

    Raises:
        UnsupportedError: The lake is encrypted.
    """
    if copy.encrypted:
        raise UnsupportedError(
            f"the lake {copy.alias!r} is encrypted, and only the lost commits have the keys of later files",
            hint="omit --adopt-later",
        )
    unknown, version = data_path_files(copy).unknown, latest(copy).snapshot_id
    manifests = manifests_among(copy.connection, unknown, copy.lake_id)
    written = [path for path in unknown if path not in manifests and not is_announced(path, manifests)]
    later = []
    for table in tables(copy, version):
        if folded(table.schema_name) == INTERNAL_SCHEMA:
            continue
        paths = [path for path in written if path.startswith(table.path) and is_written_name(path[len(table.path) :])]
        files = _of_table(copy, table, paths, moment, version, known)
        if files is not None:
            later.append(files)
    return tuple(sorted(later, key=lambda files: files.table))


def _of_table(
    copy: CatalogReader,
    table: TableInfo,
    paths: Sequence[str],
    moment: datetime,
    version: int,
    known: Mapping[int, LaterTable] | None,
) -> LaterFiles | None:
    """The later files of one table; None if it has none."""
    data = [path for path in paths if not path.endswith(_DELETES)]
    schemas = schemas_of(copy.connection, data) if data else {}
    plain = [path for path in data if not any(field.is_internal for field in schemas[path])]
    if known is None:
        is_later = _later(copy, paths, moment)
        plain, others = [path for path in plain if path in is_later], is_later - {*plain}
        problem = _CHANGED if others or (plain and _state(copy, table, version).inlined) else None
    else:
        plain, problem = _in_catalog(copy, table, plain, version, known.get(table.table_id))
    if not plain and problem is None:
        return None
    rows = rows_in(copy.connection, plain)
    try:
        if problem is None:
            _checked_rows(copy, table, {path: schemas[path] for path in plain})
    except (SchemaError, CommitError, UnsupportedError) as error:
        problem = error.message
    return LaterFiles(table.full_name, tuple(plain), rows, problem, bool(table.partition_fields))


def _later(copy: CatalogReader, paths: Sequence[str], moment: datetime) -> set[str]:
    """The files that were named, or else last changed, after a moment."""
    states = Folder(copy.connection, copy.data_path).states(paths)
    times = {path: written_by_ducklake(path.rpartition("/")[2]) for path in paths}
    return {
        path
        for path, time in times.items()
        if (states[path].modified / 1e6 if time is None else time) > moment.timestamp()
    }


def _in_catalog(
    copy: CatalogReader, table: TableInfo, plain: Sequence[str], version: int, later: LaterTable | None
) -> tuple[list[str], str | None]:
    """The files that the catalog that is replaced has for a table, and why their rows are not only those of appends."""
    if later is None:
        return [], "a later commit dropped the table" if plain else None
    before = _state(copy, table, version)
    appended = [path for path in plain if path in later.files]
    if before == later:
        return [], None
    only_appended = LaterTable(
        {**before.files, **dict.fromkeys(appended, _NO_DELETES)}, before.rows + rows_in(copy.connection, appended), 0
    )
    return appended, None if only_appended == later and not before.inlined else _CHANGED


def _checked_rows(copy: CatalogReader, table: TableInfo, schemas: Mapping[str, tuple[Field, ...]]) -> int:
    """The number of rows in files, of which DuckLake reads each as it is, if it registers them for the table."""
    paths = tuple(schemas)
    check_schemas(schemas)
    for fields in schemas.values():
        _check_ids(table, table.columns, fields)
    described = (
        copy.connection.rows(f"DESCRIBE FROM {rows}") for rows in (_name(copy, table), files_sql("read_parquet", paths))
    )
    types, own = ({name: kind for name, kind, *_ in rows} for rows in described)
    check_fit(table.full_name, own, types)
    folder, reader = Folder(copy.connection, copy.data_path), ParquetReader(copy.connection, {})
    source, keys = Source("Parquet file", folder, own, paths, reader, schemas), _keys(table)
    # DuckLake reads the values of partition keys from the paths.
    return check_rows(source, paths, types, full=bool(keys), keys=keys)


def _keys(table: TableInfo) -> list[str]:
    names = {column.field_id: identifier(column.name) for column in table.columns}
    return [key_text(key.transform, names[key.field_id]) for key in table.partition_fields]


def _check_ids(table: TableInfo, columns: Sequence[Column], fields: Sequence[Field]) -> None:
    """Rejects a file of which a column has the name of another one: a later commit has renamed or replaced it."""
    ids = {column.name: column for column in columns}
    for leaf in fields:
        column = ids.get(leaf.name)
        if column is None or leaf.field_id is None:
            continue
        if column.field_id != leaf.field_id:
            raise SchemaError(f"a later commit replaced the column {leaf.name!r} of {table.full_name}")
        if column.type == "struct":
            _check_ids(table, column.children, leaf.fields)


def register_later(store: Store, catalog: Path, later: Sequence[LaterFiles]) -> None:
    """Registers the files that come back, in one snapshot of a private copy of the backup's catalog."""
    with closing(open_session(store_of_copy(store, catalog))) as session:
        folder = Folder(session.reader.connection, session.reader.data_path)
        with Scope(session).transacting(_MESSAGE, None, None) as scope:
            for files in later:
                check = partial(_check_states, folder, files.files, folder.states(files.files))
                write(scope, files.table, AdoptFiles(files.files, files.rows, in_path=files.has_keys, check=check))


def _check_states(folder: Folder, paths: Sequence[str], states: Mapping[str, FileState]) -> None:
    if folder.states(paths) != states:
        raise StorageError("a later file has changed while it was registered: nothing was changed", hint="try again")
