"""Files that models load: no column or key is left out, no value rounded, and errors name the file and the column."""

from __future__ import annotations

import contextlib
import json
import socket
from decimal import Decimal
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from promotions import rows as rows_of

from lakeconf import Lake
from lakeconf.errors import LakeconfError, PipelineError, SchemaError
from lakeconf.pipelines import Append, Model, ModelResult, Pipeline, Query, Seed, plan, run
from lakeconf.pipelines.file_rows import unknown_fields, unknown_json_keys
from lakeconf.pipelines.file_values import is_guessed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


TYPES = {"id": "BIGINT", "price": "DECIMAL(10,2)"}
SAMPLE_ROWS = 20480  # from which DuckDB infers the types of JSON and CSV files


def written(path: Path, sql: str) -> None:
    duckdb.sql(sql).create_view("rows_to_write", replace=True)
    duckdb.sql(f"COPY rows_to_write TO '{path}'")


def loaded(
    lake: Lake, folder: Path, files: str, columns: Mapping[str, str] | None = None, sql: str | None = None
) -> ModelResult:
    body = None if sql is None else Query(sql)
    (result,) = run(Pipeline([Model("raw.t", Append(files=files, columns=columns or {}), body, folder=folder)]), lake)
    return result


def load(*arguments: Any) -> None:
    result = loaded(*arguments)
    assert result.status == "done", result.error


def refused(*arguments: Any) -> SchemaError | PipelineError:
    result = loaded(*arguments)
    assert result.status == "failed"
    assert isinstance(result.error, (SchemaError, PipelineError)), result.error
    return result.error


rows = partial(rows_of, table="raw.t")


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_column_of_a_file_that_is_not_in_columns_is_refused(ending: str, lake: Lake, tmp_path: Path) -> None:
    written(tmp_path / f"1.{ending}", "SELECT 1 AS id, 2.5 AS price")
    written(tmp_path / f"2.{ending}", "SELECT 2 AS id, 3.5 AS price, 'late' AS note")
    error = refused(lake, tmp_path, f"*.{ending}", TYPES)
    assert error.message == f"2.{ending} has the column 'note', which is not in columns of raw.t"
    assert error.hint == (
        'add note = "VARCHAR" to columns; to leave it out, select the other columns FROM files in the SQL of the model'
    )
    assert lake.tables() == []
    # What the hint says.
    columns = {**TYPES, "note": "VARCHAR"}
    load(lake, tmp_path, f"*.{ending}", columns, "SELECT id, price FROM files")
    assert rows(lake) == [(1, Decimal("2.50")), (2, Decimal("3.50"))]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_columns_in_another_order_are_loaded(ending: str, lake: Lake, tmp_path: Path) -> None:
    written(tmp_path / f"1.{ending}", "SELECT 2.5 AS price, 1 AS id")
    written(tmp_path / f"2.{ending}", "SELECT 2 AS id, 3.5 AS price")
    load(lake, tmp_path, f"*.{ending}", TYPES)
    assert rows(lake) == [(1, Decimal("2.50")), (2, Decimal("3.50"))]


def test_names_of_columns_ignore_case_except_in_json(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.CSV").write_text("ID,Price\n1,2.5\n")
    load(lake, tmp_path, "*.CSV", TYPES)
    assert rows(lake) == [(1, Decimal("2.50"))]
    (tmp_path / "1.json").write_text('{"ID": 1, "price": 2.5}\n')
    lake.drop_table("raw.t")
    failed = loaded(lake, tmp_path, "*.json", TYPES)
    assert "1.json has the column 'ID', which is not in columns of raw.t" in str(failed.error)


def test_column_that_only_a_later_csv_file_has_is_loaded(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id\n1\n")
    (tmp_path / "2.csv").write_text("id,note\n2,late\n")
    load(lake, tmp_path, "*.csv")
    assert rows(lake) == [(1, None), (2, "late")]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_column_is_an_error_that_names_the_file(ending: str, lake: Lake, tmp_path: Path) -> None:
    written(tmp_path / f"1.{ending}", "SELECT 1 AS id")
    error = refused(lake, tmp_path, f"*.{ending}", TYPES)
    assert error.message == f"1.{ending} lacks the column 'price' of raw.t"
    assert error.hint == "remove it from columns, or use one of the columns of the file: id"


TEXTS = [
    ("DECIMAL(10,2)", ["2.5", "-2.50000", "1e2", "25e-1", "0.000", "1234567.89", "100.00e-4", ""], "2.555"),
    ("DECIMAL(10,2)", ["100e-4"], "1e-3"),
    ("DECIMAL(38,2)", ["123456789012345678901234567890.12"], "123456789012345678901234567890.001"),
    ("BIGINT", ["7", "-7", "9223372036854775807"], "2.7"),
    ("HUGEINT", ["7", "-9007199254740992"], "0.5"),
    ("DATE", ["2024-01-01", "2024-01-01 00:00:00", "2024-01-01T00:00:00.000"], "2024-01-01 12:30:00"),
    ("TIMESTAMP", ["2024-01-01 12:00:00.123456000"], "2024-01-01 12:00:00.1234567"),
    ("TIME", ["12:00:00.123456"], "12:00:00.1234567"),
    ("DOUBLE", ["1e300", "0.5", "0e400", "infinity", "-1.5e-300"], "1e400"),
    ("DOUBLE", ["7"], "1.5e-400"),
    ("DOUBLE", ["12345678901234568.0"], "12345678901234567.0"),
    ("BIGINT[]", ["[1, 2]", "[9223372036854775807]"], "[1, 2.7]"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "text"), list(product(["csv", "json"], TEXTS)))
def test_value_of_a_text_that_its_type_would_round_is_refused(
    ending: str, text: tuple[str, list[str], str], lake: Lake, tmp_path: Path
) -> None:
    kind, good, bad = text

    def put(name: str, values: list[str]) -> None:
        if ending == "csv":
            text = "id,v\n" + "".join(f'1,"{value}"\n' for value in values)
        else:
            quote = "" if kind.endswith("[]") else '"'
            text = "".join(f'{{"id": 1, "v": {quote}{value}{quote}}}\n' for value in values if value)
        (tmp_path / name).write_text(text)

    columns = {"id": "INTEGER", "v": kind}
    put(f"1.{ending}", good)
    load(lake, tmp_path, f"*.{ending}", columns)
    expected = [None if value == "" else value for value in good if value or ending == "csv"]
    native: Any = lake.sql("SELECT v FROM raw.t").to_native()
    cast = duckdb.sql(f"SELECT CAST(unnest(?) AS {kind})", params=[expected])
    assert sorted(map(str, native.fetchall())) == sorted(map(str, cast.fetchall()))
    put(f"2.{ending}", [*good, bad])
    error = refused(lake, tmp_path, f"*.{ending}", columns)
    value = "[1.0, 2.7]" if kind == "BIGINT[]" else bad
    assert error.message == (
        f"the column 'v' of 2.{ending} has the value {value!r}, which its type {kind} would change"
    )
    assert lake.table("raw.t").count() == len(expected)


def test_rounding_is_explicit_in_sql(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,price\n1,2.555\n")
    error = refused(lake, tmp_path, "*.csv", TYPES)
    assert error.hint == (
        'set a type that holds it in columns, such as price = "DECIMAL(38, 10)"; to round it, also cast it in the '
        'SQL of the model: SELECT CAST("price" AS DECIMAL(10,2)) FROM files'
    )
    columns = {**TYPES, "price": "DECIMAL(38, 10)"}
    sql = "SELECT id, CAST(price AS DECIMAL(10, 2)) AS price FROM files"
    load(lake, tmp_path, "*.csv", columns, sql)
    assert rows(lake) == [(1, Decimal("2.56"))]


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_number_after_the_sample_is_not_rounded_to_the_inferred_type(ending: str, lake: Lake, tmp_path: Path) -> None:
    count = 15 * SAMPLE_ROWS
    head, row, last = ("id\n", "1\n", "2.7\n") if ending == "csv" else ("", '{"id": 1}\n', '{"id": 2.7}\n')
    (tmp_path / f"1.{ending}").write_text(head + row * count)
    load(lake, tmp_path, f"*.{ending}")
    (tmp_path / f"2.{ending}").write_text(head + row * count + last)
    error = refused(lake, tmp_path, f"*.{ending}")
    message = f"the column 'id' of 2.{ending} has the value '2.7', which its type BIGINT would change"
    assert error.message == message
    assert lake.table("raw.t").count() == count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "kind", "is_exact"),
    [
        (pa.array([2.5]), "DECIMAL(10,2)", True),
        (pa.array([2.555]), "DECIMAL(10,2)", False),
        (pa.array([Decimal("2.555")]), "DECIMAL(10,2)", False),
        (pa.array([2.7]), "BIGINT", False),
        (pa.array([2.0, None]), "BIGINT", True),
        (pa.array([0.1]), "FLOAT", False),
        (pa.array([2**53 + 1]), "DOUBLE", False),
        (pa.array([1_000_001], pa.timestamp("us")), "DATE", False),
        (pa.array([1], pa.timestamp("ns")), "TIMESTAMP", False),
        (pa.array([1000], pa.timestamp("ns")), "TIMESTAMP", True),
        (pa.array([[1.5]]), "INTEGER[]", False),
        (pa.array([{"a": 1.5}]), "STRUCT(a DECIMAL(4,1))", True),
        (pa.array(["2.7"]), "BIGINT", False),
        (pa.array(["2.70"]), "DECIMAL(10,1)", True),
        (pa.array([2.7]), "VARCHAR", True),
        (pa.array(["24/01/02"]), "TIMESTAMP", False),
        # In JSON.
        ("[1.5, 9007199254740993]", "", False),
        ("[9007199254740993]", "DOUBLE[]", False),
        ("[9007199254740992, null]", "DOUBLE[]", True),
        ("[16777217]", "FLOAT[]", False),
        (f"[{10**40}]", "FLOAT[]", False),
        (f"[{10**400}]", "DOUBLE[]", False),
        ('{"id": 9007199254740993, "x": 12345678}', "STRUCT(id BIGINT, x DOUBLE)", True),
        ('{"id": 9007199254740993}', "MAP(VARCHAR, DOUBLE)", False),
    ],
)
def test_value_of_a_file_that_its_type_would_round_is_refused(
    value: str | pa.Array, kind: str, is_exact: bool, lake: Lake, tmp_path: Path
) -> None:
    if isinstance(value, str):
        (tmp_path / "1.json").write_text(f'{{"v": {value}}}\n')
    else:
        pq.write_table(pa.table({"v": value}), tmp_path / "1.parquet")
    result = loaded(lake, tmp_path, "1.*", {"v": kind} if kind else {})
    if is_exact:
        assert result.status == "done", result.error
    else:
        reasons = (f"which its type {kind} would change", "which is no TIMESTAMP in ISO 8601", "more than 15 digits")
        assert any(reason in str(result.error) for reason in reasons), result.error
        assert lake.tables() == []


def test_seed_is_not_rounded_either(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,price\n1,2.555\n")

    def seeded(columns: Mapping[str, str]) -> str:
        (result,) = run(Pipeline([Model("raw.t", Seed("s.csv", columns), folder=tmp_path)]), lake)
        return str(result.error)

    message = "the column 'price' of s.csv has the value '2.555', which its type DECIMAL(10,2) would change"
    assert message in seeded(TYPES)
    assert "s.csv has the column 'price', which is not in columns of raw.t" in seeded({"id": "BIGINT"})


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_empty_file_and_folder_are_named(ending: str, lake: Lake, tmp_path: Path) -> None:
    written(tmp_path / f"1.{ending}", "SELECT 1 AS id")
    (tmp_path / f"2.{ending}").touch()
    error = refused(lake, tmp_path, f"*.{ending}")
    assert error.message == f"the file 2.{ending} is empty: it has no columns"
    (tmp_path / f"2.{ending}").unlink()
    (tmp_path / f"2.{ending}").mkdir()
    error = refused(lake, tmp_path, f"*.{ending}")
    assert error.message == f"2.{ending} is a folder, not a file"
    assert error.hint == (f'write files = "2.{ending}/*.{ending}" to load the files in it, or rename the folder')
    (tmp_path / f"2.{ending}").rmdir()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as unreadable:
        unreadable.bind(str(tmp_path / f"2.{ending}"))
        assert isinstance(loaded(lake, tmp_path, f"*.{ending}").error, LakeconfError)


@pytest.mark.parametrize("columns", [{}, {"id": "BIGINT", "d": "DATE"}], ids=["inferred", "declared"])
def test_date_whose_order_the_reader_would_guess_is_refused(
    columns: dict[str, str], lake: Lake, tmp_path: Path
) -> None:
    """The reader takes 03/04/2024 as 3 April in the first file and as 4 March in the second."""
    (tmp_path / "1.csv").write_text("id,d\n1,01/02/2024\n2,03/04/2024\n")
    (tmp_path / "2.csv").write_text("id,d\n3,01/25/2024\n4,03/04/2024\n")
    error = refused(lake, tmp_path, "*.csv", columns)
    assert error.message == ("the column 'd' of 1.csv has the value '01/02/2024', which is no DATE in ISO 8601")
    assert lake.tables() == []
    # What the hint says.
    sql = "SELECT id, CAST(strptime(d, '%m/%d/%Y') AS DATE) AS d FROM files"
    load(lake, tmp_path, "*.csv", {"id": "BIGINT", "d": "VARCHAR"}, sql)
    assert [(one.month, one.day) for _, one in rows(lake)] == [(1, 2), (3, 4), (1, 25), (3, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["TIMESTAMPTZ", "TIMETZ", "TIMESTAMPTZ[]", "STRUCT(a TIMESTAMPTZ)"])
def test_unreadable_time_with_a_zone_is_not_null(kind: str, lake: Lake, tmp_path: Path) -> None:
    value = {"TIMESTAMPTZ[]": "[x]", "STRUCT(a TIMESTAMPTZ)": "{'a': x}"}.get(kind, "x")
    (tmp_path / "1.csv").write_text(f'id,t\n1,"{value}"\n')
    failed = loaded(lake, tmp_path, "*.csv", {"id": "BIGINT", "t": kind})
    assert failed.status == "failed"
    assert "x" in str(failed.error)
    (tmp_path / "1.csv").write_text("id,t\n1,\n")
    load(lake, tmp_path, "*.csv", {"id": "BIGINT", "t": kind})
    assert rows(lake) == [(1, None)]


def test_unreadable_time_after_the_sample_is_not_null(lake: Lake, tmp_path: Path) -> None:
    times = "2024-01-02 03:04:05+00\n" * (SAMPLE_ROWS + 1)
    (tmp_path / "1.csv").write_text(f"t\n{times}late\n")
    error = refused(lake, tmp_path, "*.csv")
    assert error.message.startswith("the column 't' of 1.csv has the value 'late', which is no TIMESTAMP WITH")


# Values that DuckDB would change without an error, and a type that holds them.
CHANGED = [
    ("csv", "TIMESTAMP", "2024-01-31 12:00:00+01", "TIMESTAMP WITH TIME ZONE", "has an offset from UTC"),
    ("csv", "TIMESTAMP", "2024-01-31T12:00:00Z", "TIMESTAMP WITH TIME ZONE", "has an offset from UTC"),
    ("json", "TIMESTAMP_S", '"2024-01-31 12:00:00+05:30"', "TIMESTAMP WITH TIME ZONE", "has an offset from UTC"),
    ("csv", "TIME", "10:00:00+05:00", "VARCHAR", "has an offset from UTC"),
    # A cast reads the year 24.
    ("csv", "TIMESTAMP", "24/01/02", "VARCHAR", "has the value '24/01/02', which is no TIMESTAMP in ISO 8601"),
    ("json", "TIMESTAMP", '"24/01/02"', "VARCHAR", "has the value '24/01/02', which is no TIMESTAMP in ISO 8601"),
    ("csv", "DATE", "2024-01-31 00:00:00+05", "TIMESTAMP WITH TIME ZONE", "has an offset from UTC"),
    ("json", "DECIMAL(20,2)", "12345678901234567.89", "DOUBLE", "a number with more than 15 digits"),
    ("json", "DECIMAL(20,2)", "90071992547409.93", "DOUBLE", "a number with more than 15 digits"),
    ("json", "DECIMAL(38,18)", "0.123456789012345678", "DOUBLE", "a number with more than 15 digits"),
    ("json", "VARCHAR", "0.123456789012345678", "DOUBLE", "a number with more than 15 digits"),
    ("json", "DECIMAL(20,2)[]", "[1.5, 12345678901234567.89e0]", "DOUBLE[]", "a number with more than 15 digits"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "kind", "value", "other", "message"), CHANGED)
def test_value_that_the_reader_would_change_is_refused(
    ending: str, kind: str, value: str, other: str, message: str, lake: Lake, tmp_path: Path
) -> None:
    text = f"v\n{value}\n" if ending == "csv" else f'{{"v": {value}}}\n'
    (tmp_path / f"1.{ending}").write_text(text)
    error = refused(lake, tmp_path, f"1.{ending}", {"v": kind})
    assert message in error.message
    assert lake.tables() == []
    # A type that holds the value, as the reader sees it; for numbers, as a string.
    assert loaded(lake, tmp_path, f"1.{ending}", {"v": other if message.startswith("has") else kind}).status == (
        "done" if message.startswith("has") else "failed"
    )


# A type, a value in JSON and in CSV that it holds, and one that DuckDB would change without an error.
INSIDE = [
    ("DATE[]", '["2024-01-31", null]', '["2024-01-31 12:00:00"]'),
    ("DATE[]", '["2024-01-31"]', '["2024-01-31 00:00:00+05"]'),
    ("DATE[]", '["0044-01-31"]', '["03/04/2024"]'),
    ("TIMESTAMP[]", '["2024-01-31T12:00:00"]', '["2024-01-31T12:00:00Z"]'),
    ("TIMESTAMP[]", '["2024-01-31 12:00:00.123456"]', '["2024-01-31 12:00:00.1234567"]'),
    ("TIMESTAMPTZ[]", '["2024-01-31T12:00:00Z"]', '["x"]'),
    ("STRUCT(date DATE, x DECIMAL(4,1))", '{"date": "2024-01-31", "x": 1.5}', '{"date": "x", "x": 1.5}'),
    ("STRUCT(n VARCHAR, t TIME)", '{"n": "10T5Z", "t": "10:00:00"}', '{"n": "10T5Z", "t": "10:00:00+05:00"}'),
    ("MAP(VARCHAR, TIMESTAMP_S)", '{"a": "2024-01-31 12:00:00"}', '{"a": "2024-01-31 12:00:00.5"}'),
]


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "case"), list(product(["csv", "json"], INSIDE)))
def test_times_inside_of_values_are_not_changed(
    ending: str, case: tuple[str, str, str], lake: Lake, tmp_path: Path
) -> None:
    kind, good, bad = case
    for number, value in enumerate((good, bad)):
        quoted = value.replace('"', "'").replace(": '", ":'")
        if kind.startswith("MAP"):
            quoted = quoted.replace("'a':", "a=")
        text = f'v\n"{quoted}"\n' if ending == "csv" else f'{{"v": {value}}}\n'
        (tmp_path / f"{number}.{ending}").write_text(text)
    load(lake, tmp_path, f"0.{ending}", {"v": kind})
    assert None not in rows(lake)[0]
    lake.drop_table("raw.t")
    error = refused(lake, tmp_path, f"1.{ending}", {"v": kind})
    assert "which its type" in error.message
    other = loaded(lake, tmp_path, f"1.{ending}", {"v": "VARCHAR" if ending == "csv" else "JSON"})
    assert other.status == "done"


@pytest.mark.parametrize("columns", [{}, {"v": "BIGINT"}, {"v": "DOUBLE"}, None])
def test_integers_of_one_parquet_file_and_floats_of_another_are_refused(
    columns: dict[str, str] | None, lake: Lake, tmp_path: Path
) -> None:
    """DuckDB reads both as DOUBLE, which rounds large integers; also in nested values."""
    values: tuple[Any, Any] = (2**53 + 1, 2.0) if columns is not None else ([{"a": [2**53 + 1]}], [{"a": [2.0]}])
    for number, value in enumerate(values, start=1):
        pq.write_table(pa.table({"v": [value]}), tmp_path / f"{number}.parquet")
    kind = "BIGINT, and DuckDB would read it as DOUBLE" if columns is not None else "STRUCT(a BIGINT[])[], and DuckDB "
    error = refused(lake, tmp_path, "*.parquet", columns)
    assert error.message.startswith(f"the column 'v' of 1.parquet is a {kind}")
    assert lake.tables() == []


def test_numbers_of_json_keep_their_digits(lake: Lake, tmp_path: Path) -> None:
    """Those of a DOUBLE have up to 17 digits, and integers any number."""
    text = '{"id": 9007199254740993, "price": "12345678901234567.89", "x": 0.30000000000000004, "y": 123456789012.25}'
    (tmp_path / "1.json").write_text(f"{text}\n")
    kinds = {"id": "BIGINT", "price": "DECIMAL(20,2)", "x": "DOUBLE", "y": "DECIMAL(20,2)"}
    load(lake, tmp_path, "1.json", kinds)
    assert rows(lake) == [
        (9007199254740993, Decimal("12345678901234567.89"), 0.30000000000000004, Decimal("123456789012.25"))
    ]


@pytest.mark.parametrize("late", ["00501", "0x10", "1_000"])
def test_text_after_the_sample_that_only_looks_like_an_integer_is_refused(
    late: str, lake: Lake, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text("zip\n" + "10000\n" * (SAMPLE_ROWS + 1) + f"{late}\n")
    error = refused(lake, tmp_path, "*.csv")
    assert error.message == f"the column 'zip' of 1.csv has the value '{late}', which is no BIGINT"
    load(lake, tmp_path, "*.csv", {"zip": "VARCHAR"})
    assert rows(lake)[0] == (min(late, "10000"),)


@pytest.mark.slow
@pytest.mark.parametrize("header", ["id,t", "id,2024", "1,2"])
@pytest.mark.parametrize("lines", ["", "7,8\n"])
def test_first_line_of_a_csv_file_names_the_columns(header: str, lines: str, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(f"{header}\n{lines}")
    load(lake, tmp_path, "*.csv")
    assert list(lake.table("raw.t").schema) == header.split(",")
    assert len(rows(lake)) == len(lines.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
@pytest.mark.parametrize("columns", [{}, {"id": "BIGINT", "day": "VARCHAR"}], ids=["inferred", "declared"])
def test_name_of_a_folder_is_no_value(ending: str, columns: dict[str, str], lake: Lake, tmp_path: Path) -> None:
    for day in ("day=other", "run=5"):
        (tmp_path / day).mkdir()
        written(tmp_path / day / f"1.{ending}", "SELECT 1 AS id, 'mine' AS day")
    load(lake, tmp_path, f"*/*.{ending}", columns)
    assert (list(lake.table("raw.t").schema), rows(lake)) == (["id", "day"], [(1, "mine"), (1, "mine")])


@pytest.mark.slow
@pytest.mark.parametrize("columns", [{}, {"city": "VARCHAR", "n": "BIGINT"}], ids=["inferred", "declared"])
@pytest.mark.parametrize(
    ("value", "expected"), [("'t Zand", "'t Zand"), ("Boys'", "Boys'"), ("'x'", "'x'"), ('"a ""b"", c"', 'a "b", c')]
)
def test_only_quotation_marks_quote(
    value: str, expected: str, columns: dict[str, str], lake: Lake, tmp_path: Path
) -> None:
    """Also if the first quotes are behind the lines from which DuckDB finds out the dialect."""
    for before in (0, SAMPLE_ROWS + 1):
        (tmp_path / f"{before}.csv").write_text("city,n\n" + "Delft,1\n" * before + f"{value},1\nBoys',2\n")
        load(lake, tmp_path, f"{before}.csv", columns)
        found = rows(lake)
        assert (len(found), (expected, 1) in found, ("Boys'", 2) in found) == (before + 2, True, True)
        lake.drop_table("raw.t")


def test_empty_line_above_the_names_is_refused(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("\nname,v\nx,a\n")
    for columns in ({}, {"name": "VARCHAR", "v": "VARCHAR"}):
        error = refused(lake, tmp_path, "*.csv", columns)
        assert error.message == "the first line of the file 1.csv is empty"


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_decimals_have_the_digits_of_the_file(ending: str, lake: Lake, tmp_path: Path) -> None:
    """A cast of a DOUBLE multiplies it: 558.08 would become 558.080000000000065536."""
    texts = ["558.08", "3254257.72", "1234567.89", "0.1", "123456789.123456"]
    if ending == "json":
        (tmp_path / "1.json").write_text("".join(f'{{"v": {text}, "l": [{text}]}}\n' for text in texts))
    else:
        values = ", ".join(f"({text}::DOUBLE, [{text}]::DECIMAL(38,18)[])" for text in texts)
        written(tmp_path / "1.parquet", f"FROM (VALUES {values}) AS t(v, l)")
    load(lake, tmp_path, f"*.{ending}", {"v": "DECIMAL(38,18)", "l": "DECIMAL(38,18)[]"})
    assert sorted(rows(lake)) == sorted((Decimal(text), [Decimal(text)]) for text in texts)


REPEATED = pa.table({"v": pa.array([[("a", 1), ("b", 2)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))})
WIDE = pa.table({"v": pa.array([Decimal("1.50")], pa.decimal256(50, 2))})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ('{"v": {"a": 1, "a": 2}}', "MAP(VARCHAR, INTEGER)", "a map with one key twice"),
        ('{"v": [{"x": {"a": {"b": 1, "b": 2}}}]}', "STRUCT(x MAP(VARCHAR, MAP(VARCHAR, INT)))[]", "one key twice"),
        ('{"v": ["2024-01-31T12:00:00Z"]}', "", "which its type TIMESTAMP[] would change"),
        ('{"v": 0.123456789012345678, "w": "x"}\n{"v": "y"}', "", "a number with more than 15 digits"),
        ('{"v": 2}', "BOOLEAN", "has the value '2', which its type BOOLEAN would change"),
        ('{"v": [true, 0.5]}', "BOOLEAN[]", "which its type BOOLEAN[] would change"),
        (REPEATED, "", "has the value '{a=1, a=2}', a map with one key twice"),
        (REPEATED, "MAP(VARCHAR, BIGINT)", "has the value '{a=1, a=2}', a map with one key twice"),
        (WIDE, "", "is a decimal of 50 digits, which DuckDB reads as other numbers"),
        (WIDE, "DECIMAL(9, 2)", "is a decimal of 50 digits, which DuckDB reads as other numbers"),
    ],
    ids=[
        "map",
        "nested map",
        "offset",
        "digits",
        "boolean",
        "nested boolean",
        "parquet map",
        "declared",
        "decimal",
        "declared decimal",
    ],
)
def test_values_that_the_reader_takes_for_others_are_refused(
    content: str | pa.Table, kind: str, message: str, lake: Lake, tmp_path: Path
) -> None:
    if isinstance(content, str):
        (tmp_path / "1.json").write_text(content)
    else:
        pq.write_table(content, tmp_path / "1.parquet")
    error = refused(lake, tmp_path, "1.*", {"v": kind} if kind else {})
    assert message in error.message
    assert lake.tables() == []


def test_booleans_and_maps_of_json_are_loaded(lake: Lake, tmp_path: Path) -> None:
    lines = ['{"b": true, "m": {"a": 1}, "l": [false]}', '{"b": 0, "m": {}, "l": []}', '{"b": null, "m": null}']
    (tmp_path / "1.json").write_text("\n".join(lines))
    load(lake, tmp_path, "1.json", {"b": "BOOLEAN", "m": "MAP(VARCHAR, INT)", "l": "BOOLEAN[]"})
    assert rows(lake) == [(False, {}, []), (True, {"a": 1}, [False]), (None, None, None)]


def unknown(value: Any, **types: str) -> list[list[str]]:
    sql = unknown_json_keys(types)
    ((found,),) = duckdb.execute(f"SELECT {sql} FROM (SELECT CAST(? AS JSON) AS json)", [json.dumps(value)]).fetchall()
    return [] if found is None else list(found)


def test_unknown_keys_have_their_path() -> None:
    for value, kind, paths in (
        ({"a": 1, "b": 2}, "STRUCT(a INTEGER)", [["s", "b"]]),
        ({"A": 1}, "STRUCT(a INTEGER)", [["s", "A"]]),
        ({"a": {"b": 1, "c": 2}}, "STRUCT(a STRUCT(b INTEGER))", [["s", "a", "c"]]),
        ([{"a": 1}, {"a": 1, "b": 2}, None], "STRUCT(a INTEGER)[]", [["s", "[]", "b"]]),
        ([{"b": 2}], "STRUCT(a INTEGER)[1]", [["s", "[]", "b"]]),
        ([[{"b": 2}], []], "STRUCT(a INTEGER)[][]", [["s", "[]", "[]", "b"]]),
        ({"k": {"a": 1, "z": 2}, "l": {"a": 3}}, "MAP(VARCHAR, STRUCT(a INTEGER))", [["s", "[]", "z"]]),
        ({"a/b~c": {"z": 1}}, 'STRUCT("a/b~c" STRUCT(d INTEGER))', [["s", "a/b~c", "z"]]),
        ({"q$'.*x": {"z": 1}}, """STRUCT("q$'.*x" STRUCT(d INTEGER))""", [["s", "q$'.*x", "z"]]),
        ([{"[]": {"z": 1}}], 'STRUCT("[]" STRUCT(d INTEGER))[]', [["s", "[]", "[]", "z"]]),
        ({"[]": {"z": 1}}, 'STRUCT("[]" STRUCT(d INTEGER))', [["s", "[]", "z"]]),
        ({"a": 1}, "STRUCT(a INTEGER, b INTEGER)", []),
        ({"a": {"x": 1}}, "STRUCT(a JSON)", []),
        ({"a": 1}, "JSON", []),
        ({"a": 1}, "MAP(VARCHAR, INTEGER)", []),
        (None, "STRUCT(a INTEGER)", []),
        ("text", "STRUCT(a INTEGER)", []),
    ):
        found = (unknown({"s": value}, s=kind), unknown({}, s=kind), unknown({"t": value}, s=kind))
        assert found == (paths, [], [["t"]]), (value, kind)
    with pytest.raises(PipelineError, match="because its name has a quotation mark"):
        unknown_json_keys({"s": 'STRUCT("q""x" STRUCT(d INTEGER))'})
    assert unknown({"s": {'q"x': 1}}, s='STRUCT("q""x" INTEGER)') == []


def test_fields_that_a_cast_would_leave_out() -> None:
    given = {"s": "STRUCT(a INTEGER, b STRUCT(c DATE, d DATE)[])", "t": "STRUCT(x INTEGER)", "u": "INTEGER"}
    wanted = {"s": "STRUCT(A BIGINT, b STRUCT(c DATE)[])", "t": "VARCHAR", "u": "INTEGER"}
    assert [*unknown_fields(given, wanted)] == [(("s", "b", "[]", "d"), "DATE")]
    assert [*unknown_fields(given, given)] == []
    assert [
        *unknown_fields({"m": "MAP(INTEGER, STRUCT(a INTEGER, b TIME))"}, {"m": "MAP(INTEGER, STRUCT(a INTEGER))"})
    ] == [(("m", "[]", "b"), "TIME")]


def nested(lake: Lake, folder: Path, files: str, kind: str, sql: str | None = None) -> ModelResult:
    body = None if sql is None else Query(sql)
    model = Model("raw.t", Append(files=files, columns={"id": "BIGINT", "s": kind}), body, folder=folder)
    (result,) = run(Pipeline([model]), lake)
    return result


@pytest.mark.parametrize(("ending", "shown"), [("json", "VARCHAR"), ("parquet", "INTEGER")])
def test_field_that_is_not_in_columns_is_refused(ending: str, shown: str, lake: Lake, tmp_path: Path) -> None:
    for number, value in ((1, "{'a': 1}"), (2, "{'a': 1, 'b': 2}")):
        duckdb.execute(f"COPY (SELECT {number} AS id, [{value}] AS s) TO '{tmp_path / str(number)}.{ending}'")
    failed = nested(lake, tmp_path, f"*.{ending}", "STRUCT(a INTEGER)[]")
    assert failed.error is not None
    assert failed.error.message == f"2.{ending} has the field 's[].b', which is not in columns of raw.t"
    assert failed.error.hint == (
        f"""add "b" {shown} to the type of 's[]' in columns; to leave it out, select the other fields FROM files """
        "in the SQL of the model"
    )
    assert lake.tables() == []
    # What the hint says.
    sql = "SELECT id, s[1].a AS a FROM files"
    done = nested(lake, tmp_path, f"*.{ending}", f"STRUCT(a INTEGER, b {shown})[]", sql)
    assert done.status == "done", done.error
    assert lake.table("raw.t").to_arrow().sort_by("id").to_pylist() == [{"id": 1, "a": 1}, {"id": 2, "a": 1}]


def test_folder_with_brackets_in_its_name_is_read(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "data[1]*"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "1.csv").write_text("id\n1\n")
    for pattern in ("in/*.csv", "in/../**/*.csv"):
        (step,) = plan(Pipeline([Model("raw.events", Append(files=pattern), folder=folder)]), lake)
        assert step.files == ["in/1.csv"]


ZONED = "TIMESTAMP WITH TIME ZONE"


def test_text_without_a_date_in_iso_8601_is_guessed() -> None:
    for wanted, text, expected in (
        *(("DATE", text, False) for text in ("2024-01-02", " 2024-1-2", "2024/01/02", "12024-01-02", "-infinity")),
        *(("DATE", text, True) for text in ("03/04/2024", "   1-02-2024", "24/01/02")),
        ("DATE", "0044-03-15 (BC)", False),
        ("TIMESTAMP", "epoch", False),
        *(("TIMESTAMP", text, True) for text in ("24-01-02", "01.02.2024 10:00")),
        *(("TIMESTAMP_S", "2024", True), ("TIMESTAMP_NS", "20240102", True)),
        *((ZONED, text, False) for text in ("Infinity", "2024-01-02T03:04:05.123+01:00", None)),
        (ZONED, "2024-01-02 03:04:05 Europe/Berlin", False),
        *((ZONED, text, True) for text in ("03/04/2024", "2024-13-01")),
        *(("TIME WITH TIME ZONE", "x", True), ("TIME WITH TIME ZONE", "10:00:00+01", False)),
    ):
        condition = is_guessed("v", "VARCHAR", wanted)
        found = duckdb.execute(f"SELECT {condition} FROM (SELECT CAST(? AS VARCHAR) AS v)", [text]).fetchall()
        assert found == [(expected,)], (wanted, text)
