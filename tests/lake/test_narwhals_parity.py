"""The same narwhals code returns the same rows on both engines, except for the cases in docs/narwhals.md."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from lake_parts import catalog_of
from local_stores import store_of
from narwhals.exceptions import NarwhalsError
from pyspark.errors import PySparkException
from source_tree import REPOSITORY

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeconf import Lake


Frame = nw.LazyFrame[Any]
N, X, TEXT, AT, TAGS, DEVICE, KIND = map(nw.col, ("n", "x", "text", "at", "tags", "device", "kind"))

FRAME: dict[str, Callable[[Frame, Frame], Frame]] = {
    "select": lambda f, _: f.select("id", twice=N * 2),
    "with_columns": lambda f, _: f.with_columns(n=N + 1, more=X - N),
    "filter": lambda f, _: f.filter(N > 1, KIND == "a"),
    "drop": lambda f, _: f.drop("tags", "device"),
    "drop_nulls": lambda f, _: f.drop_nulls(),
    "drop_nulls(subset)": lambda f, _: f.drop_nulls(subset=["n"]),
    "rename": lambda f, _: f.rename({"n": "number"}),
    "cast": lambda f, _: f.select("id", "n").cast({"n": nw.Float64}),
    "head": lambda f, _: f.sort("id").head(2),
    "tail": lambda f, _: f.sort("id").tail(2),
    "top_k": lambda f, _: f.top_k(2, by="id"),
    "gather_every": lambda f, _: f.sort("id").gather_every(2),
    "sort": lambda f, _: f.sort("n", "id", descending=[True, False], nulls_last=True).head(3),
    "unique": lambda f, _: f.select("kind").unique(),
    "unique(subset)": lambda f, _: f.unique(subset=["kind"], keep="any").select("kind"),
    "unique(order_by)": lambda f, _: f.unique(subset=["kind"], keep="first", order_by=["id"]).select("id", "kind"),
    "unique(keep='none')": lambda f, _: f.unique(subset=["kind"], keep="none").select("id", "kind"),
    "with_row_index": lambda f, _: f.with_row_index("index", order_by="id").select("index", "id"),
    "explode": lambda f, _: f.select("id", "tags").explode("tags"),
    "unpivot": lambda f, _: f.unpivot(on=["n", "x"], index="id"),
    "group_by": lambda f, _: f.group_by("kind").agg(N.sum(), count=nw.len(), mean=X.mean()),
    "group_by(drop_null_keys)": lambda f, _: f.group_by("kind", drop_null_keys=True).agg(N.max()),
    "join(inner)": lambda f, g: f.join(g, on="kind").select("id", "label"),
    "join(left)": lambda f, g: f.join(g, on="kind", how="left").select("id", "label"),
    "join(full)": lambda f, g: f.select("id", "kind").join(g, on="kind", how="full"),
    "join(semi)": lambda f, g: f.join(g, on="kind", how="semi").select("id"),
    "join(anti)": lambda f, g: f.join(g, on="kind", how="anti").select("id"),
    "join(cross)": lambda f, g: f.select("id").join(g.select("label"), how="cross"),
    "join_asof": lambda f, g: f.drop_nulls("n").join_asof(g, left_on="n", right_on="since").select("id", "label"),
    "concat(vertical)": lambda f, _: nw.concat([f.select("id"), f.select("id")]),
    "concat(diagonal)": lambda f, _: nw.concat([f.select("id"), f.select("id", "n")], how="diagonal"),
    "with_columns(name.suffix)": lambda f, _: f.select("id", N.name.suffix("_r")),
    "pipe": lambda f, _: f.pipe(lambda frame: frame.select("id")),
    "lazy": lambda f, _: f.lazy().select("id"),
}
_IN_ORDER = {"order_by": "id"}
# Expressions that return a value for each row.
EXPRESSION: dict[str, nw.Expr] = {
    "abs": X.abs(),
    "ceil": X.ceil(),
    "clip": N.clip(2, 3),
    "cos": X.cos(),
    "cum_count": N.cum_count().over(**_IN_ORDER),
    "cum_max": N.cum_max().over(**_IN_ORDER),
    "cum_min": N.cum_min().over(**_IN_ORDER),
    "cum_prod": N.cum_prod().over(**_IN_ORDER),
    "cum_sum": N.cum_sum().over(**_IN_ORDER),
    "diff": N.diff().over(**_IN_ORDER),
    "exp": X.exp(),
    "fill_nan": X.fill_nan(0.0),
    "fill_null": N.fill_null(0),
    "fill_null(strategy)": N.fill_null(strategy="forward").over(**_IN_ORDER),
    "first": N.first().over(**_IN_ORDER),
    "floor": X.floor(),
    "is_between": N.is_between(1, 2),
    "is_close": X.is_close(1.5),
    "is_duplicated": KIND.is_duplicated(),
    "is_finite": X.is_finite(),
    "is_first_distinct": KIND.is_first_distinct().over(**_IN_ORDER),
    "is_in": N.is_in([1, 3]),
    "is_last_distinct": KIND.is_last_distinct().over(**_IN_ORDER),
    "is_nan": X.is_nan(),
    "is_null": N.is_null(),
    "is_unique": KIND.is_unique(),
    "last": N.last().over(**_IN_ORDER),
    "log": (N * 1.0).log(),
    "over": N.sum().over("kind"),
    "rank": N.rank("min"),
    "replace_strict": nw.col("one").replace_strict([1], ["one"], default="?", return_dtype=nw.String),
    "rolling_mean": N.rolling_mean(2, min_samples=1).over(**_IN_ORDER),
    "rolling_std": N.rolling_std(2, min_samples=1).over(**_IN_ORDER),
    "rolling_sum": N.rolling_sum(2, min_samples=1).over(**_IN_ORDER),
    "rolling_var": N.rolling_var(2, min_samples=1).over(**_IN_ORDER),
    "round": X.round(1),
    "shift": N.shift(1).over(**_IN_ORDER),
    "sin": X.sin(),
    "sqrt": (N * 1.0).sqrt(),
    "//": N // 2,
    "%": -N % 3,
    "/": N / 2,
    "**": N**2,
    "cast to text": N.cast(nw.String),
    "cast to integer": X.fill_nan(0.0).cast(nw.Int64),
    "when": nw.when(N > 1).then(nw.lit("many")).otherwise(nw.lit("few")),
    "coalesce": nw.coalesce(N, nw.col("id")),
    "concat_str": nw.concat_str(KIND, TEXT, separator="-"),
    "struct": nw.struct("id", "n"),
    "sum_horizontal": nw.sum_horizontal("id", "n"),
    "mean_horizontal": nw.mean_horizontal("id", "n"),
    "min_horizontal": nw.min_horizontal("id", "n"),
    "max_horizontal": nw.max_horizontal("id", "n"),
    "all_horizontal": nw.all_horizontal(N > 1, X > 1, ignore_nulls=False),
    "any_horizontal": nw.any_horizontal(N > 1, X > 1, ignore_nulls=False),
    "str.contains": TEXT.str.contains("[xy]"),
    "str.ends_with": TEXT.str.ends_with("y"),
    "str.head": TEXT.str.head(2),
    "str.len_chars": TEXT.str.len_chars(),
    "str.pad_end": TEXT.str.pad_end(6, "-"),
    "str.pad_start": TEXT.str.pad_start(6, "-"),
    "str.replace": TEXT.str.replace("x", "z", n=1),
    "str.replace_all": TEXT.str.replace_all("x", "z"),
    "str.slice": TEXT.str.slice(1, 2),
    "str.split": TEXT.str.split(","),
    "str.starts_with": TEXT.str.starts_with(" "),
    "str.strip_chars": TEXT.str.strip_chars(),
    "str.tail": TEXT.str.tail(2),
    "str.to_date": nw.col("day").str.to_date("%Y-%m-%d"),
    "str.to_datetime": nw.col("day").str.to_datetime("%Y-%m-%d"),
    "str.to_lowercase": TEXT.str.to_lowercase(),
    "str.to_titlecase": TEXT.str.to_titlecase(),
    "str.to_uppercase": TEXT.str.to_uppercase(),
    "str.zfill": TEXT.str.zfill(6),
    "dt.convert_time_zone": nw.col("zoned").dt.convert_time_zone("Asia/Kathmandu"),
    "dt.date": AT.dt.date(),
    "dt.day": AT.dt.day(),
    "dt.hour": AT.dt.hour(),
    "dt.microsecond": AT.dt.microsecond(),
    "dt.millisecond": AT.dt.millisecond(),
    "dt.minute": AT.dt.minute(),
    "dt.month": AT.dt.month(),
    "dt.offset_by": AT.dt.offset_by("1d"),
    "dt.ordinal_day": AT.dt.ordinal_day(),
    "dt.replace_time_zone": nw.col("zoned").dt.replace_time_zone(None),
    "dt.second": AT.dt.second(),
    "dt.timestamp": AT.dt.timestamp("us"),
    "dt.to_string": AT.dt.to_string("%Y/%m/%d %H:%M"),
    "dt.total_minutes": (AT - AT.min().over("one")).dt.total_minutes(),
    "dt.truncate": AT.dt.truncate("1mo"),
    "dt.weekday": AT.dt.weekday(),
    "dt.year": AT.dt.year(),
    "list.contains": TAGS.list.contains("a"),
    "list.get": TAGS.list.get(0),
    "list.len": TAGS.list.len(),
    "list.max": TAGS.list.max(),
    "list.sort": TAGS.list.sort(),
    "list.unique": TAGS.list.unique().list.sort(),
    "struct.field": DEVICE.struct.field("os"),
}
# Expressions that aggregate a column into one value.
AGGREGATE: dict[str, nw.Expr] = {
    "all": (N > 0).all(),
    "any": (N > 2).any(),
    "any_value": nw.col("one").any_value(),
    "count": N.count(),
    "kurtosis": N.kurtosis(),
    "len": N.len(),
    "max": N.max(),
    "mean": N.mean(),
    "median": N.median(),
    "min": N.min(),
    "n_unique": KIND.n_unique(),
    "null_count": N.null_count(),
    "quantile": N.quantile(0.25, interpolation="linear"),
    "skew": N.skew(),
    "std": N.std(),
    "sum": N.sum(),
    "unique": KIND.unique().len(),
    "var": N.var(),
    "corr": nw.corr("id", "n"),
    "cov": nw.cov("id", "n"),
}


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
        catalog_of(on_duckdb).connection.execute("SET TimeZone = 'UTC'")
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


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FRAME if name not in listed()])
def test_frame_method_returns_the_same_rows_on_both_engines(lakes: tuple[Lake, Lake], name: str) -> None:
    on_duckdb, on_spark = (outcome(lake, FRAME[name]) for lake in lakes)
    assert on_duckdb[1]
    assert on_duckdb == on_spark


@pytest.mark.slow
@pytest.mark.parametrize("is_aggregate", [False, True])
def test_expressions_return_the_same_values_on_both_engines(lakes: tuple[Lake, Lake], is_aggregate: bool) -> None:
    expressions = unlisted(AGGREGATE if is_aggregate else EXPRESSION)
    verb = lambda f, _: f.select(*([] if is_aggregate else ["id"]), **expressions)  # noqa: E731 - consistent with the other cases
    (names, on_duckdb), (_, on_spark) = (outcome(lake, verb) for lake in lakes)
    assert set(names) - {"id"} == set(expressions)
    by_duckdb, by_spark = (dict(zip(names, zip(*rows, strict=True), strict=True)) for rows in (on_duckdb, on_spark))
    assert {name: (by_duckdb[name], by_spark[name]) for name in names if by_duckdb[name] != by_spark[name]} == {}


@pytest.mark.slow
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
