"""Loads a file into a table without a model, with the checks of models that load files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw

from lakeconf.catalog.column_types import parsed_type
from lakeconf.catalog.tables import full_name
from lakeconf.engines.schema_check import check_names, check_writable
from lakeconf.errors import CommitConflictError, SchemaError, TableNotFoundError, storage_errors
from lakeconf.lake.lake import Lake
from lakeconf.lake.run_journal import FileState
from lakeconf.pipelines.file_rows import ModelFiles, check_files, read_files, sql_rows
from lakeconf.pipelines.intervals import in_utc
from lakeconf.pipelines.models.kinds import Append
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.new_files import local_state
from lakeconf.sql import folded


@dataclass(frozen=True)
class Load:
    """What a load does."""

    columns: Mapping[str, tuple[str, str]]  # the type of each column, and where it comes from: table, option or file
    count: int  # the number of rows
    schema: Mapping[str, str] | None  # the columns of the table; None if the load creates it
    state: FileState | None  # that of the file
    digest: str  # the SHA-256 of its content
    loaded_in: int | None  # the last snapshot that loaded the same content into the table, unless it has expired


def planned_load(lake: Lake, file: Path, table: str, types: Mapping[str, str]) -> Load:
    """Reads a file and finds the types of its columns: those of the table, else the given ones, else inferred ones."""
    state = local_state(file)
    with in_utc(lake):
        inferred = lake.columns_of(read_files(_files(file, table, {}), lake))
        schema = _schema(lake, table)
        sources = {"table": schema or {}, "option": types}
        columns = {name: (kind, "file") for name, kind in inferred.items()}
        for source in ("option", "table"):
            by_name = {folded(name): kind for name, kind in sources[source].items()}
            columns |= {name: (by_name[folded(name)], source) for name in columns if folded(name) in by_name}
        unknown = set(map(folded, types)) - set(map(folded, inferred))
        if unknown:
            raise SchemaError(
                f"{file} has no column {min(unknown)!r}", hint=f"use one of its columns: {', '.join(inferred)}"
            )
        _check_columns(file, table, columns, schema)
        frames = {"lakeconf_rows": _rows(lake, file, table, columns)}
        ((count,),) = sql_rows(lake, "SELECT count(*) FROM lakeconf_rows", **frames)
    with storage_errors(f"the file {file} cannot be read", hint="check its permissions"), file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return Load(columns, count, schema, state, digest, None if schema is None else _loaded_in(lake, table, digest))


def _loaded_in(lake: Lake, table: str, digest: str) -> int | None:
    """The last snapshot that loaded a content into a table, since the table was created."""
    created = lake.runs.created(table)
    for snapshot in reversed(lake.snapshots()):
        if created is None or snapshot.snapshot_id < created:
            return None
        try:
            loaded = json.loads(snapshot.extra_info or "")["extra"]["loaded"]
        except (ValueError, TypeError, KeyError):  # of another write
            continue
        if loaded == _loaded(table, digest):
            return snapshot.snapshot_id
    return None


def _loaded(table: str, digest: str) -> dict[str, str]:
    """What the commit of a load records."""
    return {"table": folded(full_name(table)), "sha256": digest}


def load(lake: Lake, file: Path, table: str, plan: Load) -> int:
    """Carries out a plan in one snapshot, which is returned."""
    extra = {"loaded": _loaded(table, plan.digest)}
    with in_utc(lake), lake.transaction(f"load {file.name}", extra=extra) as transaction:
        _check_same(table, _schema(transaction, table), plan.schema)
        rows = _rows(lake, file, table, plan.columns)
        if plan.schema is None:
            transaction.create_table(table, rows)
        transaction.table(table).append(rows)
        _check_same(str(file), local_state(file), plan.state)  # the rows have been read
    return lake.snapshot_id


def _check_same(name: str, now: object, planned: object) -> None:
    if now != planned:
        raise CommitConflictError(f"{name} has changed since the plan was made; nothing was written", hint="plan again")


def _check_columns(
    file: Path, table: str, columns: Mapping[str, tuple[str, str]], schema: Mapping[str, str] | None
) -> None:
    """Checks what the write would refuse."""
    check_names(columns)
    for name, (kind, _) in columns.items():
        check_writable(name, parsed_type(kind))
    different = set() if schema is None else set(map(folded, columns)) ^ set(map(folded, schema))
    if different:
        raise SchemaError(
            f"{file} and {table} do not have the same columns: only one of them has {', '.join(sorted(different))}",
            hint="change the file, or load it with a model of the kind append, which adds columns or leaves them NULL",
        )


def _schema(lake: Lake, table: str) -> Mapping[str, str] | None:
    name = full_name(table)
    try:
        return lake.table(name).schema
    except TableNotFoundError:
        return None


def _files(file: Path, table: str, columns: Mapping[str, str], inferred: Sequence[str] = ()) -> ModelFiles:
    return ModelFiles(Model(table, Append(files=str(file), columns=columns)), [str(file)], columns, inferred)


def _rows(lake: Lake, file: Path, table: str, columns: Mapping[str, tuple[str, str]]) -> nw.LazyFrame[Any]:
    inferred = [name for name, (_, source) in columns.items() if source == "file"]
    files = _files(file, table, {name: kind for name, (kind, _) in columns.items()}, inferred)
    try:
        rows = read_files(files, lake)
        check_files(files, lake)
    except SchemaError as error:
        if error.column is not None:
            _, source = columns.get(error.column, ("", "table"))
            option = f'pass --type "{error.column}=VARCHAR", or another type that holds the values'
            change = "change the values in the file, or load it with a model of the kind append, which can convert them"
            error.hint = change if source == "table" else option
        raise
    return rows
