"""The same narwhals code returns the same rows on both engines, except for the cases in docs/narwhals.md."""

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
from strength import some

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeconf import Lake

# Exceptions that mean "not supported"; any other exception, such as a TypeError in a case, fails the test.
# AttributeError: narwhals lacks the method on lazy frames.
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
    """A lake opened with DuckDB and with Spark; no test writes to it."""
    folder = tmp_path_factory.mktemp("parity")
    store = store_of(folder)
    with store.open() as on_duckdb:
        on_duckdb.create_table("facts", like=FACTS).append(FACTS)
        on_duckdb.create_table("labels", like=LABELS).append(LABELS)
        # The default is the time zone of the machine; the Spark session of the tests uses a different one.
        on_duckdb._session.reader.connection.execute("SET TimeZone = 'UTC'")
        with store.open(spark) as on_spark:
            yield on_duckdb, on_spark


def listed() -> dict[str, tuple[str, str]]:
    """The documented cases, as (result on DuckDB, result on Spark)."""
    table = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|", DOCUMENT.read_text(), re.MULTILINE)
    return {name: (by_duckdb, by_spark) for name, by_duckdb, by_spark in table}


def cases() -> dict[str, Callable[[Any, Any], Any]]:
    """All cases, by their name in the document."""
    by_row = {f"Expr.{name}": lambda f, _, e=expr: f.select("id", r=e) for name, expr in EXPRESSION.items()}
    of_all = {f"Expr.{name}": lambda f, _, e=expr: f.select(r=e) for name, expr in AGGREGATE.items()}
    return FRAME | by_row | of_all


def unlisted(expressions: dict[str, nw.Expr]) -> dict[str, nw.Expr]:
    return {name: expr for name, expr in expressions.items() if f"Expr.{name}" not in listed()}


def plain(value: Any) -> Any:
    """Normalizes a value: NaN equals NaN, and the sum of integers may be an integer or a decimal."""
    if isinstance(value, float | int | Decimal) and not isinstance(value, bool):
        return "nan" if math.isnan(value) else round(float(value), 9)
    if isinstance(value, dict):
        return tuple((name, plain(part)) for name, part in value.items())
    return [plain(part) for part in value] if isinstance(value, list) else value


def outcome(lake: Lake, verb: Callable[[Any, Any], Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The column names and the sorted rows of a case."""
    frame = verb(lake.table("facts").scan(), lake.table("labels").scan())
    table = frame.collect("pyarrow").to_native()
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return table.column_names, sorted((tuple(map(plain, row)) for row in rows), key=repr)


def outcome_or_error(lake: Lake, verb: Callable[[Any, Any], Any]) -> Any:
    try:
        return outcome(lake, verb)
    except REFUSALS:
        return "error"


@pytest.mark.parametrize("name", some([name for name in FRAME if name not in listed()], 15))
def test_frame_method_returns_the_same_rows_on_both_engines(lakes: tuple[Lake, Lake], name: str) -> None:
    on_duckdb, on_spark = (outcome(lake, FRAME[name]) for lake in lakes)
    assert on_duckdb[1]
    assert on_duckdb == on_spark


@pytest.mark.parametrize("is_aggregate", [False, True])
def test_expressions_return_the_same_values_on_both_engines(lakes: tuple[Lake, Lake], is_aggregate: bool) -> None:
    expressions = unlisted(AGGREGATE if is_aggregate else EXPRESSION)
    verb = lambda f, _: f.select(*([] if is_aggregate else ["id"]), **expressions)  # noqa: E731 - consistent with the other cases
    (names, on_duckdb), (_, on_spark) = (outcome(lake, verb) for lake in lakes)
    assert set(names) - {"id"} == set(expressions)
    by_duckdb, by_spark = (dict(zip(names, zip(*rows, strict=True), strict=True)) for rows in (on_duckdb, on_spark))
    assert {name: (by_duckdb[name], by_spark[name]) for name in names if by_duckdb[name] != by_spark[name]} == {}


@pytest.mark.parametrize("name", listed())
def test_documented_differences_between_engines_are_correct(lakes: tuple[Lake, Lake], name: str) -> None:
    on_duckdb, on_spark = (outcome_or_error(lake, cases()[name]) for lake in lakes)
    by_duckdb = "error" if on_duckdb == "error" else "rows"
    by_spark = "error" if on_spark == "error" else "rows" if on_duckdb == "error" else "other rows"
    assert on_duckdb != on_spark or on_duckdb == "error", "both give the same rows: take it out of the document"
    assert listed()[name] == (by_duckdb, by_spark)


def test_every_lazy_frame_method_of_narwhals_has_a_case() -> None:
    # These do not return a frame, or only execute the others.
    no_verbs = {"collect", "collect_schema", "columns", "implementation", "schema", "sink_parquet", "to_native"}
    public = {name for name in dir(nw.LazyFrame) if not name.startswith("_")}
    assert {re.split(r"\(", name)[0] for name in FRAME} == (public - no_verbs) | {"concat"}
