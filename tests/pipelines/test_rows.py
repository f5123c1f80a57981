"""Rows of a model: its inputs from tables, views, change feeds and other lake, files, and failing models."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest
from local_stores import store_of

from lakeconf.errors import PipelineError, QueryError, SchemaError
from lakeconf.pipelines.file_rows import files_of
from lakeconf.pipelines.intervals import Batch
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Interval, Kind, Merge, Seed, View
from lakeconf.pipelines.models.model import Model, model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.rows import FEED, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with the table raw.a: in snapshot 2 it has the ids 1 and 2; later 2 becomes 5, 1 is deleted, 3 added."""
    with store_of(tmp_path_factory.mktemp("own")).open() as own:
        table = own.create_table("raw.a", {"id": "BIGINT"})
        table.append(own.sql("SELECT CAST(unnest([1, 2]) AS BIGINT) AS id"))
        own.table("raw.a").update({"id": 5}, "id = 2")
        own.table("raw.a").delete("id = 1")
        own.table("raw.a").append(own.sql("SELECT CAST(3 AS BIGINT) AS id"))
        assert own.snapshot_id == 5
        yield own


def fetched(frame: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    native: Any = frame.to_native()
    return sorted(native.fetchall(), key=repr)


def rows(lake: Lake, made: Model, *others: Model, batch: Batch | None = None, **given: Any) -> Any:
    given["files"] = files_of(made, given.get("files", ()))
    return fetched(rows_of(Pipeline([made, *others]), made, lake, batch, **given))


def table(kind: Kind, sql: str | None = "SELECT id FROM raw.a", **given: Any) -> Model:
    return Model("marts.t", kind, None if sql is None else Query(sql), **given)


# Inputs.


@pytest.mark.slow
def test_append_reads_inserted_rows_only_of_its_driving_input(lake: Lake) -> None:
    made = table(Append(), "SELECT * FROM raw.a")
    assert rows(lake, made) == [(3,), (5,)]
    assert rows(lake, made, since=2) == [(3,)]
    assert rows(lake, made, since=1) == [(1,), (2,), (3,)]
    made = table(Append(new_rows_of="new"), "SELECT new.*, a.id AS other FROM new, raw.a", inputs={"new": "raw.a"})
    assert rows(lake, made, since=2) == [(3, 3), (3, 5)]
    assert rows(lake, made, since=0) == rows(lake, made, since=1) != rows(lake, made)


def test_merge_reads_the_change_feed(lake: Lake) -> None:
    made = table(Merge("id", changes_of="raw.a"), "SELECT id, change_type, snapshot_id, rowid FROM raw.a")
    first = rows(lake, made)
    assert [(id_, change, version) for id_, change, version, _ in first] == [(3, "insert", 5), (5, "insert", 5)]
    assert {row for *_, row in first} == {None}
    changes = rows(lake, made, since=3)
    assert [(id_, change, version) for id_, change, version, _ in changes] == [(1, "delete", 4), (3, "insert", 5)]
    assert None not in {row for *_, row in changes}
    assert len(rows(lake, made, since=2)) == 4


def test_delta_reads_changed_rows_without_the_columns_of_the_feed(lake: Lake) -> None:
    delta = {"raw.a": lake.table("raw.a").changes(4).drop(*FEED)}
    assert rows(lake, table(Full(), "SELECT * FROM raw.a"), delta=delta) == [(1,), (3,)]
    view = Model("v.a", View(), Query("SELECT id + 1 AS id FROM raw.a"))
    assert rows(lake, table(Full(), "SELECT * FROM v.a"), view, delta=delta) == [(2,), (4,)]


def test_views_are_computed_by_their_readers(lake: Lake) -> None:
    @model("v.b", View())
    def above(a: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return a.filter(nw.col("id") > 3)

    view = Model("v.a", View(), Query("SELECT id FROM raw.a"))
    assert rows(lake, table(Full(), "SELECT * FROM v.b"), above, view) == [(5,)]


# Bounds.


def test_bounds_are_dates_if_intervals_are_whole_days(lake: Lake) -> None:
    midnight, five, next_day = datetime(2024, 1, 1), datetime(2024, 1, 1, 5), datetime(2024, 1, 2)
    seen: list[date] = []

    def made(a: Any, start: date, end: date) -> Any:
        seen[:] = [start, end]
        return a

    cases: list[tuple[Interval, datetime, list[date]]] = [
        ("day", next_day, [midnight.date(), next_day.date()]),
        ("day", five, [midnight, five]),
        ("hour", next_day, [midnight, next_day]),
    ]
    for interval, until, expected in cases:
        of_interval = model("marts.t", Incremental("day", interval), inputs={"a": "raw.a"})(made)
        assert rows(lake, of_interval, batch=Batch(midnight, until, until)) == [(3,), (5,)]
        assert (seen, [*map(type, seen)]) == (expected, [*map(type, expected)])


# Files.


def test_seed_has_the_types_of_its_columns_and_files_are_the_first_input_of_a_body(tmp_path: Path, lake: Lake) -> None:
    (tmp_path / "s's.csv").write_text("sku,price\n007,29.99\n")
    assert rows(lake, table(Seed("s's.csv"), None, folder=tmp_path)) == [("007", 29.99)]
    typed = Seed("s's.csv", {"sku": "INTEGER", "price": "DECIMAL(8,2)"})
    assert rows(lake, table(typed, None, folder=tmp_path)) == [(7, Decimal("29.99"))]
    (tmp_path / "a.csv").write_text("id\n3\n4\n")
    sql = "SELECT files.id, a.id AS other FROM files LEFT JOIN raw.a ON files.id = a.id"
    assert rows(lake, table(Append(files="*"), sql, folder=tmp_path), files=["a.csv"]) == [(3, 3), (4, None)]


def test_files_that_cannot_be_loaded_together(tmp_path: Path, lake: Lake) -> None:
    for files, said in (
        (["a.csv", "b.json"], "csv, json cannot be loaded together"),
        (["a.txt"], "txt cannot be loaded"),
        (["a"], "a cannot be loaded"),
    ):
        with pytest.raises(PipelineError) as caught:
            rows(lake, table(Append(files="*"), None, folder=tmp_path), files=files)
        assert caught.value.message == f"files that end in {said}"
        assert caught.value.hint == "use files of one type: parquet, csv, json"
    with pytest.raises(PipelineError) as caught:
        rows(lake, table(Full(), None))
    assert caught.value.message == "the model marts.t has neither code nor files"
    assert caught.value.hint == "add sql or files, or declare it in Python"


# Failing models.


def test_error_of_a_function_has_its_place(lake: Lake) -> None:
    @model("marts.t", Full(), inputs={"a": "raw.a"})
    def failing(a: Any) -> Any:
        Fraction("no such thing")  # the error is raised in another file

    with pytest.raises(PipelineError) as caught:
        rows(lake, failing)
    pattern = r"\S*test_rows\.py:\d+: the model marts\.t failed: ValueError: Invalid literal for Fraction: .*"
    assert re.fullmatch(pattern, caught.value.message)

    @model("marts.t", Full(), inputs={"a": "raw.a"})
    def refusing(a: Any) -> Any:
        raise SchemaError("not this one")

    with pytest.raises(SchemaError, match=r"^not this one$"):
        rows(lake, refusing)
    with pytest.raises(QueryError, match="nothing"):
        rows(lake, table(Full(), "SELECT nothing FROM raw.a"))


def test_eager_frame_of_a_model_becomes_lazy(lake: Lake) -> None:
    @model("marts.t", Full(), inputs={"a": "raw.a"})
    def eager(a: nw.LazyFrame[Any]) -> Any:
        return a.collect("pyarrow")

    found = rows_of(Pipeline([eager]), eager, lake)
    assert isinstance(found, nw.LazyFrame)
