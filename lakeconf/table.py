"""A table of an open lake."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import duckdb

from lakeconf.catalog.predicate import to_duckdb_sql
from lakeconf.catalog.table import TableInfo
from lakeconf.catalog.where import Where, parse
from lakeconf.engines.selection import check_fit, full_name, selected
from lakeconf.errors import LakeconfError, PredicateError, SchemaError
from lakeconf.reads import TableReads
from lakeconf.sql import identifier, literal
from lakeconf.transaction import Change, LakeState, Transaction

if TYPE_CHECKING:
    from lakeconf.engines.base import Staged


class Table(TableReads):
    """A table by its name; `Lake.table` gives it.

    Args:
        state: The open lake.
        name: `schema.table`, or `table` for one in the schema `main`.
    """

    def __repr__(self) -> str:
        return f"Table({self.name!r} at snapshot {self._state.snapshot_id})"

    def append(self, frame: object) -> int:
        """Adds the rows of a frame.

        Args:
            frame: A frame of narwhals, pyspark, polars, pandas, pyarrow or duckdb that has the table's columns, in any
                order, each of a type that fits. One without rows changes nothing, and makes no snapshot.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: A column is missing, is one too many, or does not fit; nothing was written.
            CommitError: Nothing was written.
        """
        with _Writing(self._state) as transaction:
            info = self._info()
            staged = self._stage(frame, info, transaction)
            transaction.add(Change(self._insert(info, staged), full_name(info), staged))
        return self._state.snapshot_id

    def overwrite(self, frame: object, where: Where | None = None) -> int:
        """Replaces rows by those of a frame, in one snapshot.

        Args:
            frame: As for `append`.
            where: Which rows are replaced, as for `scan`; all unless given. Every row of the frame must satisfy it.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: As for `append`.
            PredicateError: The condition is beyond the grammar, or a row of the frame does not satisfy it.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        with _Writing(self._state) as transaction:
            info = self._info()
            condition = None if where is None else to_duckdb_sql(parse(where, info.columns))
            staged = self._stage(frame, info, transaction)
            delete = f"DELETE FROM {self._quoted(info)}" + (f" WHERE {condition}" if condition else "")
            change = Change(
                (delete, *self._insert(info, staged)), full_name(info), staged, reads_table_id=info.table_id
            )
            transaction.add(change)
            if condition is not None:
                self._check_condition(staged, condition)
        return self._state.snapshot_id

    def delete(self, where: Where) -> int:
        """Deletes the rows that satisfy a condition.

        Args:
            where: As for `scan`.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            PredicateError: The condition is beyond the grammar.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        with _Writing(self._state) as transaction:
            info = self._info()
            condition = to_duckdb_sql(parse(where, info.columns))
            delete = f"DELETE FROM {self._quoted(info)} WHERE {condition}"
            transaction.add(Change((delete,), full_name(info), reads_table_id=info.table_id))
        return self._state.snapshot_id

    def update(self, values: Mapping[str, object], where: Where) -> int:
        """Sets columns to constants in the rows that satisfy a condition; the rows keep their row ids.

        DuckDB does it, whatever the lake's engine is.

        Args:
            values: The new value of each column.
            where: As for `scan`.

        Returns:
            The new snapshot; inside a transaction the one that is read.

        Raises:
            SchemaError: The table has no such column, or it cannot hold the value.
            PredicateError: The condition is beyond the grammar.
            CommitConflictError: Another writer has changed the table since it was read.
            CommitError: Nothing was written.
        """
        with _Writing(self._state) as transaction:
            info, types = self._info(), self.schema
            names = [column.name for column in selected(info, list(values))]
            settings = ", ".join(
                f"{identifier(name)} = {_constant(value, types[name])}"
                for name, value in zip(names, values.values(), strict=True)
            )
            condition = to_duckdb_sql(parse(where, info.columns))
            update = f"UPDATE {self._quoted(info)} SET {settings} WHERE {condition}"
            transaction.add(Change((update,), full_name(info), reads_table_id=info.table_id))
        return self._state.snapshot_id

    def _stage(self, frame: object, info: TableInfo, transaction: Transaction) -> Staged:
        engine, types = self._state.engine, self.schema
        adopted = engine.adopt(frame)
        check_fit(full_name(info), engine.schema(adopted), types)
        token = f"{transaction.token}{len(transaction.changes)}"
        return engine.stage(adopted, info, types, self._state.writer, token)

    def _insert(self, info: TableInfo, staged: Staged) -> tuple[str, ...]:
        if not staged.files:
            return (f"INSERT INTO {self._quoted(info)} {staged.source}",)
        files = ", ".join(map(literal, staged.files))
        arguments = ", ".join(map(literal, (self._state.alias, info.name)))
        return (f"CALL ducklake_add_data_files({arguments}, [{files}], schema => {literal(info.schema_name)})",)

    def _check_condition(self, staged: Staged, condition: str) -> None:
        outside = f"SELECT count(*) FROM ({staged.source}) WHERE ({condition}) IS NOT TRUE"
        ((count,),) = self._state.writer.rows(outside)
        if count:
            raise PredicateError(
                f"{count} rows of the frame do not satisfy the `where` of the overwrite ({condition})",
                hint="filter the frame, or widen the condition",
            )


class _Writing:
    """The open transaction, or one of its own that commits at the end."""

    def __init__(self, state: LakeState) -> None:
        self._state = state
        self._own = state.transaction is None
        self._transaction = state.transaction or Transaction(state)

    def __enter__(self) -> Transaction:
        if self._state.read_only is not None:
            raise LakeconfError(f"nothing can be written: {self._state.read_only}")
        return self._transaction

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._own:
            return
        if kind is not None:
            self._transaction.discard()
        else:
            self._state.snapshot_id = self._transaction.commit()


def create_statements(quoted_schema: str, quoted: str, columns: dict[str, str], keys: Sequence[str]) -> tuple[str, ...]:
    """The SQL that makes an empty table, and its schema where there is none.

    Args:
        quoted_schema: The schema, with the lake.
        quoted: The table, with the lake and the schema.
        columns: Columns and their types, which `NOT NULL` may follow.
        keys: The keys of its partitioning, as SQL.

    Raises:
        SchemaError: DuckDB has no such type.
    """
    listed = ", ".join(f"{identifier(name)} {_checked_type(name, text)}" for name, text in columns.items())
    create = (f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}", f"CREATE TABLE {quoted} ({listed})")
    partition = (f"ALTER TABLE {quoted} SET PARTITIONED BY ({', '.join(keys)})",) if keys else ()
    return (*create, *partition)


def _checked_type(name: str, text: str) -> str:
    found = re.fullmatch(r"(?P<type>.*?)(?P<not_null>\s+NOT\s+NULL)?", text.strip(), re.IGNORECASE | re.DOTALL)
    type_name = found["type"] if found else text
    try:
        known = duckdb.sqltype(type_name)
    except duckdb.Error as error:
        raise SchemaError(f"the column {name!r} is of type {type_name!r}, which DuckDB has not: {error}") from error
    return f"{known} NOT NULL" if found and found["not_null"] else str(known)


def _constant(value: object, type_name: str) -> str:
    return "NULL" if value is None else f"CAST({literal(str(value))} AS {type_name})"
