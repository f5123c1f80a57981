"""The same narwhals code gives the same rows on both engines, but for what docs/narwhals.md lists."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import store_of
from narwhals.exceptions import NarwhalsError
from narwhals_cases import AGGREGATE, EXPRESSION, FRAME
from pyspark.errors import PySparkException
from source_tree import REPOSITORY

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeconf import Lake

# How a library refuses a case; anything else, such as a TypeError of the case itself, is a failure of the test.
# AttributeError: narwhals has no such method on lazy frames.
REFUSALS = (AttributeError, NotImplementedError, NarwhalsError, duckdb.Error, PySparkException, LakeconfError)
DOCUMENT = REPOSITORY / "docs" / "narwhals.md"
MOMENTS = [dt.datetime(2024, 1, 31, 23, 59, 58, 123456), dt.datetime(2024, 2, 29, 12), None, dt.datetime(1969, 12, 31)]
FACTS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "one": pa.array([1, 1, 1, 1], pa.int64()),
        "n": pa.array([3, 1, None, 2], pa.int64()),
        "x": pa.array([-1.25, 2.5, math.nan, None], pa.float64()),
        "kind": ["a", "a", "b", None],
        "text": ["xx,y", " Tea pot ", None, "été"],
        "day": ["2024-01-31", None, "1969-12-31", "2024-02-29"],
        "at": pa.array(MOMENTS, pa.timestamp("us")),
        "zoned": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
        "tags": [["b", "a", "b"], [], None, ["c"]],
        "device": [{"os": "linux", "cores": 8}, None, {"os": None, "cores": 2}, {"os": "mac", "cores": 4}],
    }
)
LABELS = pa.table({"kind": ["a", "c"], "label": ["first", "third"], "since": pa.array([1, 3], pa.int64())})


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[tuple[Lake, Lake]]:
    """A lake opened with DuckDB and with Spark, which nobody writes to any more."""
    folder = tmp_path_factory.mktemp("parity")
    store = store_of(folder)
    with store.open() as on_duckdb:
        on_duckdb.create_table("facts", like=FACTS).append(FACTS)
        on_duckdb.create_table("labels", like=LABELS).append(LABELS)
        # As the machine has it otherwise; the tests' Spark session is in another zone.
        on_duckdb._session.reader.connection.execute("SET TimeZone = 'UTC'")
        with store.open(spark) as on_spark:
            yield on_duckdb, on_spark


def listed() -> dict[str, tuple[str, str]]:
    """What the document says of each case that it names: what DuckDB gives, and what Spark gives."""
    table = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|", DOCUMENT.read_text(), re.MULTILINE)
    return {name: (by_duckdb, by_spark) for name, by_duckdb, by_spark in table}


def cases() -> dict[str, Callable[[Any, Any], Any]]:
    """Every case by the name that the document uses."""
    by_row = {f"Expr.{name}": lambda f, _, e=expr: f.select("id", r=e) for name, expr in EXPRESSION.items()}
    of_all = {f"Expr.{name}": lambda f, _, e=expr: f.select(r=e) for name, expr in AGGREGATE.items()}
    return FRAME | by_row | of_all


def unlisted(expressions: dict[str, nw.Expr]) -> dict[str, nw.Expr]:
    return {name: expr for name, expr in expressions.items() if f"Expr.{name}" not in listed()}


def plain(value: Any) -> Any:
    """A value as both engines may give it: a NaN is itself, the sum of integers an integer or a decimal."""
    if isinstance(value, float | int | Decimal) and not isinstance(value, bool):
        return "nan" if math.isnan(value) else round(float(value), 9)
    if isinstance(value, dict):
        return tuple((name, plain(part)) for name, part in value.items())
    return [plain(part) for part in value] if isinstance(value, list) else value


def outcome(lake: Lake, verb: Callable[[Any, Any], Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the rows of a case."""
    frame = verb(lake.table("facts").scan(), lake.table("labels").scan())
    table = frame.collect("pyarrow").to_native()
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return table.column_names, sorted((tuple(map(plain, row)) for row in rows), key=repr)


def outcome_or_refused(lake: Lake, verb: Callable[[Any, Any], Any]) -> Any:
    try:
        return outcome(lake, verb)
    except REFUSALS:
        return "refused"


@pytest.mark.parametrize("name", [name for name in FRAME if name not in listed()])
def test_a_verb_gives_the_same_rows_on_both_engines(lakes: tuple[Lake, Lake], name: str) -> None:
    on_duckdb, on_spark = (outcome(lake, FRAME[name]) for lake in lakes)
    assert on_duckdb[1]
    assert on_duckdb == on_spark


@pytest.mark.parametrize("is_aggregate", [False, True])
def test_expressions_give_the_same_values_on_both_engines(lakes: tuple[Lake, Lake], is_aggregate: bool) -> None:
    expressions = unlisted(AGGREGATE if is_aggregate else EXPRESSION)
    verb = lambda f, _: f.select(*([] if is_aggregate else ["id"]), **expressions)  # noqa: E731 - as the others are
    (names, on_duckdb), (_, on_spark) = (outcome(lake, verb) for lake in lakes)
    assert set(names) - {"id"} == set(expressions)
    by_duckdb, by_spark = (dict(zip(names, zip(*rows, strict=True), strict=True)) for rows in (on_duckdb, on_spark))
    assert {name: (by_duckdb[name], by_spark[name]) for name in names if by_duckdb[name] != by_spark[name]} == {}


@pytest.mark.parametrize("name", listed())
def test_the_document_says_what_each_engine_gives(lakes: tuple[Lake, Lake], name: str) -> None:
    on_duckdb, on_spark = (outcome_or_refused(lake, cases()[name]) for lake in lakes)
    by_duckdb = "refused" if on_duckdb == "refused" else "rows"
    by_spark = "refused" if on_spark == "refused" else "rows" if on_duckdb == "refused" else "other rows"
    assert on_duckdb != on_spark or on_duckdb == "refused", "both give the same rows: take it out of the document"
    assert listed()[name] == (by_duckdb, by_spark)


def test_every_verb_of_narwhals_is_a_case() -> None:
    # These give no frame, or are ways to ask for what the others do.
    no_verbs = {"collect", "collect_schema", "columns", "implementation", "schema", "sink_parquet", "to_native"}
    public = {name for name in dir(nw.LazyFrame) if not name.startswith("_")}
    assert {re.split(r"\(", name)[0] for name in FRAME} == (public - no_verbs) | {"concat"}
