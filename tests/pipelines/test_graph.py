"""The graph of the models."""

from __future__ import annotations

from lakeconf.pipelines import Full, Pipeline, Query
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import mermaid


def test_only_the_selected_models_are_drawn() -> None:
    pipeline = Pipeline([Model("a.one", Full(), Query("SELECT 1 AS n")), Model("a.two", Full(), Query("FROM a.one"))])
    assert "a.two" not in mermaid(pipeline, [pipeline.by_table["a.one"]])


def test_names_are_no_syntax() -> None:
    pipeline = Pipeline([Model('raw.<b>"]\nx --> y', Full(), Query("SELECT 1 AS n"))])
    shown = mermaid(pipeline, pipeline.models)
    assert len(shown.splitlines()) == 2
    assert shown.count('"') == 2
    assert "<b>" not in shown
