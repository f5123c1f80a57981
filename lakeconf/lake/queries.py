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
from lakeconf.engines.base import SparkOperations
from lakeconf.errors import LakeconfError, QueryError, UnsupportedError

if TYPE_CHECKING:
    import narwhals as nw

    from lakeconf.catalog.only_reads import check_only_reads
    from lakeconf.catalog.stored_queries import prepare_query
    from lakeconf.commit.scope import Scope
    from lakeconf.engines.lazy_rows import lazy_rows
    from lakeconf.engines.schema_check import check_distinct
    from lakeconf.lake.frame_names import query_on_duckdb
    from lakeconf.lake.rewritten_queries import run_rewritten
    from lakeconf.write.execute import execute
else:
    check_only_reads = deferred("lakeconf.catalog.only_reads", "check_only_reads")
    prepare_query = deferred("lakeconf.catalog.stored_queries", "prepare_query")
    lazy_rows = deferred("lakeconf.engines.lazy_rows", "lazy_rows")
    check_distinct = deferred("lakeconf.engines.schema_check", "check_distinct")
    query_on_duckdb = deferred("lakeconf.lake.frame_names", "query_on_duckdb")
    run_rewritten = deferred("lakeconf.lake.rewritten_queries", "run_rewritten")
    execute = deferred("lakeconf.write.execute", "execute")

# The engines of a query, and the dialects with their names.
_ENGINES = frozenset({"duckdb", "spark"})


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
        engine: Literal["duckdb", "spark"] | None = None,
        dialect: Literal["duckdb", "spark"] = "duckdb",
        lakes: Sequence[Queries] = (),
        **frames: Never,
    ) -> nw.LazyFrame[Any]:
        """Runs a query on the lake.

        DuckDB runs it at the latest snapshot, Spark at the lake's, unless the query contains `AT (VERSION => …)`. With
        other lakes, both engines read each lake at its own snapshot.

        Args:
            query: A query; the lake is the default database.
            *parameters: None: write values in the SQL.
            engine: The engine that runs it; defaults to the engine of the lake. On Spark, only tables of the lake can
                be read, and what Spark may compute in another way than DuckDB is refused.
            dialect: The SQL of the query. Queries in Spark's own SQL run on Spark, and compute what Spark computes.
            lakes: Other open lakes. The query names their tables as `store.schema.table`, by the alias of each store.
                For Spark, they must be open on the same session. DuckDB copies their tables to memory.
            **frames: None: pass frames to `query`.

        Returns:
            A lazy frame of the engine.

        Raises:
            QueryError: It is not a single query, the engine rejects it, or it uses a view or macro that may do more
                than read the lake.
            UnsupportedError: Spark may not return DuckDB's rows, or a lake was opened without Spark.
            LakeconfError: Two lakes have the same name, or one is closed.
        """
        _check_query(query, parameters)
        _check_options(engine, dialect, lakes)
        if frames:
            name = next(iter(frames))
            raise QueryError(
                f"lake.sql takes no frames, such as {name!r}", hint=f'use lake.query(…, {{"{name}": {name}}})'
            )
        if dialect == "spark" and engine not in (None, "spark"):
            raise UnsupportedError("DuckDB does not run SQL of spark", hint="omit the engine or the dialect")
        on_spark = isinstance(self._session.engine, SparkOperations) if engine is None else engine == "spark"
        if lakes or on_spark or dialect == "spark":
            others = [lake._scope for lake in lakes]  # noqa: SLF001 - of the same class
            return run_rewritten(self._scope, query, others, dialect=dialect, on_spark=on_spark)
        self._scope.add_read(None)
        prepare_query(self._session.reader, query)
        check_only_reads(self._session.reader.connection, query)
        with self._tables_suggested():
            return lazy_rows(self._session.reader.connection.relation(query))

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        """Runs a query over frames on the lake's engine; Spark is given its translation.

        Args:
            sql: A query in DuckDB's SQL.
            frames: The frame of each table in the query, by name.

        Returns:
            A lazy frame of the engine.

        Raises:
            UnsupportedError: Spark may not return DuckDB's rows for a part of the query.
            QueryError: It is not a single query, or the engine rejects it.
            UnsafeQueryError: It calls an unsafe macro of the lake.
        """
        _check_query(sql, ())
        if not isinstance(frames, Mapping):
            raise QueryError("the frames of a query have no names", hint='write lake.query(…, {"name": frame})')
        check_distinct(name_list(frames, "frames"), "the query", "frames")
        prepare_query(self._session.reader, sql, frames=frames)
        check_only_reads(self._session.reader.connection, sql)
        if isinstance(self._session.engine, SparkOperations):
            return self._session.engine.query(sql, frames)
        with self._tables_suggested():
            return query_on_duckdb(self._session.engine, sql, frames)

    def execute(self, sql: str, /, *parameters: Never, idempotency_key: str | None = None, **frames: object) -> int:
        """Runs an INSERT, UPDATE, DELETE or MERGE INTO on one table of the lake, as one snapshot.

        On Spark, executors write the rows of an INSERT whose query computes nothing, and run a DELETE that
        `Table.delete` accepts and a MERGE INTO without conditions or computed values. DuckDB runs other statements at
        the commit.

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
            UnsupportedError: DuckLake, or Spark for an INSERT, does not support a part of the statement.
            CommitConflictError: Another writer has changed a table that the statement depends on.
            CommitError: Nothing was written, for example because several rows of the source match one row.
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


def _check_options(engine: object, dialect: object, lakes: object) -> None:
    for name, option, optional in (("engine", engine, True), ("dialect", dialect, False)):
        if not (option is None and optional) and not (isinstance(option, str) and option in _ENGINES):
            raise UnsupportedError(f"the {name} {option!r} is unknown", hint=f"write {name}='duckdb' or 'spark'")
    if not isinstance(lakes, Iterable) or not all(isinstance(lake, Queries) for lake in lakes):
        raise LakeconfError("not all `lakes` are open lakes", hint="pass lakes: lakes=[store.open()]")
