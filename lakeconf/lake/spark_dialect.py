"""Runs a query in Spark's own SQL over the tables of a lake: only the names of the tables are replaced in its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import sqlglot
from sqlglot import Token, TokenType, exp

from lakeconf.catalog.table_references import table_references
from lakeconf.commit.scope import Scope
from lakeconf.engines.base import spark_operations
from lakeconf.errors import TableNotFoundError, UnsupportedError
from lakeconf.lake.query_names import single_query, snapshot_at, table_name
from lakeconf.lake.table import Table

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
    tree = single_query(query, "spark", "run it with spark.sql")
    tokens = sqlglot.tokenize(query, read="spark")
    tables = [table for table in table_references(tree) if isinstance(table.this, exp.Identifier)]
    frames: dict[str, Any] = {}
    text, rest = "", query
    for table in sorted(tables, key=_start, reverse=True):
        try:
            version, end = _version(scope, tokens, table)
            frame = Table(
                Scope(scope.session, at=version) if version is not None else scope,
                table_name(scope, table, "name tables of this lake"),
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


def _start(table: exp.Table) -> int:
    return int(table.parts[0].meta["start"])


def _version(scope: Scope, tokens: Sequence[Token], table: exp.Table) -> tuple[int | None, int]:
    """The snapshot that a table is read at; and where its name and snapshot end in the text."""
    end = int(table.parts[-1].meta["end"]) + 1
    # `VERSION AS OF` is one token, `FOR VERSION AS OF` three.
    following = [token for token in tokens if token.start >= end and token.text.upper() not in ("AS", "OF")]
    if not table.args.get("version") or len(following) < 2 or following[0].token_type not in _VERSIONS:
        return None, end
    kind, value = following[:2]
    named = "VERSION" if kind.token_type == TokenType.VERSION_SNAPSHOT else "TIMESTAMP"
    found = snapshot_at(scope.session.reader, named, value.text)
    if found is not None:
        return found, value.end + 1
    raise UnsupportedError(
        f"the snapshot of {table.name} cannot be read: {kind.text} {value.text}",
        hint="write VERSION AS OF 3, or TIMESTAMP AS OF '2024-05-17 10:00:00+00:00'",
    )
