"""Registers files outside the data path as they are: nothing stages or removes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit.actions import Action
from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitError, QueryError, SchemaError, StorageError, UnsupportedError
from lakeconf.sql import exact_paths, literal, qualified
from lakeconf.write.context import WriteContext


@dataclass(frozen=True, kw_only=True)
class RegisterFiles(Action):
    """Files that become files of the table and stay where they are. Other writers own them."""

    info: TableInfo
    paths: tuple[str, ...]
    rows: int  # the number of rows in the files
    in_path: bool  # True if the names of folders give columns their values
    check: Callable[[], None]  # raises an error if a file has changed since its rows were compared

    @property
    def row_count(self) -> int:
        return self.rows

    def run(self, writer: Connection, reader: CatalogReader, begun: int) -> int:
        """Registers the files, which must add exactly their rows."""
        del begun
        self.check()
        count = f"SELECT count(*) FROM {qualified(reader.alias, self.info.schema_name, self.info.name)}"
        ((before,),) = writer.rows(count)
        table = (self.info.schema_name, self.info.name)
        with registering():
            writer.execute(registration_sql(reader.alias, *table, self.paths, in_path=self.in_path))
        ((after,),) = writer.rows(count)
        if after - before != self.rows:
            raise CommitError(f"DuckLake registered {after - before:,} rows of {self.rows:,}: nothing was written")
        return 0


@dataclass(frozen=True)
class AdoptFiles:
    """Adds files to a table; see `Lake.adopt`."""

    paths: tuple[str, ...]
    rows: int
    in_path: bool
    check: Callable[[], None]

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Registers the files, if nobody has changed the table since the plan."""
        target = context.target()
        return [
            RegisterFiles(
                table=target.info.full_name,
                info=target.info,
                paths=self.paths,
                rows=self.rows,
                in_path=self.in_path,
                check=self.check,
                written_for=target.stored,
                depends_on=context.dependency(target.info),
            )
        ]


@contextlib.contextmanager
def registering() -> Iterator[None]:
    """Says what DuckLake does not accept about files."""
    try:
        yield
    except (QueryError, SchemaError, StorageError, UnsupportedError) as error:
        raise SchemaError(
            f"DuckLake cannot register the files: {error.message}",
            hint="write the rows to new files, or load them instead",
        ) from error


def registration_sql(alias: str, schema: str, table: str, paths: Sequence[str], *, in_path: bool) -> str:
    """The statement that registers files, each with all columns: DuckLake would count no NULLs for a missing one."""
    arguments = ", ".join(map(literal, (alias, table)))
    options = f"schema => {literal(schema)}, hive_partitioning => {literal(in_path)}"
    return f"CALL ducklake_add_data_files({arguments}, {exact_paths(paths)}, {options})"
