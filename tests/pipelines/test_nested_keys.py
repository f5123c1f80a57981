"""Files of a pattern, keys of structs that the declared types lack, and texts that DuckDB would guess."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from lakeconf.errors import PipelineError
from lakeconf.pipelines import Append, Model, ModelResult, Pipeline, Query, plan, run
from lakeconf.pipelines.file_rows import unknown_fields, unknown_json_keys
from lakeconf.pipelines.file_values import is_guessed

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


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


def loaded(lake: Lake, folder: Path, files: str, kind: str, sql: str | None = None) -> ModelResult:
    body = None if sql is None else Query(sql)
    model = Model("raw.t", Append(files=files, columns={"id": "BIGINT", "s": kind}), body, folder=folder)
    (result,) = run(Pipeline([model]), lake)
    return result


@pytest.mark.parametrize(("ending", "shown"), [("json", "VARCHAR"), ("parquet", "INTEGER")])
def test_field_that_is_not_in_columns_is_refused(ending: str, shown: str, lake: Lake, tmp_path: Path) -> None:
    for number, value in ((1, "{'a': 1}"), (2, "{'a': 1, 'b': 2}")):
        duckdb.execute(f"COPY (SELECT {number} AS id, [{value}] AS s) TO '{tmp_path / str(number)}.{ending}'")
    failed = loaded(lake, tmp_path, f"*.{ending}", "STRUCT(a INTEGER)[]")
    assert failed.error is not None
    assert failed.error.message == f"2.{ending} has the field 's[].b', which is not in columns of raw.t"
    assert failed.error.hint == (
        f"""add "b" {shown} to the type of 's[]' in columns; to leave it out, select the other fields FROM files """
        "in the SQL of the model"
    )
    assert lake.tables() == []
    # What the hint says.
    sql = "SELECT id, s[1].a AS a FROM files"
    done = loaded(lake, tmp_path, f"*.{ending}", f"STRUCT(a INTEGER, b {shown})[]", sql)
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
