"""Differences between two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.errors import QueryError, SchemaError
from lakeconf.inspection.diff import TableDiff, compare

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Store]:
    """Two stores with tables that each differ in one respect."""
    folder: Path = tmp_path_factory.mktemp("compared")
    declared = {
        name: {
            "metadata_backend": {"type": "sqlite", "uri": str(folder / f"{name}.sqlite")},
            "storage_backend": {"type": "local", "path": str(folder / name)},
        }
        for name in ("dev", "prod")
    }
    config = lakeconf.init({"stores": declared})
    found = config.get_store("dev"), config.get_store("prod")
    for store, tables in zip(found, (DEV, PROD), strict=True):
        with store.open() as lake:
            for name, query in tables.items():
                frame = lake.sql(query)
                lake.create_table(f"t.{name}", frame).append(frame)
    return found


KEYED = "SELECT * FROM (VALUES {}) AS t(id, a, b)"
DEV = {
    "twice": "SELECT unnest([1, 1, 2]) AS a",
    "keyed": KEYED.format("(1, 10, 'x'), (2, 20, NULL), (3, 30, 'z'), (NULL, 40, 'n'), (5, 50, 'v')"),
    "typed": "SELECT 1 AS a, 2 AS only_dev",
    "many": "SELECT unnest(range(10)) AS a",
    "texts": "SELECT unnest(['1', '01']) AS k",
    "alike": "SELECT 1 AS id, INTERVAL 1 MONTH AS i, '-0.0'::DOUBLE AS f, ['-0.0'::FLOAT] AS l, [INTERVAL 1 DAY] AS s",
}
PROD = {
    "twice": "SELECT unnest([1, 2, 2, 2]) AS a",
    "keyed": KEYED.format("(1, 11, 'x'), (2, 20, 'y'), (NULL, 41, 'n'), (5, 50, 'v'), (6, 60, 'w')"),
    "typed": "SELECT CAST(1 AS BIGINT) AS a, 3 AS only_prod",
    "many": "SELECT unnest(range(100, 120)) AS a",
    "texts": "SELECT 1 AS k",
    "alike": "SELECT 1 AS id, INTERVAL 30 DAY AS i, 0::DOUBLE AS f, [0::FLOAT] AS l, [INTERVAL 24 HOUR] AS s",
}


def diff(stores: tuple[Store, Store], name: str, on: tuple[str, ...] = (), samples: int = 5) -> TableDiff:
    return compare(*stores, f"t.{name}", on, samples=samples)


@pytest.mark.slow
def test_duplicate_rows_are_counted_and_the_number_of_samples_is_limited(stores: tuple[Store, Store]) -> None:
    found = diff(stores, "twice")
    assert (found.rows, found.only, found.equal, found.is_equal) == ((3, 4), (1, 2), 2, False)
    assert found.samples == ([{"a": 1}], [{"a": 2}, {"a": 2}])
    for samples in (0, 3):
        found = diff(stores, "many", samples=samples)
        assert (found.only, [len(side) for side in found.samples]) == ((10, 20), [samples, samples])
        assert len(diff(stores, "keyed", ("id",), samples).sample_changes) == samples


def test_values_that_duckdb_takes_for_equal_differ(stores: tuple[Store, Store]) -> None:
    found = diff(stores, "alike")
    assert (found.only, found.is_equal) == ((1, 1), False)
    assert [row["f"] for side in found.samples for row in side] == [-0.0, 0.0]
    assert diff(stores, "alike", ("id",)).columns == {"i": 1, "f": 1, "l": 1, "s": 1}


def test_nulls_are_compared_as_keys_and_values(stores: tuple[Store, Store]) -> None:
    found = diff(stores, "keyed", ("id",))
    assert (found.only, found.equal, found.columns) == ((1, 1), 1, {"a": 2, "b": 1})
    assert [row["id"] for side in found.samples for row in side] == [3, 6]
    assert found.sample_changes == [
        {"id": 1, "a": [10, 11], "b": ["x", "x"]},
        {"id": 2, "a": [20, 20], "b": [None, "y"]},
        {"id": None, "a": [40, 41], "b": ["n", "n"]},
    ]


def test_missing_columns_and_other_types_are_differences(stores: tuple[Store, Store]) -> None:
    found = diff(stores, "typed")
    assert sorted(found.schema) == [
        ("a", "INTEGER", "BIGINT"), ("only_dev", "INTEGER", None), ("only_prod", None, "INTEGER")
    ]  # fmt: skip
    assert (found.only, found.equal, found.is_equal) == ((0, 0), 1, False)


@pytest.mark.slow
def test_what_cannot_be_compared_is_an_error(stores: tuple[Store, Store]) -> None:
    with pytest.raises(QueryError, match="dev cannot differ from itself"):
        compare(stores[0], stores[0], "t.keyed")
    with pytest.raises(QueryError, match=r"the key a of t\.twice is not unique in dev: 2 rows have the same") as found:
        diff(stores, "twice", ("a",))
    assert "without --on" in str(found.value.hint)
    with pytest.raises(SchemaError, match="the key has the types VARCHAR and INTEGER"):
        diff(stores, "texts", ("k",))
    with pytest.raises(QueryError, match="not unique in prod"):
        diff((stores[1], stores[0]), "twice", ("a",))
