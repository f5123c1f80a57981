"""Files whose column has no value get the type of the table's column: DuckDB has inferred none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of
from plain_sql import plain_rows

from lakeconf.pipelines import Append, Model, ModelResult, Pipeline, Query, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake

BOTH = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DATE", "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE", "BLOB", "VARCHAR", "INTEGER[]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)",
)  # fmt: skip
ONLY_DUCKDB = (
    "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "TIME", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
    "TIME WITH TIME ZONE", "INTERVAL", "UUID", "JSON", "VARIANT", "GEOMETRY",
)  # fmt: skip
NESTED = {
    "l": ("DATE[]", [], []),
    "n": ("DATE[]", [None], [None]),
    "ll": ("SMALLINT[][]", [[]], [[]]),
    "s": ("STRUCT(a DATE, b BIGINT)", {"a": None, "b": 1}, {"a": None, "b": 1}),
    "ls": ("STRUCT(a DATE, b BIGINT)[]", [{"a": None, "b": 1}], [{"a": None, "b": 1}]),
    "m": ("MAP(VARCHAR, DATE)", {}, {}),
}


@pytest.fixture
def on_engine(tmp_path: Path, engine: Any) -> Iterator[Lake]:
    """An empty lake on each engine."""
    with store_of(tmp_path).open(engine) as opened:
        yield opened


def load(lake: Lake, folder: Path, ending: str, body: Query | None = None) -> ModelResult:
    (result,) = run(Pipeline([Model("raw.t", Append(files=f"*.{ending}"), body, folder=folder)]), lake)
    return result


def stored(lake: Lake, condition: str = "true") -> list[tuple[Any, ...]]:
    columns = "id, CAST(COLUMNS(* EXCLUDE (id)) AS VARCHAR)"
    return plain_rows(lake, f"SELECT {columns} FROM dev.raw.t WHERE {condition} ORDER BY id")


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_empty_column_is_null_in_a_column_of_each_type(ending: str, on_engine: Lake, tmp_path: Path) -> None:
    kinds = BOTH if "spark" in repr(on_engine) else (*BOTH, *ONLY_DUCKDB)
    columns = {f"c{number}": kind for number, kind in enumerate(kinds)}
    on_engine.create_table("raw.t", {"id": "BIGINT", **columns})
    if ending == "csv":
        (tmp_path / "1.csv").write_text(f"id,{','.join(columns)}\n1{',' * len(columns)}\n2{',' * len(columns)}\n")
    else:
        lines = (json.dumps({"id": number, **dict.fromkeys(columns)}) for number in (1, 2))
        (tmp_path / "1.json").write_text("\n".join(lines))
    result = load(on_engine, tmp_path, ending)
    assert result.status == "done", result.error
    assert stored(on_engine) == [(number, *(None for _ in columns)) for number in (1, 2)]


def test_empty_part_of_a_json_value_has_the_type_of_the_table(on_engine: Lake, tmp_path: Path) -> None:
    on_engine.create_table("raw.t", {"id": "BIGINT", **{name: kind for name, (kind, *_) in NESTED.items()}})
    (tmp_path / "1.json").write_text(json.dumps({"id": 1, **{name: value for name, (_, value, _) in NESTED.items()}}))
    result = load(on_engine, tmp_path, "json")
    assert result.status == "done", result.error
    (row,) = plain_rows(on_engine, "FROM dev.raw.t")
    assert row == (1, *(value for *_, value in NESTED.values()))


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("csv", "id,d\n1,\n2,x\n"),
        ("csv", 'id,d\n1,""\n2,\n3,x y\n'),
        ("json", '{"id": 1, "d": null}\n{"id": 2, "d": "x"}\n'),
        ("json", '{"id": 1, "d": [null]}\n{"id": 2, "d": [1]}\n'),
    ],
)
def test_column_with_a_value_of_another_type_is_refused(ending: str, text: str, lake: Lake, tmp_path: Path) -> None:
    lake.create_table("raw.t", {"id": "BIGINT", "d": "DATE"})
    (tmp_path / f"1.{ending}").write_text(text)
    error = load(lake, tmp_path, ending).error
    assert error is not None
    assert "cannot hold all its values" in error.message
    assert lake.table("raw.t").count() == 0


def test_sql_of_a_model_reads_columns_as_duckdb_infers_them(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("raw.t", {"id": "BIGINT", "d": "DATE"})
    (tmp_path / "1.csv").write_text("id,d\n1,\n")
    result = load(lake, tmp_path, "csv", Query("SELECT id, CAST(nullif(upper(d), '') AS DATE) AS d FROM files"))
    assert result.status == "done", result.error
    assert stored(lake) == [(1, None)]
