"""Branches: lakes of their own whose tables are those of another lake at a snapshot, until the branch writes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from lakeconf.catalog.inherited import BranchRecord, branch_record, inherit_sql
from lakeconf.catalog.queries.sql_references import find_references
from lakeconf.catalog.queries.stored_queries import StoredQueries
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import Snapshot, by_version, latest
from lakeconf.catalog.tables import TableInfo, joined_name, schema_names, tables
from lakeconf.commit.actions import Action, DefineTable
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import BRANCH_RECORD, INTERNAL_SCHEMA, PARENT, check_placeholders, visible_at
from lakeconf.errors import BranchError, LakeconfError, QueryError
from lakeconf.guard.pins import Pin, Pins
from lakeconf.lake.branches.macros import macros
from lakeconf.lake.cleanup import Cleanup
from lakeconf.lake.maintenance import Maintenance
from lakeconf.lake.opening import open_session, reader_beside
from lakeconf.sql import folded, identifier, qualified
from lakeconf.store import Store, attach_to, for_reading
from lakeconf.write.context import WriteContext, perform

_VIEWS = f"""
    SELECT s.schema_name, v.view_name, v.sql, v.column_aliases
    FROM ducklake_view AS v JOIN ducklake_schema AS s ON s.schema_id = v.schema_id
    WHERE {visible_at(row="v")} AND {visible_at(row="s")} ORDER BY v.view_id
"""
# What DuckLake stores in place of the name of the lake.
_THIS_LAKE = "{DUCKLAKE_CATALOG}."


@dataclass(frozen=True)
class Branch:
    """A branch of a lake.

    Attributes:
        store: The store of the branch.
        parent: The store of the lake that it is a branch of.
        snapshot_id: The snapshot of that lake that the branch reads.
        left_out: Views and macros of that lake that the branch does not have, each with the reason.
    """

    store: str
    parent: str
    snapshot_id: int
    left_out: tuple[str, ...] = ()


def create_branch(store: Store, at: int | None) -> Branch:
    """Makes the lake of a store a branch; see `Store.create_branch`."""
    parent = _parent(store)
    with contextlib.ExitStack() as stack:
        with _opened(for_reading(parent)) as other, other.guard.keeping_files():
            _check_encrypted(store, other.reader, encrypted=store.attach_options.get("encrypted") is True)
            own = stack.enter_context(_opened(_alone(store)))
            known, lake = branch_record(own.reader), own.reader.lake_id
            _check_encrypted(store, other.reader, encrypted=own.reader.encrypted)
            if lake == other.reader.lake_id:
                raise BranchError(f"{store.name} and {parent.name} are the same lake", hint="give the branch its own")
            if known is not None:
                Pins(other.reader).check(Pin(lake, store.name, *known), kept=False)
            else:
                _check_empty(own, store.name)
            snapshot = _snapshot(other.reader, known, at, store.name)
            record = BranchRecord(
                other.reader.lake_id, snapshot.snapshot_id, snapshot.time.isoformat(timespec="microseconds")
            )
            # From here on, maintenance keeps the snapshot. A pin without a branch keeps too much, and is replaced.
            Pins(other.reader).write(Pin(lake, store.name, *record))
        # The catalog of the other lake may be a file that only one connection can open.
        return Branch(store.name, parent.name, record.snapshot_id) if known else _filled(own, store, record)


def drop_branch(store: Store) -> None:
    """Empties the lake of a branch; see `Store.drop_branch`."""
    parent = _parent(store)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(_opened(for_reading(_alone(store), read_only=False)))
        lake = own.reader.lake_id
        with _opened(for_reading(parent)) as other:
            is_pinned = Pins(other.reader).of(lake) is not None
        names = _everything(own)
        if branch_record(own.reader) is None and (names or not is_pinned):
            raise BranchError(
                f"the lake of {store.name!r} is no branch: nothing was dropped", hint="name another store"
            )
        if names:
            drop = DefineTable(
                table=joined_name(INTERNAL_SCHEMA, BRANCH_RECORD),
                sql=tuple(f"DROP {kind} {qualified(own.alias, schema, name)}" for kind, schema, name in names),
            )
            with Scope(own).transacting(f"drop the branch of {parent.name}", None, None) as scope:
                perform(scope, drop.table, _Planned(drop))
        _clean(own)  # while the catalog knows the folders of failed writes
        Maintenance(Scope(own)).expire_snapshots(older_than=timedelta(0), force=True)
        _clean(own)
    # At the end: a branch that was dropped in part still finds it.
    with _opened(for_reading(parent)) as other:
        Pins(other.reader).remove(lake)


def _clean(own: Session) -> None:
    """Removes all files of the branch; never those of others, which other tools can register in its catalog."""
    Scope(own).check_maintainable()
    with own.guard.removing(force=True):
        Cleanup(own, own.guard.marker, forgets_others=True).remove(own.clock.now())


def branches(store: Store) -> list[Pin]:
    """The branches of the lake of a store; see `Store.branches`."""
    with _opened(for_reading(store)) as lake:
        return [] if lake.guard.marker is None else Pins(lake.reader).all()


def _everything(own: Session) -> list[tuple[str, str, str]]:
    """The tables, views and macros of a lake: each with its kind, as DROP names it, its schema and its name."""
    newest = latest(own.reader).snapshot_id
    names = [("TABLE", info.schema_name, info.name) for info in tables(own.reader, newest)]
    with own.reader.transaction() as transaction:
        views = transaction.rows(_VIEWS, [newest])
    names += [("VIEW", schema, view) for schema, view, *_ in views]
    return names + [(macro.kind, macro.schema, macro.name) for macro in macros(own.reader, newest)]


def _parent(store: Store) -> Store:
    if store.branch_of is None:
        raise BranchError(
            f"the store {store.name!r} is no branch",
            hint=f'name the store of the other lake: branch_of = "prod" below [stores.{store.name}]',
        )
    return store.branch_of


def _alone(store: Store) -> Store:
    """The store of a branch without the other lake, which may be created."""
    options = {key: value for key, value in store.attach_options.items() if key != "create_if_not_exists"}
    return store.replace(branch_of=None, attach_options=options, hidden=store.secrets)


def _opened(store: Store) -> contextlib.closing[Session]:
    return contextlib.closing(open_session(store))


def _check_encrypted(store: Store, other: CatalogReader, *, encrypted: bool) -> None:
    """Rejects a branch that would write rows of an encrypted lake to plain files."""
    if other.encrypted and not encrypted:
        raise BranchError(
            f"the other lake is encrypted, and {store.name} would not be",
            hint=f"write encrypted = true in [stores.{store.name}.attach_options], for a new lake",
        )


def _check_empty(own: Session, store: str) -> None:
    """Rejects a lake that has something already."""
    names = [joined_name(schema, name) for _, schema, name in _everything(own) if folded(schema) != INTERNAL_SCHEMA]
    if names:
        raise BranchError(
            f"the lake of {store!r} is not empty: it has {names[0]}",
            hint="name a store with a new catalog and folder",
        )


def _snapshot(reader: CatalogReader, known: BranchRecord | None, at: int | None, store: str) -> Snapshot:
    """The snapshot of the other lake for the branch."""
    if known is None:
        return latest(reader) if at is None else by_version(reader, at)
    if at not in (None, known.snapshot_id):
        raise BranchError(
            f"{store} exists already, at snapshot {known.snapshot_id}",
            hint=f"drop it first: lakeconf branch --drop {store}",
        )
    return by_version(reader, known.snapshot_id)


def _filled(own: Session, store: Store, record: BranchRecord) -> Branch:
    """Fills an empty lake in one snapshot."""
    parent = store.parent
    assert parent is not None  # noqa: S101 - the caller has it
    connection = own.reader.connection
    attach_to(parent, connection, uses=False)
    connection.prefer_builtins(own.alias)
    other = reader_beside(parent, connection)
    definitions, left_out = _definitions_of(other, own.alias, record.snapshot_id)
    fill = FillBranch(
        table=joined_name(INTERNAL_SCHEMA, BRANCH_RECORD),
        sql=tuple(_statements(own.alias, other, record)),
        definitions=definitions,
        names=(own.alias, *schema_names(other, record.snapshot_id)),
        left_out=left_out,
    )
    message = f"branch of {parent.name} at snapshot {record.snapshot_id}"
    extra = {"branch_of": parent.name, "branch_version": record.snapshot_id}
    with Scope(own).transacting(message, None, extra) as scope:
        perform(scope, fill.table, _Planned(fill))
    return Branch(store.name, parent.name, record.snapshot_id, tuple(sorted(left_out)))


def _statements(alias: str, other: CatalogReader, record: BranchRecord) -> Iterator[str]:
    """The statements that fill a branch, without the views of the other lake."""
    version = record.snapshot_id
    for schema in (*schema_names(other, version), INTERNAL_SCHEMA):
        check_placeholders(schema, f"the name of the schema {schema}")
        yield f"CREATE SCHEMA IF NOT EXISTS {qualified(alias, schema)}"
    for info in tables(other, version):
        if folded(info.schema_name) != INTERNAL_SCHEMA:
            _check_alias(alias, info)
            yield inherit_sql(alias, (info.schema_name, info.name), info, version)
    yield _view(alias, (INTERNAL_SCHEMA, BRANCH_RECORD), record.view())


def _check_alias(alias: str, info: TableInfo) -> None:
    """Rejects an alias that DuckLake would find in the name of a table: under another alias, it reads another table."""
    if f"{alias}.".lower() in f"{PARENT}.{info.schema_name}.{info.name}".lower():
        raise BranchError(
            f"DuckLake takes a part of {info.full_name} for the alias {alias!r} of the branch: nothing was made",
            hint='set another alias for the store of the branch, such as alias = "branch"',
        )


def _view(alias: str, name: tuple[str, str], sql: str) -> str:
    return f"CREATE VIEW {qualified(alias, *name)} AS {sql.replace(_THIS_LAKE, f'{identifier(alias)}.')}"


def _definitions_of(other: CatalogReader, alias: str, version: int) -> tuple[dict[str, str], list[str]]:
    """The statements for the views and macros of a lake, with their names; and why its branch does not have others."""
    stored, definitions, left_out = StoredQueries.load(other, version), dict[str, str](), list[str]()
    with other.transaction() as transaction:
        views = transaction.rows(_VIEWS, [version])
    for macro in macros(other, version):
        try:
            definitions[macro.statement(alias, other, stored)] = macro.full_name
        except LakeconfError as error:
            left_out.append(f"{macro.full_name}: {error.message}")
    for schema, view, sql, aliases in views:
        name = joined_name(schema, view)
        try:
            check_placeholders(f"{schema}.{view}.{sql}".replace(_THIS_LAKE, ""), f"the view {name}")
            stored.check(find_references(f"FROM {qualified(other.alias, schema, view)}"))
        except LakeconfError as error:
            left_out.append(f"{name}: {error.message}")
            continue
        if aliases:
            left_out.append(f"{name}: it names its columns outside its query")
        elif folded(schema) != INTERNAL_SCHEMA:
            definitions[_view(alias, (schema, view), sql)] = name
    return definitions, left_out


@dataclass(frozen=True)
class _Planned:
    """The operation of an action that is planned already."""

    action: DefineTable

    def plan(self, context: WriteContext) -> Sequence[Action]:
        del context
        return [self.action]


@dataclass(frozen=True, kw_only=True)
class FillBranch(DefineTable):
    """Creates the schemas and views of a branch; views and macros of the other lake that fail there are left out."""

    definitions: Mapping[str, str] = field(default_factory=dict)  # statements for views and macros, with their names
    names: tuple[str, ...] = ()  # the alias of the branch, and its schemas, which macros name without the lake
    left_out: list[str] = field(default_factory=list)  # names of views and macros, each with the reason

    def run(self, writer: Connection, reader: CatalogReader, begun: int) -> int:
        super().run(writer, reader, begun)
        alias, *schemas = self.names
        writer.prefer_builtins(alias, schemas)
        left, known = set(self.definitions), len(self.left_out)
        while left:
            failed = dict[str, str]()
            for statement in (statement for statement in self.definitions if statement in left):
                try:
                    writer.execute(statement)
                except QueryError as error:  # it may need another view, or does not work in the other lake either
                    failed[statement] = error.message.splitlines()[0]
            if len(failed) == len(left):
                self.left_out[known:] = [f"{self.definitions[each]}: {reason}" for each, reason in failed.items()]
                break
            left = set(failed)
        return 0
