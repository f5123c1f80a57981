"""Plans an adoption, compares the rows, and registers the files in one snapshot."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lakeconf.backends.secrecy import check_place
from lakeconf.catalog.tables import TableInfo, full_name, refuse_internal
from lakeconf.commit.scope import Scope
from lakeconf.engines.schema_check import check_fit
from lakeconf.errors import (
    CommitConflictError,
    LakeconfError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    listed,
)
from lakeconf.lake.adoption.adopted_source import Source
from lakeconf.lake.adoption.delta_table import delta_table
from lakeconf.lake.adoption.folder import Folder
from lakeconf.lake.adoption.footers import rows_in
from lakeconf.lake.adoption.iceberg_table import iceberg_table
from lakeconf.lake.adoption.known_files import KnownFiles, known_files
from lakeconf.lake.adoption.other_tables import ENDING, LOG, METADATA, check_plain
from lakeconf.lake.adoption.parquet_folder import parquet_folder
from lakeconf.lake.adoption.trial import check_rows
from lakeconf.lake.branches.first_write import write
from lakeconf.lake.run_journal import FileState, ModelRun, RunJournal
from lakeconf.wording import byte_size, counted
from lakeconf.write.context import current_table
from lakeconf.write.ddl import Definition
from lakeconf.write.operations.adopt import AdoptFiles
from lakeconf.write.operations.define import CreateTable

Verify: TypeAlias = Literal["bounds", "full"]
# In place of the hash of a model: the files were adopted.
ADOPTED = "adopted"
_SHOWN = 3


@dataclass(frozen=True)
class AdoptPlan:
    """What `Lake.adopt` would do.

    Attributes:
        kind: What the source is, such as `Delta table`.
        path: Its folder.
        version: The version of a Delta or Iceberg table; None for a folder.
        table: The table that gets the rows.
        creates: True if the table is created.
        files: The files that are registered; those that were adopted before are left out.
        known: The number of files that were adopted before.
        rows: The rows in the files.
        size: The size of the files in bytes.
        columns: The types of the table's columns.
        partitions: The columns whose values are in the paths of the files.
    """

    kind: str
    path: str
    version: int | None
    table: str
    creates: bool
    files: tuple[str, ...]
    known: int
    rows: int
    size: int
    columns: Mapping[str, str]
    partitions: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        """False if there are no new files."""
        return bool(self.files)

    def __str__(self) -> str:
        version = "" if self.version is None else f" at version {self.version}"
        kind = counted(len(self.files), "Parquet file") if self.version is None else f"{self.kind}{version}"
        lines = [
            f"source      {self.path}: {kind}",
            f"table       {self.table}, which {'is created' if self.creates else 'exists'}",
            f"files       {counted(len(self.files), 'new file')}, {byte_size(self.size)}"
            + (f"; {counted(self.known, 'file')} adopted before" if self.known else ""),
            f"rows        {self.rows:,}",
            f"columns     {', '.join(f'{name} {kind}' for name, kind in self.columns.items())}",
        ]
        if self.partitions:
            lines.append(f"partitions  {', '.join(self.partitions)}, from the names of the folders")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Prepared:
    plan: AdoptPlan
    source: Source
    states: Mapping[str, FileState]  # those of the new files
    known: KnownFiles


def open_source(folder: Folder, types: Mapping[str, str], metadata_file: str | None) -> Source:
    """The table or the files in a folder; `metadata_file` is that of an Iceberg table."""
    is_delta, is_iceberg = folder.has(LOG), metadata_file is not None or folder.has(METADATA)
    if not (is_delta or is_iceberg):
        check_plain(folder)
        return parquet_folder(folder, types)
    if is_delta and is_iceberg:
        raise UnsupportedError(
            f"{folder.root} is both a Delta and an Iceberg table", hint="move the metadata of one of them elsewhere"
        )
    if types:
        raise SchemaError(f"the columns of {folder.root} keep their types", hint="omit the types")
    return delta_table(folder) if is_delta else iceberg_table(folder, metadata_file)


def _located(path: str) -> tuple[str, str | None]:
    """The folder of a source, and the name of the metadata file if the path is that of one."""
    if not path.endswith(ENDING):
        return path, None
    folder, _, name = path.rpartition("/")
    table, _, last = folder.rpartition("/")
    if last != METADATA:
        raise StorageError(f"{path} is not in a folder {METADATA}", hint="name the folder of the table")
    return table or ".", name


class Adoptions:
    """Adopts files; see `Lake.adopt`."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    def plan(self, path: str, name: str, types: Mapping[str, str]) -> AdoptPlan:
        """What an adoption would do; see `Lake.plan_adopt`."""
        return self._prepared(path, name, types).plan

    def adopt(self, path: str, name: str, types: Mapping[str, str], verify: Verify) -> int:
        """Carries out an adoption; see `Lake.adopt`."""
        if verify not in ("bounds", "full"):
            raise LakeconfError(f"verify is {verify!r}", hint='write verify="full", or omit it')
        self._scope.check_writable()
        if self._scope.transaction is not None:
            raise LakeconfError(
                "a transaction is open, and an adoption cannot be a part of it", hint="call it after the `with` block"
            )
        prepared = self._prepared(path, name, types)
        plan, source = prepared.plan, prepared.source
        if not plan.is_needed:
            return self._scope.snapshot_id
        rows = check_rows(source, plan.files, plan.columns, full=verify == "full")
        extra = {"adopted": {"path": plan.path, "version": plan.version, "files": len(plan.files)}}

        def check() -> None:
            if source.folder.states(plan.files) != prepared.states:
                raise CommitConflictError(
                    f"a file of {plan.path} has changed since its rows were read; nothing was adopted",
                    hint="adopt only files that nobody changes, and try again",
                )

        with self._scope.transacting(f"adopt {plan.path}", None, extra) as scope:
            if plan.creates:
                write(scope, name, CreateTable(Definition(plan.columns)))
            write(scope, name, AdoptFiles(plan.files, rows, bool(source.partitions), check))
            RunJournal(scope).record(self._run(prepared))
        return self._scope.snapshot_id

    def _run(self, prepared: _Prepared) -> ModelRun:
        known, run = prepared.known, uuid.uuid4().hex
        return ModelRun(
            known.model, ADOPTED, run, files=prepared.plan.files, earlier=known.earlier,
            file_states=dict(prepared.states),
        )  # fmt: skip

    def _prepared(self, path: str, name: str, types: Mapping[str, str]) -> _Prepared:
        refuse_internal(name)
        check_place(path)
        reader = self._session.reader
        if reader.encrypted:
            raise UnsupportedError(
                f"the lake {reader.alias!r} encrypts its files: DuckDB would not read a table with others",
                hint="load the rows instead",
            )
        located, metadata_file = _located(path)
        folder = Folder.of(reader.connection, located, reader.data_path)
        source = open_source(folder, types, metadata_file)
        info, columns = self._columns(name, source, types)
        known = known_files(self._session, info, full_name(name), self._scope.snapshot_id)
        states = folder.states(source.paths)
        known.check(folder.root, states, full_name(name))
        new = tuple(file for file in source.paths if file not in known.states)
        changed = [file for file in source.paths if known.states.get(file, states[file]) != states[file]]
        if changed:
            raise StorageError(
                f"{listed(changed, _SHOWN)} changed after {full_name(name)} had adopted it: DuckLake knows the former "
                "content",
                hint="bring back the files as they were; write new rows to new files",
            )
        known.check_moved(folder, {file: states[file] for file in new}, full_name(name))
        rows = rows_in(reader.connection, new)
        plan = AdoptPlan(
            source.kind, folder.root, source.version, full_name(name), info is None, new, len(source.paths) - len(new),
            rows, sum(states[file].size for file in new), columns, source.partitions,
        )  # fmt: skip
        return _Prepared(plan, source, {file: states[file] for file in new}, known)

    def _columns(self, name: str, source: Source, types: Mapping[str, str]) -> tuple[TableInfo | None, dict[str, str]]:
        """The table, if it exists, and the types of its columns, which all files must have."""
        try:
            target = current_table(self._scope, name)
        except TableNotFoundError:
            columns = dict(source.types)
            unknown = types.keys() - columns.keys()
            if unknown:
                raise SchemaError(
                    f"{source.folder.root} has no column {min(unknown)!r}", hint=f"use one of: {', '.join(columns)}"
                ) from None
            columns |= types
            Definition(columns).statements("s", "t")  # checks names and types
            return None, columns
        check_fit(target.info.full_name, source.types, target.types)
        if types:
            raise SchemaError(f"{target.info.full_name} exists: its columns keep their types", hint="omit the types")
        return target.info, dict(target.types)
