"""The names in a query: tables of the lake and of other lakes, views, and frames of the caller."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

import duckdb
import narwhals as nw
import sqlglot
from duckdb.sqltypes import DuckDBPyType
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog import query_text
from lakeconf.catalog.query_text import Span, named_as, replaced, semicolons, span_of, table_references
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import by_timestamp, by_version
from lakeconf.catalog.stored_queries import check_only_reads, prepare_query
from lakeconf.catalog.table import full_name, joined_name
from lakeconf.commit.scope import Scope
from lakeconf.engines.base import Engine, SparkOperations, spark_operations
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.errors import LakeconfError, QueryError, TableNotFoundError, UnsupportedError, required
from lakeconf.lake.table import Table
from lakeconf.sql import folded, identifier, parser_reason

_CONSTANT = (TokenType.NUMBER, TokenType.STRING, TokenType.DCOLON)


# DuckDB reads other text in the time zone of the connection.
_TIMES = ("", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")


_VERSIONS = (TokenType.VERSION_SNAPSHOT, TokenType.TIMESTAMP_SNAPSHOT)


_NO_QUERY = "write SELECT … FROM …; other forms, such as DESCRIBE, run in one lake: lake.sql(query)"


_WRITE = {
    "duckdb": "write AT (VERSION => 3), or AT (TIMESTAMP => '2024-05-17 10:00:00+00:00')",
    "spark": "write VERSION AS OF 3, or TIMESTAMP AS OF '2024-05-17 10:00:00+00:00'",
}


@dataclass(frozen=True)
class NamedTable:
    """A place in the text of a query that names a table.

    Attributes:
        tree: The place in the query's tree.
        scope: The lake of the table, at the snapshot that the query reads it at.
        name: The name of the table, as `Lake.table` accepts it.
        span: Where its name is in the text, in Spark's SQL with its snapshot.
    """

    tree: exp.Table
    scope: Scope
    name: str
    span: Span


class _Snapshot(NamedTuple):
    """A place in the text that names a snapshot, such as `VERSION` and `3`; the value is empty if it is computed."""

    kind: str
    value: str
    start: int
    end: int


@dataclass(frozen=True)
class QueryText:
    """A query and the tables that it names.

    Attributes:
        text: The query, with blanks in place of `AT (VERSION => 3)`.
        dialect: The dialect of its SQL: `duckdb` or `spark`.
        tree: The query as sqlglot reads it.
        hint: What to do if the query cannot run.
    """

    text: str
    dialect: str
    tree: exp.Query
    hint: str
    _tokens: Sequence[Token]
    _snapshots: Sequence[_Snapshot]

    @classmethod
    def parsed(cls, text: str, dialect: str, hint: str) -> QueryText:
        """Parses a query."""
        try:
            snapshots = [] if dialect == "spark" else _after_at(sqlglot.tokenize(text, read=dialect))
            for one in snapshots:
                text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
            tokens = sqlglot.tokenize(text, read=dialect)
            found = [tree for tree in query_text.parsed(text, dialect) if tree is not None]
        except (SqlglotError, ValueError, RecursionError) as error:
            raise QueryError(f"the query cannot be parsed: {parser_reason(error)}", hint=hint) from error
        if len(found) != 1 or not isinstance(found[0], exp.Query):
            raise QueryError("the text is not a single query", hint=_NO_QUERY)
        return cls(text, dialect, found[0], hint, tokens, snapshots)

    def tables(self, lakes: Mapping[str, Scope]) -> list[NamedTable]:
        """The tables in the order of the text, without table functions.

        Args:
            lakes: The lakes that the query can name, by `named_lakes`.
        """
        places = [table for table in table_references(self.tree) if isinstance(table.this, exp.Identifier)]
        if any("start" not in part.meta for table in places for part in table.parts):
            raise UnsupportedError("the query cannot be read: the place of a table is unknown", hint=self.hint)
        by_place = {span_of(table): table for table in places}
        found = [self._named(table, lakes) for _, table in sorted(by_place.items(), key=itemgetter(0))]
        if self._snapshots and len(self._snapshots) != sum(bool(self._written(table)) for table in by_place.values()):
            raise UnsupportedError("a snapshot is named, but not after a table", hint=_WRITE[self.dialect])
        self._check_columns(places)
        return found

    def _check_columns(self, places: Iterable[exp.Table]) -> None:
        """Refuses `raw.orders.id`: a view takes the place of the table, and has no schema."""
        schemas = {(folded(table.db), folded(table.name)) for table in places if table.db and not table.alias}
        others = {folded(table.alias) for table in self.tree.find_all(exp.Table) if table.alias}
        for column in self.tree.find_all(exp.Column):
            # A column with fields, as in `alias.column.field`, has the same form.
            if (folded(column.db), folded(column.table)) in schemas and folded(column.db) not in others:
                named = ".".join(part.name for part in column.parts)
                hint = f"give the table an alias: FROM … AS t, and write t.{column.name}"
                raise QueryError(f"the column {named} is named with the schema of its table", hint=hint)

    def reading(
        self,
        views: Iterable[tuple[NamedTable, str]],
        *,
        quoted: Callable[[str], str] = identifier,
    ) -> str:
        """The query with views in place of tables; the rest of its text stays.

        Args:
            views: The tables, and the names of the views.
            quoted: Quotes a name in the dialect.
        """
        return replaced(self.text, self._changes(views, quoted))

    def _changes(self, views: Iterable[tuple[NamedTable, str]], quoted: Callable[[str], str]) -> dict[Span, str]:
        names = {table.span: named_as(view, table.tree, quoted) for table, view in views}
        return {**semicolons(self._tokens), **names}

    def _named(self, table: exp.Table, lakes: Mapping[str, Scope]) -> NamedTable:
        scope, snapshot, (start, end) = self._lake(table, lakes), self._written(table), span_of(table)
        if snapshot is not None:
            at = snapshot_at(scope.session.reader, snapshot.kind, snapshot.value)
            if at is None:
                raise UnsupportedError(
                    f"the snapshot AT which the query reads {table.name!r} is not a constant", hint=_WRITE[self.dialect]
                )
            scope = replace(scope, at=at, transaction=None)
            end = snapshot.end if self.dialect == "spark" else end
        return NamedTable(table, scope, joined_name(table.db or "main", table.name), (start, end))

    def _lake(self, table: exp.Table, lakes: Mapping[str, Scope]) -> Scope:
        own, *others = lakes
        if not table.catalog and folded(table.db) in others:
            names = f"{own}.{table.db}.{table.name} or {table.db}.main.{table.name}"
            raise QueryError(f"{table.db}.{table.name} can be a table of two lakes", hint=f"write {names}")
        scope = lakes.get(folded(table.catalog) if table.catalog else own)
        if scope is None:
            raise UnsupportedError(
                f"the query names another database, {table.catalog!r}; its lakes are {', '.join(lakes)}", hint=self.hint
            )
        return scope

    def _written(self, table: exp.Table) -> _Snapshot | None:
        """The snapshot that is written after the name of a table, in DuckDB's SQL also after its alias."""
        _, end = span_of(table)
        if self.dialect == "spark":
            return _as_of(table, [token for token in self._tokens if token.start >= end])
        for one in self._snapshots:
            between = [token.text for token in self._tokens if end <= token.start < one.start]
            if one.start >= end and _is_alias(between, table.alias):
                return one
        return None


def named_lakes(scope: Scope, others: Iterable[Scope]) -> dict[str, Scope]:
    """The lakes that a query can name, each at one snapshot, which later commits do not change.

    Args:
        scope: The lake that runs the query.

    Returns:
        The lakes by name, in lower case; the one that runs the query is the first.
    """
    found: dict[str, Scope] = {}
    for one in (scope, *others):
        alias = folded(one.session.alias)
        if alias in found:
            raise LakeconfError(
                f"two lakes of the query have the name {alias!r}",
                hint="name other snapshots with AT (VERSION => 3), and other stores with an `alias` of their own",
            )
        found[alias] = replace(one, at=one.snapshot_id)
    return found


def snapshot_at(reader: CatalogReader, kind: str, value: str) -> int | None:
    """The snapshot that a query names.

    Args:
        kind: `VERSION` or `TIMESTAMP`, in any case.
        value: The number of a snapshot, or a time in ISO 8601 with an offset.

    Returns:
        The number of the snapshot; None if this is not the number of a snapshot or a time.
    """
    if kind.upper() == "VERSION" and value.isdecimal():
        return by_version(reader, int(value)).snapshot_id
    if kind.upper() != "TIMESTAMP":
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return by_timestamp(reader, time).snapshot_id if time.tzinfo is not None else None


def _is_alias(words: Sequence[str], alias: str) -> bool:
    """True for the words `AS alias (a, b)` after a table, each part of which is optional."""
    left = list(words[1:] if words and words[0].upper() == "AS" else words)
    if not left:
        return not words
    return folded(left[0]) == folded(alias) and (
        len(left) == 1 or (left[1] == "(" and left.index(")") == len(left) - 1)
    )


def _after_at(tokens: Sequence[Token]) -> list[_Snapshot]:
    """The places of `AT (VERSION => 3)`: it follows the alias of a table, where sqlglot does not accept it."""
    found = []
    for number, token in enumerate(tokens):
        kinds = [one.token_type for one in tokens[number + 1 : number + 4]]
        if token.text.upper() != "AT" or kinds[::2] != [TokenType.L_PAREN, TokenType.FARROW]:
            continue
        end, depth = number + 1, 1
        while depth and end + 1 < len(tokens):
            end += 1
            depth += (tokens[end].token_type == TokenType.L_PAREN) - (tokens[end].token_type == TokenType.R_PAREN)
        if not depth:
            value = _constant(tokens[number + 4 : end])
            found.append(_Snapshot(tokens[number + 2].text, value, token.start, tokens[end].end + 1))
    return found


def _constant(tokens: Sequence[Token]) -> str:
    """The value of `3`, `'2024-05-17'` and `TIMESTAMPTZ '2024-05-17'`; empty for others."""
    values = [token.text for token in tokens if token.token_type in (TokenType.NUMBER, TokenType.STRING)]
    others = [token.text.upper() for token in tokens if token.token_type not in _CONSTANT]
    return values[0] if len(values) == 1 and " ".join(others) in _TIMES else ""


def _as_of(table: exp.Table, following: Sequence[Token]) -> _Snapshot | None:
    """The snapshot of `VERSION AS OF 3`."""
    # `VERSION AS OF` is one token, `FOR VERSION AS OF` three.
    found = [token for token in following[:5] if token.text.upper() not in ("AS", "OF")]
    if not table.args.get("version") or len(found) < 2 or found[0].token_type not in _VERSIONS:
        return None
    kind, value = found[:2]
    named = "VERSION" if kind.token_type == TokenType.VERSION_SNAPSHOT else "TIMESTAMP"
    return _Snapshot(named, value.text, kind.start, value.end + 1)


# Views with this prefix are unique already; see `unique_view`.
_PREFIX = "lakeconf_input_"


def unique_view() -> str:
    """A name that no other view has."""
    return f"{_PREFIX}{uuid.uuid4().hex}"


def query_on_duckdb(engine: Engine, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
    """Runs a query over frames; each frame gets a view with a unique name.

    Args:
        engine: The engine of the lake, which is DuckDB.
        frames: The frame of each table in the query, by name.
    """
    if all(name.startswith(_PREFIX) for name in frames):
        return engine.query(sql, frames)
    views = {folded(name): unique_view() for name in frames}
    changed = _renamed(sql, views)
    given = {views[folded(name)]: frame for name, frame in frames.items()}
    with _names_of_the_user({view: name for name, view in views.items()}):
        return engine.query(changed, given)


def _renamed(sql: str, views: Mapping[str, str]) -> str:
    try:
        parsed = query_text.parsed(sql)
    except sqlglot.errors.SqlglotError:
        raise QueryError(
            "the names of frames cannot be found in the query",
            hint="use other syntax, or write the frames to tables and use lake.sql(…)",
        ) from None
    tables = [table for tree in parsed if tree is not None for table in table_references(tree)]
    changes = {
        span_of(table): _read(views[folded(table.name)], table)
        for table in tables
        if isinstance(table.this, exp.Identifier) and not table.db and folded(table.name) in views
    }
    return replaced(sql, changes)


def _read(view: str, table: exp.Table) -> str:
    return view if isinstance(table.parent, exp.Describe | exp.Summarize) else named_as(view, table)


@contextlib.contextmanager
def _names_of_the_user(names: Mapping[str, str]) -> Iterator[None]:
    """Errors name the frames as the user does."""
    try:
        yield
    except LakeconfError as error:
        for view, name in names.items():
            error.message = error.message.replace(view, name)
        error.args = (error.message,)
        raise


# Types that change on the way between two instances of DuckDB, but can be cast back.
_CAST_BACK = frozenset({"UUID", "HUGEINT", "UHUGEINT", "JSON"})


# Functions that read tables that they name in text.
_LATEST = ("query", "query_table")


_NESTED = frozenset({"list", "map", "struct"})


def sql_on_duckdb(scope: Scope, query: str, lakes: Mapping[str, Scope]) -> nw.LazyFrame[Any]:
    """Runs a query on DuckDB, at the snapshots of the lakes. The tables of other lakes are copied to memory.

    Args:
        lakes: The lakes that it can name, by `named_lakes`.
    """
    reader = scope.session.reader
    text = QueryText.parsed(query, "duckdb", "name only tables of these lakes")
    for function in text.tree.find_all(exp.Anonymous):
        if folded(function.name) in _LATEST:
            raise UnsupportedError(
                f"{function.name}() reads the latest snapshot, and not that of the query", hint="name the table instead"
            )
    views = [(table, f"lakeconf_table_{uuid.uuid4().hex}") for table in text.tables(lakes)]
    frames = {view: _rows(scope, table) for table, view in views}
    sql = text.reading(views)
    prepare_query(reader, sql, frames=frames)
    check_only_reads(reader.connection, sql)
    return DuckDBEngine(reader, scope.session.writer).query(sql, frames)


def _rows(scope: Scope, table: NamedTable) -> duckdb.DuckDBPyRelation:
    """The rows of a table as a relation of the lake's connection; those of another lake are copied."""
    session = table.scope.session
    table.scope.add_read(full_name(table.name))
    engine = DuckDBEngine(session.reader, session.writer)
    found: duckdb.DuckDBPyRelation = engine.scan(table.name, table.scope.snapshot_id).to_native()
    if session is scope.session:
        return found
    types = dict(zip(found.columns, found.types, strict=True))
    # Here, errors show no secret of the other lake.
    needed = required("pyarrow", extra="arrow", needed_for="a query over several lakes on DuckDB")
    with needed, session.reader.connection.errors():
        rows = found.to_arrow_table()
    copy = scope.session.reader.connection.from_arrow(rows)
    for (name, wanted), got in zip(types.items(), copy.types, strict=True):
        if not _is_exact(wanted, got):
            raise UnsupportedError(
                f"the column {name!r} of {session.alias}.{table.name} cannot be copied to another lake: "
                f"its type is {wanted}",
                hint="run the query without this table, or cast the column in a table of its own lake",
            )
    casts = (f"CAST({identifier(name)} AS {wanted}) AS {identifier(name)}" for name, wanted in types.items())
    with scope.session.reader.connection.errors():
        return copy.project(", ".join(casts))


def _is_exact(wanted: DuckDBPyType, got: DuckDBPyType) -> bool:
    """True if values of a type, converted to Arrow and back, are equal after a cast."""
    if str(wanted) == str(got) or str(wanted) in _CAST_BACK:
        return True
    if wanted.id not in _NESTED or wanted.id != got.id:
        return False
    pairs = zip(wanted.children, got.children, strict=True)
    return all(
        name == other and isinstance(one, DuckDBPyType) and isinstance(two, DuckDBPyType) and _is_exact(one, two)
        for (name, one), (other, two) in pairs
    )


def query_in_spark_sql(scope: Scope, query: str, lakes: Mapping[str, Scope]) -> nw.LazyFrame[Any]:
    """Runs a query in Spark's SQL, with the settings of the lake's session, at the snapshots of the lakes.

    Args:
        query: A query; `VERSION AS OF 3` and `TIMESTAMP AS OF '…+00:00'` name other snapshots. A name without a
            schema that is no table of the lake can be a temporary view of the session.
        lakes: The lakes that it can name, by `named_lakes`.
    """
    engine = spark_operations(scope.session.engine, "lake.sql(…, dialect='spark')")
    text = QueryText.parsed(query, "spark", "run it with spark.sql, and name only tables of these lakes")
    frames: dict[str, Any] = {}
    views = []
    for table in text.tables(lakes):
        try:
            frame = _scan(table)
        except TableNotFoundError:
            if table.tree.db:
                raise
            continue
        view = f"lakeconf_table_{uuid.uuid4().hex}"
        frames[view] = frame
        views.append((table, view))
    return engine.run_sql(text.reading(views, quoted=_quoted), frames)


def _scan(table: NamedTable) -> nw.LazyFrame[Any]:
    session = table.scope.session
    if not isinstance(session.engine, SparkOperations):
        raise UnsupportedError(
            f"the lake {session.alias!r} was opened without Spark, on which the query runs",
            hint="open it with the same Spark session",
        )
    return Table(table.scope, table.name).scan()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
