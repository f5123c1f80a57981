"""Runs statements of the user in the transaction of a commit, with the conflicts of the tables that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import duckdb

from lakeconf.catalog.column_types import parsed_type
from lakeconf.catalog.pruning.hidden_columns import HiddenColumns
from lakeconf.catalog.sql_references import Name, References, check_syntax, find_references
from lakeconf.catalog.stored_queries import StoredQueries, check_functions
from lakeconf.catalog.tables import DEFAULT_SCHEMA, joined_name, split_name
from lakeconf.commit.change import Change, Statements
from lakeconf.commit.moved_values import inexact_types, unchecked_columns
from lakeconf.commit.scope import Scope
from lakeconf.commit.transaction import Target, Transaction
from lakeconf.connection.connection import Connection, schemas_of, search_path_sql
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.engine import StagingRequest
from lakeconf.engines.schema_check import check_writable, is_stored_inexactly
from lakeconf.errors import QueryError, TableNotFoundError, UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write import writes

Kind: TypeAlias = Literal["insert", "update", "delete"]
_HINT = "write one INSERT, UPDATE or DELETE; lake.sql(…) runs queries"
_MERGE = "call merge of the table, such as lake.table(name).merge(rows, on=key, matched=[Update(…)])"
# The words after the first word of each statement.
_SECOND = {"insert": ("into", "or"), "delete": ("from",), "update": (), "merge": ("into",)}
_QUERIES = ("select", "from", "with", "values", "table", "pivot", "unpivot", "(")


class _Token(NamedTuple):
    """A word, a sign or a constant."""

    word: str  # the word in lower case, without quotes; a sign as it is
    start: int  # its offset in bytes
    depth: int  # the number of parentheses around it
    is_quoted: bool  # True if it is a name in quotes, which is no keyword


@dataclass(frozen=True)
class Statement:
    """A statement."""

    text: str  # the SQL, as the user wrote it
    kind: Kind  # what it does
    alias: str  # the alias of the lake
    target: Name  # the table that it changes
    columns: frozenset[str]  # the columns that it sets, in lower case; empty if it may set all
    # The names in the rest of the statement. Those of common table expressions are among the relations, because a table
    # of the lake may have the same name.
    reads: References

    def name_of(self, table: Name) -> str:
        """The full name of a table of the lake."""
        if table.database and table.database != folded(self.alias):
            raise QueryError(
                f"{table} is a table of another database, and a statement uses one lake",
                hint=f"use tables of {self.alias}, the name of this lake; pass rows from elsewhere as a frame",
            )
        return joined_name(DEFAULT_SCHEMA if self.is_in_default_schema(table) else table.schema, table.name)

    def is_in_default_schema(self, table: Name) -> bool:
        """True if a name has no schema: neither `t` nor `dev.t` for the lake `dev` does."""
        return not table.schema or (not table.database and table.schema == folded(self.alias))


def parse_statement(connection: Connection, sql: str, alias: str) -> Statement:
    """Parses a statement."""
    check_syntax(connection, sql)
    tokens = _tokens(sql)
    while tokens and tokens[-1].word == ";":
        sql = sql.encode()[: tokens.pop().start].decode()
    first = _first(tokens)
    if first is None or any(token.word == ";" and not token.depth for token in tokens):
        raise QueryError("the SQL is not a single statement that changes rows", hint=_HINT)
    if tokens[first].word == "merge":
        raise UnsupportedError("lake.execute does not run MERGE INTO", hint=_MERGE)
    kinds: dict[str, Kind] = {"insert": "insert", "update": "update", "delete": "delete"}
    _check_clauses(tokens)
    return _Parts(connection, sql, tokens, first).statement(kinds[tokens[first].word], alias)


class _Parts:
    """Takes a statement apart."""

    def __init__(self, connection: Connection, sql: str, tokens: Sequence[_Token], first: int) -> None:
        self._connection = connection
        self._text = sql.encode()
        self._tokens = [*tokens, _Token("", len(self._text), 0, is_quoted=False)]
        self._first = first

    def statement(self, kind: Kind, alias: str) -> Statement:
        place = self._first + 1
        while self._is(place, "into", "from", "or", "replace", "ignore"):
            place += 1
        target, place = self._name(place)
        place = self._after_alias(place)
        columns: frozenset[str] = frozenset()
        if kind == "insert":
            columns, place = self._columns(place)
            query = "SELECT 1" if self._is(place, "default") else f"SELECT * FROM (\n{self._from(place)}\n)"
        elif kind == "update":
            columns, values = self._set(place)
            query = f"SELECT {values}"
        else:
            where = self._from(place)
            query = f"SELECT 1 FROM {self._from(place + 1)}" if self._is(place, "using") else f"SELECT 1 {where}"
        before = self._text[: self._tokens[self._first].start].decode()
        reads = find_references(self._connection, f"{before}{query}")
        if reads is None:
            raise QueryError("the statement cannot be parsed", hint=_HINT)
        return Statement(self._text.decode(), kind, alias, target, columns, reads)

    def _is(self, place: int, *words: str) -> bool:
        token = self._tokens[min(place, len(self._tokens) - 1)]
        return token.word in words and not token.is_quoted

    def _from(self, place: int) -> str:
        return self._text[self._tokens[min(place, len(self._tokens) - 1)].start :].decode()

    def _name(self, place: int) -> tuple[Name, int]:
        """The name of the table, and the place after it."""
        parts = [self._tokens[place].word]
        while self._is(place + 1, "."):
            place += 2
            parts.append(self._tokens[place].word)
        if len(parts) > 3 or not all(parts):
            raise QueryError("the statement does not name the table that it changes", hint=_HINT)
        return Name(*["", "", *map(folded, parts)][-3:]), place + 1

    def _after_alias(self, place: int) -> int:
        if self._is(place, "as"):
            return place + 2
        ends = ("set", "using", "where", "default", "by", "overriding", "", *_QUERIES)
        return place if self._is(place, *ends) else place + 1

    def _columns(self, place: int) -> tuple[frozenset[str], int]:
        """The columns that an INSERT lists, and the place of its query."""
        found: frozenset[str] = frozenset()
        if self._is(place, "(") and not self._is(place + 1, *_QUERIES):
            end = place
            while end < len(self._tokens) - 1 and not (self._is(end, ")") and not self._tokens[end].depth):
                end += 1
            found = frozenset(folded(token.word) for token in self._tokens[place + 1 : end] if token.word != ",")
            place = end + 1
        if self._is(place, "by"):
            found, place = frozenset(), place + 2
        return found, place

    def _set(self, place: int) -> tuple[frozenset[str], str]:
        """The columns that an UPDATE sets, and its text after SET without them: `a = 1, (b, c) = (2, 3) FROM t`."""
        if not self._is(place, "set"):
            raise QueryError("the statement cannot be parsed: SET is missing", hint=_HINT)
        found, text, begin = set[str](), b"", self._tokens[place + 1].start
        for index in range(place + 1, len(self._tokens) - 1):
            if not self._is(index - 1, "set", ",") or self._tokens[index].depth:
                continue
            end = index
            if self._is(index, "("):
                end = next(i for i in range(index, len(self._tokens)) if self._is(i, ")") and not self._tokens[i].depth)
            if self._is(end + 1, "="):
                found |= {folded(token.word) for token in self._tokens[index : end + 1] if token.word not in (*"(),",)}
                text += self._text[begin : self._tokens[index].start]
                begin = self._tokens[end + 1].start + 1
        return frozenset(found), (text + self._text[begin:]).decode()


def _first(tokens: Sequence[_Token]) -> int | None:
    """The place of INSERT, UPDATE, DELETE or MERGE, which common table expressions may precede."""
    for place, token in enumerate(tokens):
        if token.depth or token.is_quoted or token.word not in _SECOND:
            continue
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if after is None or after.word in ("as", "(", "using") or (place and tokens[0].word != "with"):
            continue
        wanted = _SECOND[token.word]
        if not wanted or after.word in wanted:
            return place
    return None


def _check_clauses(tokens: Sequence[_Token]) -> None:
    words = [token.word if not (token.is_quoted or token.depth) else "" for token in tokens]
    if "returning" in words:
        raise UnsupportedError(
            "DuckLake does not support RETURNING", hint="read the rows afterwards with lake.sql(…) or table.changes(…)"
        )
    pairs = list(zip(words, words[1:], words[2:], strict=False))
    conflict = any(pair[:2] == ("on", "conflict") and pair[2] in ("do", "(") for pair in pairs)
    if conflict or any(pair[:2] == ("insert", "or") for pair in pairs):
        raise UnsupportedError("DuckLake tables have no keys, so INSERT cannot detect conflicts", hint=_MERGE)


def _tokens(sql: str) -> list[_Token]:
    text, found, depth = sql.encode(), list[_Token](), 0
    with translated_errors():
        tokens = [one for one in duckdb.tokenize(sql) if one[1] != duckdb.token_type.comment]
    for number, (start, kind) in enumerate(tokens):
        end = tokens[number + 1][0] if number + 1 < len(tokens) else len(text)
        raw = text[start:end].decode(errors="ignore")
        is_quoted = raw.startswith('"')
        if is_quoted:
            word = raw[1 : raw.rindex('"')].replace('""', '"')
        elif kind in (duckdb.token_type.identifier, duckdb.token_type.keyword):
            word = raw.split()[0].split("--")[0].split("/*")[0].lower()
        else:
            word = raw[:1]
        depth -= word in (")", "]", "}") and not is_quoted
        found.append(_Token(word, start, depth, is_quoted))
        depth += word in ("(", "[", "{") and not is_quoted
    return found


_OTHER_NAME = "give the frame another name"


@dataclass(frozen=True)
class _Execution:
    """A statement, and what it needs."""

    statement: Statement
    transaction: Transaction
    target: Target
    frames: Mapping[str, Any]


def execute(scope: Scope, sql: str, frames: Mapping[str, object], key: str | None) -> int:
    """Runs a statement; see `Lake.execute`."""
    statement = parse_statement(scope.session.reader.connection, sql, scope.session.alias)
    change = partial(_add, statement=statement, frames=frames)
    return writes.write_once(scope, statement.name_of(statement.target), key, change)


def _add(transaction: Transaction, name: str, *, statement: Statement, frames: Mapping[str, object]) -> None:
    check_placeholders(statement.text, "the statement")
    check_functions(statement.reads.table_functions)
    _check_frames(statement, frames)
    given = {folded(frame): transaction.session.engine.adopt(value) for frame, value in frames.items()}
    _check_names(transaction, statement, given)
    execution = _Execution(statement, transaction, writes.target(transaction, name), given)
    _check_stored_types(execution)
    _run_by_duckdb(execution)


def _check_frames(statement: Statement, frames: Mapping[str, object]) -> None:
    """Rejects frames that the statement changes, does not use, or uses as tables of the lake too."""
    target, names = statement.target, set(map(folded, frames))
    used = {table.name for table in statement.reads.relations if not table.schema}
    for frame in frames:
        if not target.schema and target.name == folded(frame):
            raise QueryError(f"{frame} is both the table that the statement changes and a frame", hint=_OTHER_NAME)
        if folded(frame) not in used:
            raise QueryError(f"the statement does not use the frame {frame!r}", hint="name it like a table")
    for table in (target, *statement.reads.relations):
        # The view of a frame is in the schema `main` of DuckDB's temporary database, which comes first.
        if not table.database and table.schema == DEFAULT_SCHEMA and table.name in names:
            raise QueryError(f"{table} is both a table and a frame", hint=_OTHER_NAME)


def _check_names(transaction: Transaction, statement: Statement, frames: Mapping[str, object]) -> None:
    """Rejects names of tables without a schema that DuckDB would find in another schema than `main`."""
    tables = {statement.target, *statement.reads.relations}
    names = frozenset(
        Name("", "", table.name) if statement.is_in_default_schema(table) and not table.database else table
        for table in tables
    )
    pending = {split_name(name)[1] for name in transaction.targets if split_name(name)[0] == DEFAULT_SCHEMA}
    local = frozenset({*frames, *pending, *statement.reads.local})
    stored = StoredQueries.load(transaction.session.reader)
    stored.check_schemas(replace(statement.reads, relations=names, local=local), transaction.session.writer)
    if stored.has_buckets:
        read = tables if statement.kind != "insert" else statement.reads.relations
        read = {table for table in read if table.schema or table.name not in frames}
        behind = stored.references_behind(statement.text)
        HiddenColumns.load(transaction.session.reader).check_statement(statement.text, read, behind)
    alias = folded(statement.alias)
    if alias in {schema for schema, *_ in stored.relations} and any(table.schema == alias for table in tables):
        raise QueryError(
            f"{statement.alias} is the name of the lake and of a schema", hint="name all three: lake.schema.table"
        )


def _run_by_duckdb(execution: _Execution) -> None:
    """Adds the changes that run the statement at the commit."""
    transaction, statement, info = execution.transaction, execution.statement, execution.target.info
    name, is_insert = info.full_name, statement.kind == "insert"
    views = (_search_path(execution), *_views(execution))
    transaction.add(Change(name, Statements(views, checked=statement.text)))
    depends_on = None if is_insert else writes.read_dependency_at_commit(transaction, info)
    # Columns of these types that the statement sets were refused above.
    kept = inexact_types(execution.target.types) if statement.kind == "update" else {}
    # An INSERT sets the columns that it leaves out, too.
    required = (
        () if statement.kind == "delete" else unchecked_columns(info.columns, None if is_insert else statement.columns)
    )
    body = Statements((statement.text,), deletes=not is_insert, inserts=is_insert, kept=kept, required=required)
    read = writes.written_for(transaction, info)
    transaction.add(Change(name, body, depends_on, written_for=read, decision="duckdb: SQL runs in the commit"))
    _depend_on(transaction, (statement.name_of(one) for one in _tables(execution)))
    _depend_on(transaction, _behind_views(execution))
    drops = tuple(f"DROP VIEW temp.main.{identifier(one)}" for one in execution.frames)
    transaction.add(Change(name, Statements(drops)))


def _tables(execution: _Execution) -> list[Name]:
    """The names that may be tables which the statement reads, also those of common table expressions."""
    return [
        one for one in sorted(execution.statement.reads.relations) if one.schema or one.name not in execution.frames
    ]


def _depend_on(transaction: Transaction, names: Iterable[str]) -> None:
    """Makes the commit depend on the tables among these names."""
    for name in dict.fromkeys(names):
        try:
            info = writes.read_target(transaction, name).info
        except (TableNotFoundError, UnsupportedError):
            continue  # a view, or a common table expression
        depends_on = writes.read_dependency_at_commit(transaction, info)
        read = writes.written_for(transaction, info)
        transaction.add(Change(info.full_name, Statements(), depends_on, written_for=read))


def _check_stored_types(execution: _Execution) -> None:
    """Rejects values that the files would round: nothing else checks those that DuckDB computes."""
    statement = execution.statement
    if statement.kind == "delete":
        return
    for name, text in execution.target.types.items():
        found = parsed_type(text)
        check_writable(name, found)
        if is_stored_inexactly(found) and (not statement.columns or folded(name) in statement.columns):
            raise UnsupportedError(
                f"files could round values of the column {name!r} of the type {text}",
                hint="use append, merge or update, which check each value; or a DECIMAL(38, 0) column",
            )


def _behind_views(execution: _Execution) -> list[str]:
    """The tables that views and macros in the statement read."""
    transaction, alias = execution.transaction, folded(execution.transaction.session.alias)
    stored = StoredQueries.load(transaction.session.reader)
    found = []
    for database, schema, name in sorted(stored.relations_behind(execution.statement.text)):
        if not schema and name in execution.frames:
            raise QueryError(
                f"a view or macro of the statement reads the table {name}, not the frame", hint=_OTHER_NAME
            )
        in_main = not schema or (not database and schema == alias)
        if database in ("", alias):
            found.append(joined_name(DEFAULT_SCHEMA if in_main else schema, name))
    return found


def _search_path(execution: _Execution) -> str:
    """The statement that lets the user's SQL name the tables of the lake, also of new schemas."""
    session = execution.transaction.session
    pending = {split_name(name)[0] for name in execution.transaction.targets}
    return search_path_sql(session.alias, sorted({*pending, *schemas_of(session.reader.connection, session.alias)}))


def _views(execution: _Execution) -> list[str]:
    """Stages the frames, and returns the statements that make them views."""
    transaction, info = execution.transaction, execution.target.info
    engine, views = transaction.session.engine, []
    for frame, adopted in execution.frames.items():
        request = StagingRequest(info, engine.schema(adopted), transaction.next_token())
        staged = transaction.own(engine.stage_rows(adopted, request))
        views.append(f"CREATE TEMP VIEW {identifier(frame)} AS {staged.source}")
    return views
