"""The methods of a lake that run SQL. What needs sqlglot, which takes 0.1 s, is loaded when it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Never

from lakeconf.catalog.column_lookup import name_list
from lakeconf.catalog.unknown_tables import readable_names, tables_suggested
from lakeconf.completion import PublicNames
from lakeconf.deferred import deferred
from lakeconf.errors import LakeconfError, QueryError, UnsupportedError

if TYPE_CHECKING:
    import narwhals as nw

    from lakeconf.catalog.only_reads import check_only_reads
    from lakeconf.catalog.stored_queries import prepare_query
    from lakeconf.commit.scope import Scope
    from lakeconf.engines.lazy_rows import lazy_rows
    from lakeconf.engines.schema_check import check_distinct
    from lakeconf.lake.frame_names import query_on_duckdb
    from lakeconf.lake.query_names import named_lakes
    from lakeconf.lake.several_lakes import sql_on_duckdb
    from lakeconf.lake.spark_dialect import query_in_spark_sql
    from lakeconf.write.execute import execute
else:
    check_only_reads = deferred("lakeconf.catalog.only_reads", "check_only_reads")
    prepare_query = deferred("lakeconf.catalog.stored_queries", "prepare_query")
    lazy_rows = deferred("lakeconf.engines.lazy_rows", "lazy_rows")
    check_distinct = deferred("lakeconf.engines.schema_check", "check_distinct")
    query_on_duckdb = deferred("lakeconf.lake.frame_names", "query_on_duckdb")
    named_lakes = deferred("lakeconf.lake.query_names", "named_lakes")
    sql_on_duckdb = deferred("lakeconf.lake.several_lakes", "sql_on_duckdb")
    query_in_spark_sql = deferred("lakeconf.lake.spark_dialect", "query_in_spark_sql")
    execute = deferred("lakeconf.write.execute", "execute")

_DIALECTS = ("duckdb", "spark")


class Queries(PublicNames):
    """SQL on a lake; `Lake` inherits these methods.

    Args:
        scope: The lake.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    def sql(
        self,
        query: str,
        *parameters: Never,
        dialect: Literal["duckdb", "spark"] = "duckdb",
        lakes: Sequence[Queries] = (),
        **frames: Never,
    ) -> nw.LazyFrame[Any]:
        """Runs a query on the lake.

        DuckDB runs DuckDB's SQL at the latest snapshot, unless the query contains `AT (VERSION => …)`. Spark runs its
        own SQL at the lake's snapshot, unless it contains `VERSION AS OF …`. With other lakes, both read each lake at
        its own snapshot. On a lake that is open on Spark, every write accepts the result of either.

        Args:
            query: A query; the lake is the default database.
            *parameters: None: write values in the SQL.
            dialect: The SQL of the query, and the engine that runs it. Spark needs a lake that is open on Spark.
            lakes: Other open lakes. The query names their tables as `store.schema.table`, by the alias of each store.
                For Spark, they must be open on the same session. DuckDB copies their tables to memory.
            **frames: None: pass frames to `query`.

        Returns:
            A lazy frame of the engine.

        Raises:
            QueryError: It is not a single query, the engine rejects it, or it uses a view or macro that may do more
                than read the lake.
            UnsupportedError: The query is in Spark's SQL, and a lake was opened without Spark.
            LakeconfError: Two lakes have the same name, or one is closed.
        """
        _check_query(query, parameters)
        _check_options(dialect, lakes)
        if frames:
            name = next(iter(frames))
            raise QueryError(
                f"lake.sql takes no frames, such as {name!r}", hint=f'use lake.query(…, {{"{name}": {name}}})'
            )
        if lakes or dialect == "spark":
            named = named_lakes(self._scope, [lake._scope for lake in lakes])  # noqa: SLF001 - of the same class
            run = query_in_spark_sql if dialect == "spark" else sql_on_duckdb
            return run(self._scope, query, named)
        self._scope.add_read(None)
        prepare_query(self._session.reader, query)
        check_only_reads(self._session.reader.connection, query)
        with self._tables_suggested():
            return lazy_rows(self._session.reader.connection.relation(query))

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        """Runs a query over frames on DuckDB. The rows of frames of Spark are sent to this process.

        Args:
            sql: A query in DuckDB's SQL.
            frames: The frame of each table in the query, by name.

        Returns:
            A lazy frame of DuckDB.

        Raises:
            QueryError: It is not a single query, or DuckDB rejects it.
            UnsafeQueryError: It calls an unsafe macro of the lake.
        """
        _check_query(sql, ())
        if not isinstance(frames, Mapping):
            raise QueryError("the frames of a query have no names", hint='write lake.query(…, {"name": frame})')
        check_distinct(name_list(frames, "frames"), "the query", "frames")
        prepare_query(self._session.reader, sql, frames=frames)
        check_only_reads(self._session.reader.connection, sql)
        with self._tables_suggested():
            return query_on_duckdb(self._session.engine, sql, frames)

    def execute(self, sql: str, /, *parameters: Never, idempotency_key: str | None = None, **frames: object) -> int:
        """Runs an INSERT, UPDATE or DELETE on one table of the lake, as one snapshot.

        DuckDB runs it at the commit, also if the lake is open on Spark.

        Args:
            sql: The statement, in DuckDB's SQL; the lake is the default database.
            *parameters: None: pass values as frames, such as `given=[{"id": 1}]`.
            idempotency_key: As for `Table.append`.
            **frames: Frames that the statement names like tables, such as `staged=frame`.

        Returns:
            The new snapshot; in a transaction, the snapshot that it reads.

        Raises:
            QueryError: The SQL is not a single statement that changes rows, or DuckDB rejects it.
            UnsafeQueryError: It may use a view or macro of the lake that does more than read the lake.
            UnsupportedError: It is a MERGE INTO, or DuckLake does not support a part of the statement.
            CommitConflictError: Another writer has changed a table that the statement depends on.
            CommitError: Nothing was written.
        """
        _check_query(sql, parameters)
        with self._tables_suggested():
            return execute(self._scope, sql, frames, idempotency_key)

    def _tables_suggested(self) -> AbstractContextManager[None]:
        otherwise = 'pass a frame by its name, as in lake.query(…, {"name": frame}); or use one of the tables'
        return tables_suggested(partial(readable_names, self._session.reader), otherwise)


def _check_query(sql: object, parameters: Sequence[object]) -> None:
    if not isinstance(sql, str):
        raise QueryError(f"the SQL is not a text: {type(sql).__name__}", hint="write it as text")
    if parameters:
        hint = (
            'write the values in the SQL, or pass a frame: lake.execute("… FROM given", given=[{"id": 1}]), '
            'lake.query("… FROM given", {"given": [{"id": 1}]})'
        )
        raise QueryError("SQL takes no parameters", hint=hint)


def _check_options(dialect: object, lakes: object) -> None:
    if dialect not in _DIALECTS:
        raise UnsupportedError(f"the dialect {dialect!r} is unknown", hint="write dialect='duckdb' or 'spark'")
    if not isinstance(lakes, Iterable) or not all(isinstance(lake, Queries) for lake in lakes):
        raise LakeconfError("not all `lakes` are open lakes", hint="pass lakes: lakes=[store.open()]")
