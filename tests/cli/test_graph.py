"""`lakeconf graph`: text, JSON and Mermaid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TAGGED = """
[pipeline.models."marts.tagged"]
sql = "dearest.sql"
tags = ["nightly"]
tests = { not_null = ["day"] }
"""


def test_graph_as_text(pipeline_folder: Path, shown: Any) -> None:
    assert (
        shown("graph")
        == """\
raw.prices (seed)
marts.by_day (incremental)
  reads raw.prices
marts.dearest (full)
  reads raw.prices
"""
    )
    assert shown("graph", "marts.*", "--exclude", "marts.by_day") == "marts.dearest (full)\n  reads raw.prices\n"


def test_graph_as_json_and_mermaid(pipeline_folder: Path, shown: Any) -> None:
    with (pipeline_folder / "lakeconf.toml").open("a") as file:
        file.write(TAGGED)
    assert json.loads(shown("graph", "tag:nightly", "--format", "json")) == [
        {
            "model": "marts.tagged",
            "kind": "full",
            "tags": ["nightly"],
            "inputs": ["raw.prices"],
            "checks": ["not_null day"],
            "comment": None,
        }
    ]
    assert (
        shown("graph", "marts.*", "--format", "mermaid", "--exclude", "tag:nightly")
        == """\
flowchart LR
    t0["marts.by_day<br>incremental"]
    t1["marts.dearest<br>full"]
    t2("raw.prices")
    t2 --> t0
    t2 --> t1
"""
    )
    assert not (pipeline_folder / "catalog.sqlite").exists()


def test_columns_of_the_models(pipeline_folder: Path, shown: Any) -> None:
    (pipeline_folder / "models.py").write_text(
        "from lakeconf.pipelines import Full, model\n\n"
        "@model('marts.copy', Full())\ndef copy(prices):\n    return prices\n"
    )
    with (pipeline_folder / "lakeconf.toml").open("a") as file:
        file.write('[pipeline]\npython = ["models.py"]\n')
    assert shown("graph", "marts.*", "--columns", "--exclude", "marts.by_day") == (
        "marts.copy (full)\n  reads raw.prices\n  columns: unknown\n"
        "marts.dearest (full)\n  reads raw.prices\n  day ← raw.prices.day\n  price ← raw.prices.price\n"
    )
    found = {one["model"]: one["columns"] for one in json.loads(shown("graph", "--columns", "--format", "json"))}
    assert found["marts.copy"] is None
    assert found["raw.prices"] == {}
    assert found["marts.dearest"]["day"] == [{"table": "raw.prices", "column": "day"}]
