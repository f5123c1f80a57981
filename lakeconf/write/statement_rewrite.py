"""A statement of SQL as the append, delete or merge of the frame API that equals it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
from sqlglot import exp

from lakeconf.catalog.predicate.parse import parse_understood
from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.catalog.table import NO_ID
from lakeconf.catalog.table_references import point_to
from lakeconf.commit.change import Change, Target
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import SparkOperations
from lakeconf.errors import PredicateError, UnsupportedError
from lakeconf.sql import folded
from lakeconf.write import merge, row_changes, writes
from lakeconf.write.portable_query import is_portable
from lakeconf.write.statement import Statement, has_only, is_plain
from lakeconf.write.statement_merge import clauses_of


@dataclass(frozen=True)
class Execution:
    """A statement, and what it needs.

    Attributes:
        statement: The statement.
        transaction: The transaction that it becomes a part of.
        target: The table that it changes.
        frames: The frames, by their names in lower case.
        tables: The other tables of the lake that it reads; and its own table, if it also reads it.
    """

    statement: Statement
    transaction: Transaction
    target: Target
    frames: Mapping[str, Any]
    tables: Mapping[str, Target]


def rewritten(execution: Execution, name: str) -> bool:
    """Adds the changes of the frame API that equal the statement; False if there are none."""
    tree = execution.statement.tree
    if isinstance(tree, exp.Insert):
        return _inserted(execution, name)
    if isinstance(tree, exp.Delete):
        return _deleted(execution, name)
    if isinstance(tree, exp.Merge):
        return _merged(execution, name)
    return False


def _inserted(execution: Execution, name: str) -> bool:
    """An INSERT of rows that Spark computes is an append."""
    statement, transaction = execution.statement, execution.transaction
    engine, tree = transaction.session.engine, statement.tree
    query = tree.expression
    if not isinstance(engine, SparkOperations) or not isinstance(query, exp.Query) or not statement.sources:
        return False
    if any(not isinstance(table.this, exp.Identifier) for table in statement.sources):
        raise UnsupportedError(
            "the INSERT reads files or functions, which Spark cannot read as DuckDB does",
            hint="pass the rows as a frame: lake.execute(sql, name=lake.read_parquet([…]))",
        )
    with_ = tree.args.get("with_")
    portable = is_portable(query) and (with_ is None or (is_portable(with_) and not query.args.get("with_")))
    if not portable or not has_only(tree, "this", "expression", "by_name", "with_"):
        return False
    listed = statement.columns or [column.name for column in execution.target.info.columns]
    rows = _rows(execution, [] if tree.args.get("by_name") else listed)
    row_changes.append(transaction, name, frame=_completed(execution, rows), evolve=False)
    depend_on_tables(execution, at_commit=False)
    return True


def _rows(execution: Execution, columns: Sequence[str]) -> nw.LazyFrame[Any]:
    """The rows of the query of an INSERT, on Spark, at the transaction's snapshot.

    Args:
        execution: The statement.
        columns: The names of the result's columns, by position; empty to keep those of the query.
    """
    transaction = execution.transaction
    engine, statement = transaction.session.engine, replace(execution.statement, tree=execution.statement.tree.copy())
    query, with_ = statement.tree.expression, statement.tree.args.get("with_")
    frames = dict(execution.frames)
    for name, tables in statement.read_tables(execution.frames).items():
        info = execution.tables[name].info
        if info.table_id == NO_ID or folded(name) in transaction.targets or writes.has_rows(transaction, info):
            raise UnsupportedError(
                f"the transaction has already changed {name}, and Spark reads the table before it",
                hint="commit the transaction first",
            )
        view = f"lakeconf_table_{uuid.uuid4().hex}"
        frames[view] = engine.scan(name, transaction.snapshot_id)
        for table in tables:
            point_to(table, view)
    if with_ is not None:
        query.set("with_", with_)
    if columns:
        aliases = exp.TableAlias(this=exp.to_identifier("lakeconf_rows"), columns=[_quoted(name) for name in columns])
        query = exp.select("*").from_(exp.Subquery(this=query, alias=aliases))
    sql = query.sql(dialect="duckdb")
    prepare_query(transaction.session.reader, sql, frames=frames)
    return engine.query(sql, frames)


def _completed(execution: Execution, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Adds the columns that an INSERT does not set."""
    names = {folded(name) for name in rows.collect_schema().names()}
    missing = [column for column in execution.target.info.columns if folded(column.name) not in names]
    if not missing:
        return rows
    session = execution.transaction.session
    described = session.reader.connection.rows(f"DESCRIBE {writes.quoted(session, execution.target.info)}")
    defaults = {folded(name) for name, _, _, _, default, _ in described if default not in (None, "NULL")}
    for column in missing:
        if folded(column.name) in defaults:
            raise UnsupportedError(
                f"the INSERT does not set {column.name!r}, whose default value Spark cannot compute",
                hint="list the column and its value",
            )
    return rows.with_columns(nw.lit(None).alias(column.name) for column in missing)


def _deleted(execution: Execution, name: str) -> bool:
    """A DELETE whose condition `Table.delete` accepts."""
    tree, target = execution.statement.tree, execution.statement.target
    where = tree.args.get("where")
    if where is None or not has_only(tree, "this", "where") or not is_plain(target):
        return False
    condition = where.this.copy()
    for column in condition.find_all(exp.Column):
        if column.args.get("db") or folded(column.table) not in ("", folded(target.alias or target.name)):
            return False
        column.set("table", None)
    text = condition.sql(dialect="duckdb")
    try:
        parse_understood(text, execution.target.info.columns)
    except PredicateError:
        return False
    row_changes.delete(execution.transaction, name, where=text)
    return True


def _merged(execution: Execution, name: str) -> bool:
    """A MERGE INTO that Spark can run as `Table.merge`."""
    statement, transaction = execution.statement, execution.transaction
    engine, source = transaction.session.engine, statement.tree.args["using"]
    is_frame = isinstance(source, exp.Table) and not source.db and folded(source.name) in execution.frames
    plain = has_only(statement.tree, "this", "using", "on", "using_cond", "whens") and is_plain(statement.target)
    if not isinstance(engine, SparkOperations) or not is_frame or not plain:
        return False
    if writes.has_rows(transaction, execution.target.info):
        return False  # Spark reads the table before the transaction
    frame = execution.frames[folded(source.name)]
    found, columns = list(engine.schema(frame)), [column.name for column in execution.target.info.columns]
    clauses = clauses_of(statement, columns, found)
    if clauses is None:
        return False
    names = set(map(folded, columns))
    used = nw.from_native(frame).select(column for column in found if folded(column) in names)
    merge.merge(transaction, name, frame=used, clauses=clauses, evolve=False)
    return True


def depend_on_tables(execution: Execution, *, at_commit: bool) -> None:
    """Makes the commit depend on the tables that the statement reads."""
    dependency = writes.read_dependency_at_commit if at_commit else writes.read_dependency
    for table in execution.tables.values():
        depends_on = dependency(execution.transaction, table.info)
        execution.transaction.add(Change((), table.info.full_name, depends_on=depends_on))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
