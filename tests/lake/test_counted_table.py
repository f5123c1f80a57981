"""`SELECT count(*) FROM t` on Spark comes from the catalog; each other query reads the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import TableNotFoundError
from lakeconf.lake.counted_table import counted
from lakeconf.lake.query_names import QueryText, named_lakes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

ROWS = "SELECT range AS id, range % 3 AS kind FROM range(10)"


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as found:
        found.create_table("raw.events", {"id": "BIGINT", "kind": "BIGINT"}).append(found.sql(ROWS))
        found.table("raw.events").append(found.sql(ROWS))
        found.table("raw.events").delete("id = 3")
        found.create_view("some", "SELECT 1 AS one")
        yield found


def answer(lake: Lake, query: str) -> str | None:
    text = QueryText.parsed(query, "duckdb", "")
    return counted(text.tree, text.tables(named_lakes(lake._scope, []))[0])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM raw.events",
        "FROM dev.raw.events SELECT COUNT(*)",
        'SELECT count(*) AS "the ""n" FROM raw.Events AS e;',
        "SELECT count(*) n FROM raw.events AS e(a, b)",
        "SELECT count(*) FROM raw.events AT (VERSION => 3)",
    ],
)
def test_count_has_the_rows_names_and_types_of_duckdb(query: str, lake: Lake) -> None:
    found = answer(lake, query)
    assert found is not None
    constant, expected = (lake.sql(one, engine="duckdb").to_native() for one in (found, query))
    assert (constant.columns, constant.types) == (expected.columns, expected.types)
    assert constant.fetchall() == expected.fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(id) FROM raw.events",
        "SELECT count(*) FROM raw.events WHERE id > 3",
        "SELECT count(*) FROM raw.events LIMIT 0",
        "SELECT count(*) FROM raw.events OFFSET 1",
        "SELECT count(*) FROM raw.events HAVING false",
        "SELECT count(*) FROM raw.events GROUP BY kind",
        "SELECT count(*) FROM raw.events GROUP BY ()",
        "SELECT count(*) FROM raw.events QUALIFY false",
        "SELECT DISTINCT count(*) FROM raw.events",
        "SELECT count(DISTINCT *) FROM raw.events",
        "SELECT count(* EXCLUDE id) FROM raw.events",
        "SELECT count(COLUMNS(*)) FROM raw.events",
        "SELECT count(*) FILTER (WHERE id > 3) FROM raw.events",
        "SELECT count(*) OVER () FROM raw.events",
        "SELECT count(*) + 1 FROM raw.events",
        "SELECT count(*), count(*) FROM raw.events",
        "SELECT count(*) FROM raw.events TABLESAMPLE 10%",
        "SELECT count(*) FROM raw.events, range(2)",
        "SELECT count(*) FROM raw.events JOIN range(2) AS r ON true",
        "SELECT count(*) FROM raw.events UNION ALL SELECT 1",
        "WITH more AS (SELECT 1) SELECT count(*) FROM raw.events",
        "SELECT count(*) FROM (SELECT id FROM raw.events)",
        "SELECT count(*) FROM (FROM raw.events PIVOT (sum(id) FOR kind IN (0, 1)))",
        "SELECT count(*) FROM (VALUES (1)) WHERE 1 IN (SELECT id FROM raw.events)",
        "(SELECT count(*) FROM raw.events)",
        "SELECT count(*) FROM some",
        # The catalog does not know how many rows of a file were deleted at an older snapshot.
        "SELECT count(*) FROM raw.events AT (VERSION => 4)",
    ],
)
def test_other_queries_read_the_files(query: str, lake: Lake) -> None:
    assert answer(lake, query) is None


def test_missing_table_is_named(lake: Lake) -> None:
    with pytest.raises(TableNotFoundError, match="nothing"):
        answer(lake, "SELECT count(*) FROM raw.nothing")


def test_spark_counts_without_files(lake: Lake, store: Store, spark: SparkSession, tmp_path: Path) -> None:
    lake.close()
    for file in (tmp_path / "data").rglob("*.parquet"):
        file.unlink()
    with store.open(spark) as on_spark:
        found = on_spark.sql("SELECT count(*) FROM raw.events").to_native()
        assert (found.columns, found.collect()) == (["count_star()"], [(18,)])
