"""Creation and changes of tables and views, alone and in a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakeconf.catalog.tables import load_table
from lakeconf.commit.change import SchemaChange
from lakeconf.errors import QueryError, SchemaError, TableNotFoundError
from lakeconf.write.ddl import Definition
from lakeconf.write.schema_changes import Evolution, create, create_view, evolve, evolve_for
from lakeconf.write.writes import Writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store

EVENTS = Definition({"id": "BIGINT NOT NULL", "at": "TIMESTAMP", "s": "STRUCT(a INTEGER)"}, ["year(at)"])


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        yield lake


def evolved(lake: Lake, name: str, evolution: Evolution) -> None:
    with Writing(lake._scope, "a change") as transaction:
        evolve(transaction, name, evolution)


def test_table_is_created_once_and_in_one_snapshot(lake: Lake) -> None:
    before = lake.snapshot_id
    create(lake._scope, "Raw.Events", EVENTS)
    assert (lake.snapshot_id, lake.tables()) == (before + 1, ["Raw.Events"])
    assert lake.snapshots()[-1].message == "create table Raw.Events"
    for name in ("raw.events", "RAW.EVENTS"):
        with pytest.raises(SchemaError, match=f"^the table {name} already exists") as refused:
            create(lake._scope, name, EVENTS)
        assert refused.value.hint == "use lake.table(…), or pass if_not_exists=True"
    create(lake._scope, "events", Definition({"id": "INTEGER"}))
    assert lake.tables() == ["Raw.Events", "main.events"]


def test_word_that_ducklake_replaces_is_refused_before_anything_is_created(lake: Lake) -> None:
    with pytest.raises(SchemaError, match=r"the definition of main\.events contains \{DATA_PATH\}"):
        create(lake._scope, "events", Definition({"id": "INTEGER"}, comment="{DATA_PATH}"))
    assert lake.tables() == []
    create(lake._scope, "events", Definition({"id": "INTEGER"}))
    with pytest.raises(SchemaError, match=r"the change of main\.events contains \{SNAPSHOT_ID\}"):
        evolved(lake, "events", Evolution(add={"n": "VARCHAR"}, defaults={"n": "{SNAPSHOT_ID}"}))
    with pytest.raises(SchemaError, match=r"the view main\.v contains \{AUTHOR\}"):
        create_view(lake._scope, "v", "SELECT '{AUTHOR}' AS a")
    assert lake.table("events").schema == {"id": "INTEGER"}


def test_table_of_a_transaction_is_known_before_its_commit(lake: Lake) -> None:
    before = lake.snapshot_id
    with lake.transaction() as tx:
        create(tx._scope, "raw.events", EVENTS)
        transaction = tx._scope.transaction
        assert transaction is not None
        (found,) = transaction.targets.values()
        assert found.types == {"id": "BIGINT", "at": "TIMESTAMP", "s": "STRUCT(a INTEGER)"}
        assert [(column.name, column.nullable) for column in found.info.columns] == [
            ("id", False),
            ("at", True),
            ("s", True),
        ]
        assert [(field.transform, field.field_id) for field in found.info.partition_fields] == [("year", 2)]
        assert found.info.path.endswith("/data/raw/events/")
        with pytest.raises(SchemaError, match=r"the table raw\.Events already exists"):
            create(tx._scope, "raw.Events", EVENTS)
        evolve(transaction, "RAW.events", Evolution(rename={"at": "moment"}, add={"n": "INTEGER"}))
        assert next(iter(transaction.targets.values())).types == {
            "id": "BIGINT",
            "moment": "TIMESTAMP",
            "s": "STRUCT(a INTEGER)",
            "n": "INTEGER",
        }
        assert [type(change.body) for change in transaction.changes] == [SchemaChange, SchemaChange]
        assert lake.tables() == []
    assert lake.refresh() == before + 1
    assert list(lake.table("raw.events").schema) == ["id", "moment", "s", "n"]


def test_change_that_ducklake_refuses_is_a_schema_error(lake: Lake) -> None:
    create(lake._scope, "events", EVENTS)
    before = lake.snapshot_id
    for evolution in (Evolution(drop=["at"]), Evolution(add={"n": "INTEGER"}, defaults={"n": "many"})):
        with pytest.raises(SchemaError, match=r"^DuckLake refused the change: "):
            evolved(lake, "events", evolution)
    with pytest.raises(TableNotFoundError):
        evolved(lake, "unknown", Evolution(drop=["id"]))
    assert lake.refresh() == before


def test_change_of_a_table_depends_on_its_definition(lake: Lake) -> None:
    create(lake._scope, "events", EVENTS)
    known = load_table(lake._session.reader, "events", lake.snapshot_id).columns
    with Writing(lake._scope, "a change") as transaction:
        evolve(transaction, "events", Evolution())
        assert transaction.changes == []
        evolve(transaction, "events", Evolution(add={"s.b": "DATE"}))
        (change,) = transaction.changes
        assert (change.table, type(change.body), change.depends_on is not None) == ("main.events", SchemaChange, True)
        (target,) = transaction.targets.values()
        assert target.info.columns[:2] == known[:2]
    assert lake.table("events").schema["s"] == "STRUCT(a INTEGER, b DATE)"


def test_table_takes_the_columns_of_a_frame(lake: Lake) -> None:
    create(lake._scope, "events", Definition({"Id": "INTEGER", "kind": "VARCHAR"}))
    before = lake.snapshot_id
    with Writing(lake._scope, "a change") as transaction:
        evolve_for(transaction, "events", {"id": "BIGINT", "new.one": "DATE"})
    assert (lake.snapshot_id, lake.table("events").schema) == (
        before + 1,
        {"Id": "BIGINT", "kind": "VARCHAR", "new.one": "DATE"},
    )


def test_view_is_created_and_replaced(lake: Lake) -> None:
    lake.create_table("raw.t", pa.table({"id": [1, 2]}))
    for sql, schema in (("SELECT id FROM raw.t", ["id"]), ("SELECT id + 1 AS n, 'it''s' AS s FROM raw.t", ["n", "s"])):
        create_view(lake._scope, 'more."odd view"', sql)
        assert lake.sql('FROM more."odd view"').columns == schema
    assert lake.snapshots()[-1].message == "create view more.odd view"
    before = lake.snapshot_id
    with pytest.raises(QueryError):
        create_view(lake._scope, "v", "SELECT nothing FROM raw.t")
    assert lake.refresh() == before
