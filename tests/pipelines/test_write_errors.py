"""Errors of a write name the files of the model, and what to write there."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import duckdb
import pytest

from lakeconf.pipelines import Append, Model, Pipeline, run
from lakeconf.pipelines.models.body import Query

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.errors import LakeconfError


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
