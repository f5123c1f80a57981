"""Writes of a model in an open transaction: each kind, the table that it creates, its time range, and errors."""

from __future__ import annotations

import tomllib
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from promotions import rows

from lakeconf.errors import AuditError, PredicateError, SchemaError
from lakeconf.pipelines import Append, Model, Pipeline, plan, run
from lakeconf.pipelines.intervals import Batch
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.kinds import Full, Incremental, Kind, Merge
from lakeconf.pipelines.plan import Step
from lakeconf.pipelines.step_run import split_deleted, write

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.errors import LakeconfError


JANUARY = Batch(datetime(2024, 1, 1), datetime(2024, 2, 1), datetime(2024, 2, 1))


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """A lake with the table `marts.t`, which has the rows (1, 'a') and (2, 'b')."""
    found = lake.sql("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(id, name)")
    lake.create_table("marts.t", found).append(found)
    return lake


def written(lake: Lake, kind: Kind, sql: str, batch: Batch | None = None, **given: Any) -> list[tuple[Any, ...]]:
    """Writes the rows of a query, and returns the rows of the table."""
    rebuild = given.pop("rebuild", False)
    made = Model(given.pop("table", "marts.t"), kind, Query(sql), **given)
    step = Step(made, "", rebuild=rebuild)
    with lake.transaction() as transaction:
        frame = transaction.sql(sql)
        write(transaction, step, frame, batch)
    return rows(lake, made.table)


def test_merge_deletes_marked_keys_and_inserts_none_of_them(lake: Lake) -> None:
    sql = "SELECT * FROM (VALUES (1, NULL, true), (3, 'c', false), (4, 'd', true)) AS t(id, name, gone)"
    assert written(lake, Merge("id", deleted="gone"), sql) == [(2, "b"), (3, "c")]
    assert list(lake.table("marts.t").schema) == ["id", "name"]
    assert written(lake, Merge(["id"], deleted="gone"), sql, rebuild=True) == [(3, "c")]
    frame = lake.sql("SELECT * FROM (VALUES (1, 2, true), (3, 4, false)) AS t(a, b, gone)")
    assert split_deleted(Merge("a"), frame) == (frame, None)
    kept, deleted = split_deleted(Merge(["b", "a"], deleted="gone"), frame)
    assert deleted is not None
    assert [one.collect("pyarrow").rows() for one in (kept, deleted)] == [[(3, 4)], [(2, 1)]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Full(), Append(), Merge("id")], ids=repr)
def test_new_columns_are_added_and_types_widened(kind: Kind, lake: Lake) -> None:
    sql = "SELECT CAST(3 AS BIGINT) AS id, 'c' AS name, DATE '2024-01-05' AS day"
    assert written(lake, kind, sql, JANUARY)[-1] == (3, "c", date(2024, 1, 5))
    assert lake.table("marts.t").schema == {"id": "BIGINT", "name": "VARCHAR", "day": "DATE"}


def test_missing_table_is_created_with_its_partitions_and_comment(lake: Lake) -> None:
    given: dict[str, Any] = {"table": "new.t", "partitioned_by": ["day"], "comment": "It's new."}
    sql = "SELECT 1 AS id, DATE '2024-01-05' AS day"
    assert written(lake, Full(), sql, **given) == [(1, date(2024, 1, 5))]
    (file,) = lake.table("new.t").files()
    assert file.partition == ("2024-01-05",)
    native: Any = lake.sql("SELECT comment FROM duckdb_tables() WHERE schema_name = 'new'").to_native()
    assert native.fetchall() == [("It's new.",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("DATE", "2024-01-01", "2024-01-31"),
        ("TIMESTAMP", "2024-01-01 00:00:00", "2024-01-31 23:59:59.999999"),
        ("TIMESTAMPTZ", "2024-01-01 00:00:00+00:00", "2024-01-31 23:59:59.999999+00:00"),
    ],
)
def test_incremental_model_replaces_exactly_its_range(kind: str, first: str, last: str, lake: Lake) -> None:
    """The range contains its start and not its end, in UTC, whatever the type of the column."""
    before, after = ("2023-12-31 23:59:59+00", "2024-02-01 00:00:00+00")
    old = f"SELECT CAST(unnest(['{before}', '{first}', '{last}', '{after}']) AS {kind}) AS \"A t\", 0 AS n"
    with lake.transaction() as transaction:
        frame = transaction.sql(old)
        transaction.create_table("marts.days", frame).append(frame)
    sql = f"SELECT CAST('2024-01-15 00:00:00+00:00' AS {kind}) AS \"A t\", CAST(1 AS BIGINT) AS n, 'x' AS note"
    made = Model("marts.days", Incremental("a T"), Query(sql))
    with lake.transaction() as transaction:
        write(transaction, Step(made, ""), transaction.sql(sql), JANUARY)
    native: Any = lake.sql('SELECT n FROM marts.days ORDER BY "A t"').to_native()
    assert native.fetchall() == [(0,), (1,), (0,)]


def test_row_outside_the_range_is_refused(lake: Lake) -> None:
    for day in ("2023-12-31", "2024-02-01"):
        with pytest.raises(PredicateError, match="of the frame do not satisfy"):
            written(lake, Incremental("day"), f"SELECT DATE '{day}' AS day", JANUARY, table="marts.days")
    assert lake.tables() == ["marts.t"]
    assert written(lake, Incremental("day"), "SELECT 3 AS id, 'c' AS name") == [(3, "c")], "without a range, all rows"


@pytest.mark.slow
@pytest.mark.parametrize("partial", [False, True])
def test_range_of_days(lake: Lake, partial: bool) -> None:
    """A DATE has no hours: a range of hours would be one of days, and delete rows outside it."""
    query = "SELECT ts::DATE AS day, n FROM raw.events WHERE ts >= $start AND ts < $end"
    with lake.transaction() as transaction:
        made = transaction.create_table("raw.events", {"ts": "TIMESTAMP", "n": "INTEGER"})
        made.append([{"ts": datetime(2024, 1, 1, hour), "n": hour} for hour in (5, 11)])
    hours = Pipeline([Model("marts.h", Incremental("day", start=date(2024, 1, 1), interval="hour"), Query(query))])
    (failed,) = run(hours, lake, until=datetime(2024, 1, 1, 6))
    assert isinstance(failed.error, SchemaError)
    assert failed.error.message == "the time column 'day' of the model marts.h is a DATE, which has no hours"
    days = Pipeline([Model("marts.d", Incremental("day", start=date(2024, 1, 1), partial=partial), Query(query))])
    for hour, count in ((6, 1), (12, 2)):
        (done,) = run(days, lake, until=datetime(2024, 1, 1, hour))
        assert (done.error, done.rows) == (None, count if partial else 0)
    run(days, lake, until=date(2024, 1, 2))
    assert lake.table("marts.d").count() == 2


@pytest.mark.slow
def test_keys_of_a_merge_are_neither_null_nor_written_twice(lake: Lake) -> None:
    twice = "SELECT unnest([7, 7])::INTEGER AS id, 'x' AS name"
    both = "SELECT 1 AS id, 'x' AS name, unnest([true, false]) AS gone"
    for kind, query, rebuild, message in (
        (Merge(["id"]), "SELECT NULL::INTEGER AS id, 'x' AS name", True, "the audit 'the key id is not NULL' found 1"),
        (Merge("id"), twice, True, "the audit 'the key id is unique' found 1 row"),
        (Merge("id"), twice, False, ""),
        (Merge("id", update=False), twice, True, "the audit 'the key id is unique' found 1 row"),
        (Merge("id", update=False), twice, False, ""),
        (Merge("id", deleted="gone"), both, True, "the rows of the model marts.t write and delete the same id"),
    ):
        (failed,) = run(Pipeline([Model("marts.t", kind, Query(query))]), lake, rebuild=rebuild)
        assert failed.error is not None
        assert failed.error.message.startswith(message)
        if message.startswith("the audit"):
            assert isinstance(failed.error, AuditError)
    assert lake.table("marts.t").count() == 2


@pytest.mark.slow
def test_interval_of_which_a_run_wrote_a_part_is_not_done(lake: Lake) -> None:
    lake.create_table("raw.events", {"ts": "TIMESTAMP"}).append(
        [{"ts": datetime(2024, 1, day, hour)} for day in (1, 2) for hour in (0, 9)]
    )
    query = "SELECT ts::DATE AS day, count(*) AS n FROM raw.events WHERE ts >= $start AND ts < $end GROUP BY ALL"
    kind = Incremental("day", start=date(2024, 1, 1), partial=True)
    pipeline, until = Pipeline([Model("marts.d", kind, Query(query))]), date(2024, 1, 3)
    run(pipeline, lake, until=until)
    run(pipeline, lake, since=date(2024, 1, 1), until=datetime(2024, 1, 2, 1))
    assert [row["n"] for row in lake.table("marts.d").to_arrow().sort_by("day").to_pylist()] == [2, 1]
    assert plan(pipeline, lake, until=until)[0].reason == "missing: 2024-01-02 to 2024-01-03"
    run(pipeline, lake, until=until)
    assert [row["n"] for row in lake.table("marts.d").to_arrow().sort_by("day").to_pylist()] == [2, 2]
    assert plan(pipeline, lake, until=until)[0].reason == "all intervals are done"


def failed(lake: Lake, model: Model) -> LakeconfError:
    (result,) = run(Pipeline([model]), lake)
    assert result.error is not None
    return result.error


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "id,note\nabc,x\n",
            "2.csv: the frame's column 'id' is VARCHAR, but in raw.t it is BIGINT, which cannot hold all its values",
            'set id = "BIGINT" in columns of the model, next to the other columns, if all values have this type',
        ),
        (
            "id\n2\n",
            "2.csv: this would drop the column note of raw.t",
            "declare the columns of the files, so that rows without a column have NULL: "
            'columns = { id = "BIGINT", note = "VARCHAR" }; '
            'or, to delete the column and its values, write dropped = ["note"] in the model',
        ),
    ],
)
def test_file_that_does_not_fit_its_table_is_named(
    text: str, message: str, hint: str, lake: Lake, tmp_path: Path
) -> None:
    model = Model("raw.t", Append(files="*.csv"), folder=tmp_path)
    (tmp_path / "1.csv").write_text("id,note\n1,x\n")
    assert run(Pipeline([model]), lake)[0].status == "done"
    (tmp_path / "2.csv").write_text(text)
    error = failed(lake, model)
    assert (error.message, error.hint) == (message, hint)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "body"), [("csv", None), ("csv", Query("FROM files")), ("json", Query("FROM files")), ("parquet", None)]
)
def test_declared_columns_keep_the_rows_of_files_without_a_column(
    ending: str, body: Query | None, lake: Lake, tmp_path: Path
) -> None:
    """What the hint says, for files that lose a column: the rows of all files stay as they are."""

    def put(number: int, sql: str) -> None:
        duckdb.sql(f"COPY ({sql}) TO '{tmp_path / f'{number}.{ending}'}'")

    put(1, "SELECT 1::BIGINT AS id, 'x' AS note")
    assert run(Pipeline([Model("raw.t", Append(files=f"*.{ending}"), body, folder=tmp_path)]), lake)[0].status == "done"
    put(2, "SELECT 2::BIGINT AS id")
    error = failed(lake, Model("raw.t", Append(files=f"*.{ending}"), body, folder=tmp_path))
    declared = tomllib.loads(str(error.hint).partition(": ")[2].partition(";")[0])["columns"]
    model = Model("raw.t", Append(files=f"*.{ending}", columns=declared), body, folder=tmp_path)
    (result,) = run(Pipeline([model]), lake)
    assert result.status == "done", result.error
    assert sorted(lake.table("raw.t").scan().collect("pyarrow").rows()) == [(1, "x"), (2, None)]
    put(3, "SELECT 3::BIGINT AS id, 'z' AS nota")
    assert "3." in failed(lake, model).message


LATER = {
    "another column": ("1::BIGINT AS a", "'new' AS b", {"a": "BIGINT", "b": "VARCHAR"}),
    "a wider type": ("1::BIGINT AS a, 1::INTEGER AS n", "2::BIGINT AS n", {"a": "BIGINT", "n": "BIGINT"}),
    "a new field": (
        "{'x': 1::BIGINT} AS s, 1::BIGINT AS a",
        "{'y': 'new'} AS s",
        {"s": "STRUCT(x BIGINT, y VARCHAR)", "a": "BIGINT"},
    ),
}


@pytest.mark.parametrize("case", LATER)
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_hint_for_files_without_a_column_names_also_what_they_add(
    case: str, ending: str, lake: Lake, tmp_path: Path
) -> None:
    first, second, expected = LATER[case]
    if ending == "csv" and "STRUCT" in str(expected):
        return  # DuckDB infers no struct from a CSV file
    for number, sql in enumerate((first, second)):
        duckdb.sql(f"COPY (SELECT {number}::BIGINT AS id, {sql}) TO '{tmp_path / f'{number}.{ending}'}'")
        model = Model("raw.t", Append(files=f"*.{ending}"), folder=tmp_path)
        if number == 0:
            assert run(Pipeline([model]), lake)[0].status == "done"
    declared = tomllib.loads(str(failed(lake, model).hint).partition(": ")[2].partition("; or")[0])["columns"]
    if ending == "parquet" or case != "a wider type":
        assert declared == {"id": "BIGINT", **expected}
    (result,) = run(Pipeline([Model("raw.t", Append(files=f"*.{ending}", columns=declared), folder=tmp_path)]), lake)
    assert result.status == "done", result.error
    assert lake.table("raw.t").count() == 2
    assert lake.table("raw.t").schema == declared


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_new_nested_fields_of_files_become_fields_of_the_table(ending: str, lake: Lake, tmp_path: Path) -> None:
    model = Model("raw.t", Append(files=f"*.{ending}"), folder=tmp_path)
    structs = ("{'a': 1}", "{'a': 2, 'b': [{'c': 3, 'd': 'x'}]}", "{'b': [{'c': 4, 'd': 'y', 'e': 'z'}]}")
    for number, struct in enumerate(structs[:2]):
        duckdb.sql(f"COPY (SELECT {number}::BIGINT AS id, {struct} AS s) TO '{tmp_path / f'{number}.{ending}'}'")
        (result,) = run(Pipeline([model]), lake)
        assert result.status == "done", result.error
    duckdb.sql(f"COPY (SELECT 2::BIGINT AS id, {structs[2]} AS s) TO '{tmp_path / f'2.{ending}'}'")
    declared = tomllib.loads(str(failed(lake, model).hint).removeprefix("set ").partition(" in columns")[0])
    columns = {"id": "BIGINT", **declared}
    (result,) = run(Pipeline([Model("raw.t", Append(files=f"*.{ending}", columns=columns), folder=tmp_path)]), lake)
    assert result.status == "done", result.error
    rows = lake.table("raw.t").scan().collect("pyarrow").to_native().sort_by("id")["s"].to_pylist()
    assert rows == [
        {"a": 1, "b": None},
        {"a": 2, "b": [{"c": 3, "d": "x", "e": None}]},
        {"a": None, "b": [{"c": 4, "d": "y", "e": "z"}]},
    ]
