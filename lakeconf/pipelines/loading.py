"""Loads a file into a table without a model, with the checks of models that load files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw

from lakeconf.connection.connection import fetched
from lakeconf.errors import CommitConflictError, SchemaError, TableNotFoundError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.file_rows import Files, check_files, read_files
from lakeconf.pipelines.intervals import in_utc
from lakeconf.pipelines.models.kinds import Append
from lakeconf.pipelines.models.model import Model
from lakeconf.sql import folded


@dataclass(frozen=True)
class Load:
    """What a load does."""

    columns: Mapping[str, tuple[str, str]]  # the type of each column, and where it comes from: table, option or file
    count: int  # the number of rows
    is_new: bool  # True if the table is created


def planned_load(lake: Lake, file: Path, table: str, types: Mapping[str, str]) -> Load:
    """Reads a file and finds the types of its columns: those of the table, else the given ones, else inferred ones."""
    with in_utc([lake]):
        inferred = lake.columns_of(read_files(_files(file, table, {}), lake))
        known = _schema(lake, table)
        sources = {"table": known or {}, "option": types}
        columns = {name: (kind, "file") for name, kind in inferred.items()}
        for source in ("option", "table"):
            by_name = {folded(name): kind for name, kind in sources[source].items()}
            columns |= {name: (by_name[folded(name)], source) for name in columns if folded(name) in by_name}
        unknown = set(map(folded, types)) - set(map(folded, inferred))
        if unknown:
            raise SchemaError(
                f"{file} has no column {min(unknown)!r}", hint=f"use one of its columns: {', '.join(inferred)}"
            )
        ((count,),) = fetched(
            lake.query("SELECT count(*) FROM lakeconf_rows", {"lakeconf_rows": _rows(lake, file, table, columns)}),
            lake._session.writer.secrets,  # noqa: SLF001 - for scrubbing only
        )
    return Load(columns, count, known is None)


def load(lake: Lake, file: Path, table: str, plan: Load) -> int:
    """Carries out a plan in one snapshot, which is returned."""
    with in_utc([lake]):
        if (_schema(lake, table) is None) is not plan.is_new:
            raise CommitConflictError(f"{table} was created or dropped after the plan was made", hint="plan again")
        rows = _rows(lake, file, table, plan.columns)
        with lake.transaction(f"load {file.name}") as transaction:
            if plan.is_new:
                transaction.create_table(table, rows)
            transaction.table(table).append(rows)
    return lake.snapshot_id


def _schema(lake: Lake, table: str) -> Mapping[str, str] | None:
    try:
        return lake.table(table).schema
    except TableNotFoundError:
        return None


def _files(file: Path, table: str, columns: Mapping[str, str]) -> Files:
    return Files(Model(table, Append(files=str(file), columns=columns)), [str(file)], columns)


def _rows(lake: Lake, file: Path, table: str, columns: Mapping[str, tuple[str, str]]) -> nw.LazyFrame[Any]:
    files = _files(file, table, {name: kind for name, (kind, _) in columns.items()})
    rows = read_files(files, lake)
    check_files(files, lake)
    return rows
