"""The fields of a frame's structs are written by their names, in whatever order the frame has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.engines.spark.write.storage import in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import lakeconf

GIVEN = "named_struct('b', 1, 'a', 2)"
WANTED = "named_struct('a', 2, 'b', 1)"
VALUES = [
    "{}",
    "named_struct('c', {}, 'd', 3)",
    "array({}, NULL)",
    "array(array({}))",
    "map({}, 1)",
    "map('k', {}, 'n', NULL)",
    "map({0}, array({0}))",
    "named_struct('l', array(map('k', {})))",
]


@pytest.mark.parametrize("value", VALUES)
def test_fields_get_the_wanted_order_at_any_depth(spark: SparkSession, value: str) -> None:
    wanted = spark.sql(f"SELECT {value.format(WANTED)} AS x UNION ALL SELECT NULL")
    given = spark.sql(f"SELECT {value.format(GIVEN)} AS x UNION ALL SELECT NULL")
    types = given.schema["x"].dataType, wanted.schema["x"].dataType
    found = given.select(in_order(F.col("x"), *types).alias("x"))
    assert found.schema["x"].dataType.simpleString() == types[1].simpleString()
    assert found.collect() == wanted.collect()


def test_value_in_the_wanted_order_is_not_rebuilt(spark: SparkSession) -> None:
    column, found = F.col("x"), spark.sql(f"SELECT array({WANTED}) AS x").schema["x"].dataType
    assert in_order(column, found, found) is column


@pytest.mark.parametrize("session", ["spark", "connect"])
def test_fields_are_written_by_name(request: pytest.FixtureRequest, store: lakeconf.Store, session: str) -> None:
    def frame(key: int) -> Any:
        return used.sql(f"SELECT {key}L AS id, {GIVEN} AS x, array({GIVEN}) AS l")

    used = request.getfixturevalue(session)
    with store.open(used) as lake:
        pair = "STRUCT(a INTEGER, b INTEGER)"
        table = lake.create_table("t", {"id": "BIGINT", "x": pair, "l": f"{pair}[]"})
        table.append(frame(1))
        table.append(frame(2).toArrow())
        table.merge(frame(2).unionAll(frame(3)), on="id")
        table.overwrite(frame(4), where="id = 4")
        found = lake.sql("SELECT x::VARCHAR AS x, l::VARCHAR AS l FROM t").collect("pyarrow")
    assert set(found.rows()) == {("{'a': 2, 'b': 1}", "[{'a': 2, 'b': 1}]")}
    assert len(found) == 4
