"""The keys of a staged frame as a condition on a table: all values if they are few, else the smallest and greatest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from lakeconf.catalog.column_types import Fact, duckdb_name, has
from lakeconf.catalog.file_footers import are_text_sql, chunks_sql, is_path_sql, read_footers
from lakeconf.catalog.pruning.literals import Text, compare, one_of
from lakeconf.catalog.pruning.predicates import And, Predicate
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.commit.transaction import Target, Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.engine import Engine, Staged, StagingRequest
from lakeconf.errors import LakeconfError, PredicateError
from lakeconf.logs import EventLogger
from lakeconf.sql import files_sql, folded, identifier
from lakeconf.write import decision, writes
from lakeconf.write.decision import Decision, by_size, by_statement, engine_refusal, merged
from lakeconf.write.merge_clauses import Clauses

# As many values as planning compares one by one with the statistics of files.
_FEW = 50


def key_bounds(
    writer: Connection, files: Sequence[str], keys: Sequence[Column], listed: Collection[Column] = ()
) -> Predicate | None:
    """The condition that every row of a table satisfies which matches a row of staged files."""
    known = [key for key in keys if has(key.type, Fact.IN_FOOTERS)] if files else []
    bounds = [
        bound
        for key in known
        for bound in ((_values(writer, files, key) if key in listed else []) or _key_bounds(writer, files, key))
    ]
    return And(tuple(bounds)) if bounds else None


def _values(writer: Connection, files: Sequence[str], key: Column) -> list[Predicate]:
    """The condition that a key has one of the values in the files; none if there are many."""
    read = files_sql("read_parquet", files)
    name = identifier(key.name)
    try:
        found = writer.rows(
            f"SELECT DISTINCT CAST({name} AS VARCHAR) FROM {read} WHERE {name} IS NOT NULL LIMIT {_FEW + 1}"
        )
        values = [Text(value) for (value,) in found]
        if not values or len(values) > _FEW or any("\0" in value.value for value in values):
            return []
        return [one_of(key, list(values))]
    except LakeconfError:
        return []  # such as a date after the year 9999, or bytes that are no string


def _key_bounds(writer: Connection, files: Sequence[str], key: Column) -> list[Predicate]:
    low, high = (f"TRY_CAST({bound} AS {duckdb_name(key.type)})" for bound in ("low", "high"))
    is_known = f"{low} IS NOT NULL AND {high} IS NOT NULL"
    if key.type == "varchar":
        is_known += f" AND {are_text_sql('low', 'high')}"
    if key.type == "timestamptz":
        # Without an offset, the cast would use the time zone of the session.
        is_known += " AND low LIKE '%+00' AND high LIKE '%+00'"
    ((unknown, least, greatest),) = writer.rows(f"""
        SELECT count(*) FILTER ((nulls = row_count OR ({is_known})) IS NOT TRUE),
            CAST(min({low}) AS VARCHAR), CAST(max({high}) AS VARCHAR)
        FROM ({chunks_sql(files)}) WHERE {is_path_sql(key.name)}""")
    if unknown or least is None:
        return []
    try:
        return [compare(key, ">=", Text(least)), compare(key, "<=", Text(greatest))]
    except PredicateError:
        return []  # such as a date after the year 9999


_log = EventLogger("stage")


@dataclass(frozen=True)
class Source:
    """The rows of a merge's frame, and how to join them with the table."""

    rows: Any  # A frame of `engine` with the table's columns that the merge's frame has, in the table's types
    engine: Engine
    decision: Decision
    where: Predicate | None = None  # A condition for the rows of the table that can match; None for all rows


def merge_source(
    transaction: Transaction, target: Target, read: TableInfo, adopted: Any, given: Sequence[Column], clauses: Clauses
) -> Source:
    """Prepares the frame of a merge; on Spark, stages it first, so that it is computed once."""
    engine = transaction.session.engine
    types = {column.name: target.types[column.name] for column in given}
    conformed = engine.conform(adopted, {column: target.types[column.name] for column in given})
    small = engine.for_small_merges()
    if small is None or isinstance(conformed, duckdb.DuckDBPyRelation):
        only = "the frame is one of DuckDB" if small else str(engine_refusal(transaction.session))
        return Source(conformed, small or engine, by_statement(transaction, target.info, only))
    request = StagingRequest(target.info, types, transaction.next_token())
    staged = transaction.own(engine.stage_rows(conformed, request))
    size = sum(footer.file_size_bytes for footer in read_footers(transaction.session.writer, staged.files))
    where = None if clauses.not_matched_by_source else _bounds(transaction, read, staged, size, clauses)
    name = writes.quoted_name(target.info)
    plan = plan_scan(transaction.session.reader, name, transaction.snapshot_id, None, where)
    chosen_by = by_size(transaction.session, merged(size, plan), transaction.wanted)
    chosen = engine if chosen_by.by_spark else small
    _log.info("merge into %s by %s", target.info.full_name, chosen_by)
    return Source(chosen.staged_rows(staged, list(types)), chosen, chosen_by, where)


def _bounds(transaction: Transaction, read: TableInfo, staged: Staged, size: int, clauses: Clauses) -> Predicate | None:
    """The condition for rows that can match, on the columns of the table at the read snapshot."""
    wanted = set(map(folded, clauses.on))
    keys = [key for key in read.columns if folded(key.name) in wanted]
    partitioned = {field.field_id for field in read.partition_fields}
    listed = [key for key in keys if key.field_id in partitioned and size <= decision.MOST_FRAME_BYTES]
    return key_bounds(transaction.session.writer, staged.files, keys, listed)
