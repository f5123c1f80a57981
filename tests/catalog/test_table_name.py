"""Table names, including names that contain dots and quotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.tables import full_name, joined_name, split_name
from lakeconf.errors import TableNotFoundError
from lakeconf.inspection.diff import compare

if TYPE_CHECKING:
    from lakeconf import Store

# Without quotes, both would be named raw.a.b.
TABLES = ('raw."a.b"', '"raw.a".b')
NAMES = [
    ("events", ("main", "events"), "main.events"),
    ("raw.events", ("raw", "events"), "raw.events"),
    ('"raw"."events"', ("raw", "events"), "raw.events"),
    ('raw."a.b"', ("raw", "a.b"), 'raw."a.b"'),
    ('"ra""w".b', ('ra"w', "b"), '"ra""w".b'),
]


@pytest.mark.parametrize(("name", "parts", "full"), NAMES)
def test_name_is_split_into_schema_and_table(name: str, parts: tuple[str, str], full: str) -> None:
    assert split_name(name) == parts
    assert full_name(name) == joined_name(*parts) == full
    assert split_name(full) == parts


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a.b.c", '"a', 'a"."b"'])
def test_invalid_names_are_rejected(name: str) -> None:
    with pytest.raises(TableNotFoundError, match="is not a valid table name"):
        split_name(name)


def test_names_that_differ_only_in_quotes_are_different_tables(store: Store) -> None:
    with store.open() as lake:
        for number, name in enumerate(TABLES):
            frame = lake.sql(f"SELECT {number} AS id")
            lake.create_table(name, frame).append(frame, idempotency_key="first")
        assert set(lake.tables()) == set(TABLES)
        with lake.transaction():
            for number, name in enumerate(TABLES):
                lake.table(name).append(lake.sql(f"SELECT {number + 10} AS id"))
                lake.table(name).delete(where=f"id = {number}")
        for number, name in enumerate(TABLES):
            assert lake.table(name).scan().collect().to_dict(as_series=False) == {"id": [number + 10]}
            lake.table(name).append(lake.sql("SELECT 100 AS id"), idempotency_key="first")
            assert len(lake.table(name).scan().collect()) == 1
        lake.maintenance.compact()


def test_compare_tables_with_a_dot_in_the_name(store: Store) -> None:
    with store.open() as lake:
        for name in TABLES:
            frame = lake.sql("SELECT 1 AS id")
            lake.create_table(name, frame).append(frame)
    for name in (*TABLES, 'RAW."A.B"'):
        assert compare(store, store, name, on=("id",)).rows == (1, 1)


@pytest.mark.parametrize("wanted", ["raw.a.b", '"raw.a.b"'])
def test_lookup_does_not_match_a_name_with_different_quotes(store: Store, wanted: str) -> None:
    with store.open() as lake:
        lake.create_table(TABLES[0], lake.sql("SELECT 1 AS id"))
        with pytest.raises(TableNotFoundError):
            lake.table(wanted).scan()
