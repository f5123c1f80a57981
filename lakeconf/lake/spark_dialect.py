"""Runs a query in Spark's own SQL over the tables of a lake: only the names of the tables are replaced in its text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import narwhals as nw
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog.snapshot import by_timestamp, by_version
from lakeconf.catalog.table_name import joined_name
from lakeconf.catalog.table_references import table_references
from lakeconf.commit.scope import Scope
from lakeconf.engines.base import spark_operations
from lakeconf.errors import QueryError, TableNotFoundError, UnsupportedError
from lakeconf.lake.table import Table
from lakeconf.sql import folded, parser_reason

_VERSIONS = (TokenType.VERSION_SNAPSHOT, TokenType.TIMESTAMP_SNAPSHOT)


def query_in_spark_sql(scope: Scope, query: str) -> nw.LazyFrame[Any]:
    """Runs a query in Spark's SQL, with the settings of the lake's session, at the snapshot of the lake.

    Args:
        scope: The lake.
        query: A query; `VERSION AS OF 3` and `TIMESTAMP AS OF '…+00:00'` name other snapshots. A name without a
            schema that is no table of the lake can be a temporary view of the session.

    Raises:
        QueryError: The text is not a single query, or Spark rejects it.
        TableNotFoundError: A table with a schema does not exist.
        SnapshotNotFoundError: A snapshot does not exist.
        UnsupportedError: The lake was opened without Spark.
    """
    engine = spark_operations(scope.session.engine, "lake.sql(…, dialect='spark')")
    tokens, tables = _parsed(query)
    frames: dict[str, Any] = {}
    text, rest = "", query
    for table in sorted(tables, key=_start, reverse=True):
        try:
            version, end = _version(scope, tokens, table)
            frame = Table(
                Scope(scope.session, at=version) if version is not None else scope, _name(scope, table)
            ).scan()
        except TableNotFoundError:
            if table.db:
                raise
            continue
        view = f"lakeconf_table_{len(frames)}"
        frames[view] = frame
        alias = "" if table.alias else f" AS `{table.name.replace('`', '``')}`"
        text = f"{{{view}}}{_escaped(alias + rest[end:])}{text}"
        rest = rest[: _start(table)]
    return engine.run_sql(_escaped(rest) + text, frames)


def _escaped(text: str) -> str:
    """Braces that are part of the query: Spark replaces names in braces by frames."""
    return text.replace("{", "{{").replace("}", "}}")


def _parsed(query: str) -> tuple[Sequence[Token], list[exp.Table]]:
    try:
        found = [tree for tree in sqlglot.parse(query, dialect="spark") if tree is not None]
        tokens = sqlglot.tokenize(query, read="spark")
    except (SqlglotError, ValueError, RecursionError) as error:
        raise QueryError(f"the query cannot be parsed: {parser_reason(error)}", hint="run it with spark.sql") from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise QueryError("the text is not a single query", hint="write SELECT … FROM …")
    return tokens, [table for table in table_references(found[0]) if isinstance(table.this, exp.Identifier)]


def _start(table: exp.Table) -> int:
    return int(table.parts[0].meta["start"])


def _name(scope: Scope, table: exp.Table) -> str:
    if table.catalog and folded(table.catalog) != folded(scope.session.alias):
        raise UnsupportedError(f"the query names another database, {table.catalog!r}", hint="name tables of this lake")
    return joined_name(table.db or "main", table.name)


def _version(scope: Scope, tokens: Sequence[Token], table: exp.Table) -> tuple[int | None, int]:
    """The snapshot that a table is read at; and where its name and snapshot end in the text."""
    end = int(table.parts[-1].meta["end"]) + 1
    # `VERSION AS OF` is one token, `FOR VERSION AS OF` three.
    following = [token for token in tokens if token.start >= end and token.text.upper() not in ("AS", "OF")]
    if not table.args.get("version") or len(following) < 2 or following[0].token_type not in _VERSIONS:
        return None, end
    kind, value = following[:2]
    reader = scope.session.reader
    if kind.token_type == TokenType.VERSION_SNAPSHOT and value.text.isdigit():
        return by_version(reader, int(value.text)).snapshot_id, value.end + 1
    try:
        time = datetime.fromisoformat(value.text)
    except ValueError:
        time = datetime.min
    if kind.token_type == TokenType.TIMESTAMP_SNAPSHOT and time.tzinfo is not None:
        return by_timestamp(reader, time).snapshot_id, value.end + 1
    raise UnsupportedError(
        f"the snapshot of {table.name} cannot be read: {kind.text} {value.text}",
        hint="write VERSION AS OF 3, or TIMESTAMP AS OF '2024-05-17 10:00:00+00:00'",
    )
