"""Columns of PySpark are accepted where expressions of narwhals are, and mean the same."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import lakeconf
from lakeconf import Delete, Insert, Update
from lakeconf.engines.spark.column_expressions import as_narwhals
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, SparkSession

    from lakeconf import Lake, Store

ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "name": ["a", "ab", "b'c", None, "", "ä"],
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.00"), Decimal("0.00"), Decimal("9.99"), Decimal("3.00")]),
        "share": pa.array([1.5, float("nan"), None, -0.0, 0.0, float("inf")]),
        "day": [date(2026, 1, day) for day in range(1, 7)],
        "inner": [{"x y": number} for number in range(6)],
        "a b": pa.array(range(6), pa.int32()),
    }
)
CONDITIONS: dict[str, Callable[[], Column]] = {
    "equal": lambda: F.col("id") == 4,
    "not equal": lambda: F.col("id") != 4,
    "exchanged": lambda: F.lit(3) < F.col("id"),
    "and, or, not": lambda: ((F.col("id") > 1) & ~(F.col("name") == "b'c")) | F.col("price").isNull(),
    "in": lambda: F.col("id").isin(1, 4, 99),
    "between": lambda: F.col("id").between(2, 4),
    "null": lambda: F.col("name").isNull(),
    "not null": lambda: F.col("name").isNotNull(),
    "prefix": lambda: F.col("name").startswith("a"),
    "empty": lambda: F.col("name") == "",
    "decimal": lambda: F.col("price") >= Decimal("1.50"),
    "zero": lambda: F.col("share") == 0.0,
    "nan": lambda: F.isnan("share"),
    "infinite": lambda: F.col("share") > 1e300,
    "date": lambda: F.col("day") >= F.lit(date(2026, 1, 4)),
    "quoted name": lambda: F.col("`a b`") <= 1,
}
VALUES: dict[str, tuple[str, Callable[[], Any]]] = {
    "product": ("id", lambda: F.col("id") * 2 + 1),
    "difference": ("id", lambda: 10 - F.col("id")),
    "field": ("id", lambda: F.col("inner.`x y`") + 1),
    "coalesce": ("name", lambda: F.coalesce("name", F.lit("none"))),
    "negative": ("price", lambda: -F.col("price")),
    "case": ("name", lambda: F.when(F.col("id") > 3, "high").when(F.col("id") > 1, "mid").otherwise(F.col("name"))),
    "without otherwise": ("name", lambda: F.when(F.col("id") > 3, "high")),
    "constant": ("name", lambda: F.lit("it's")),
    "null": ("name", lambda: F.lit(None)),
    "alias": ("id", lambda: (F.col("id") + 1).alias("other")),
}
OTHERS: dict[str, Callable[[], Column]] = {
    "a quotient, which is NULL or an error for 0": lambda: F.col("id") / 2 > 1,
    "a pattern": lambda: F.col("name").like("a%"),
    "SQL": lambda: F.expr("id > 1"),
    "a cast": lambda: F.col("name").cast("int") == 1,
    "a time, whose zone is that of the session": lambda: F.col("day") < F.current_timestamp(),
    "constants": lambda: F.lit(1) == F.lit(1),
    "all columns": lambda: F.col("*"),
}


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    with store.open(spark) as lake:
        lake.create_table("t", ROWS).append(ROWS)
        yield lake


def test_conditions_return_the_rows_of_spark(lake: Lake, spark: SparkSession) -> None:
    table, frame = lake.table("t"), lake.table("t").scan().to_native()
    for name, make in CONDITIONS.items():
        expected = sorted(row.id for row in frame.where(make()).select("id").collect())
        assert sorted(row.id for row in table.scan(["id"], make()).to_native().collect()) == expected, name
        assert 0 < len(expected) < 6, name
    assert table.explain(where=F.col("id") > 99).files == 0


@pytest.mark.slow
def test_values_of_an_update_are_those_of_spark(lake: Lake) -> None:
    for name, (column, make) in VALUES.items():
        table = lake.table("t")
        before = table.scan().to_native()
        expected = sorted(map(tuple, before.withColumn(column, make()).select("day", column).collect()))
        table.update({column: make()}, where=F.col("id").isNotNull())
        assert sorted(map(tuple, table.scan(["day", column]).to_native().collect())) == expected, name
        table.overwrite(ROWS)


@pytest.mark.slow
def test_deletes_overwrites_and_merges_take_columns(lake: Lake) -> None:
    table = lake.table("t")
    table.delete(F.col("id") == 0)
    table.overwrite(ROWS.slice(1, 1), where=F.col("id") == 1)
    frame = ROWS.slice(2, 3)
    table.merge(
        frame,
        on="id",
        matched=[
            Delete(when=F.col("source_id") == 2),
            Update({"name": F.lit("new"), "price": F.col("target_price") - F.col("source_price")}),
        ],
        not_matched=Insert(when=F.col("source_id") > 99),
    )
    rows = {row["id"]: (row["name"], row["price"]) for row in table.to_arrow().to_pylist()}
    assert rows == {
        1: ("ab", None),
        3: ("new", Decimal("0.00")),
        4: ("new", Decimal("0.00")),
        5: ("ä", Decimal("3.00")),
    }


def test_other_columns_are_an_error_that_says_what_to_write(lake: Lake) -> None:
    before = lake.snapshot_id
    for name, make in OTHERS.items():
        with pytest.raises(UnsupportedError, match="cannot convert") as raised:
            lake.table("t").delete(make())
        assert "narwhals" in str(raised.value.hint), name
    assert lake.refresh() == before


def test_other_values_are_returned_as_they_are() -> None:
    for value in (None, "id = 1", 4, lakeconf):
        assert as_narwhals(value) is value
