"""The page with the graph of the models."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from lakeconf.pipelines import Full, Pipeline, Query
from lakeconf.pipelines.graph import SourceColumn, graph_page, sources_text
from lakeconf.pipelines.lineage import column_lineage
from lakeconf.pipelines.model import Model

HOSTILE = "<script>alert(1)</script>&\"'"


def test_page_draws_models_after_their_inputs() -> None:
    pipeline = Pipeline(
        [
            Model("marts.late", Full(), Query("FROM raw.here JOIN marts.day USING (id)")),
            Model("marts.day", Full(), Query("FROM raw.here")),
        ]
    )
    page = graph_page(pipeline, pipeline.ordered)
    svg = ET.fromstring(page[page.index("<svg") : page.index("</body>")])  # noqa: S314 - our own page
    boxes = {group.findtext("title"): int(group[1].get("x", "")) for group in svg.findall("g")}
    assert boxes["raw.here"] < boxes["marts.day"] < boxes["marts.late"]
    assert len(svg.findall("path")) == 3
    assert [group.get("class") for group in svg.findall("g")].count("source") == 1


def test_only_the_selected_models_are_drawn() -> None:
    pipeline = Pipeline([Model("a.one", Full(), Query("SELECT 1 AS n")), Model("a.two", Full(), Query("FROM a.one"))])
    assert "a.two" not in graph_page(pipeline, [pipeline.by_table["a.one"]])


def test_hostile_names_are_escaped() -> None:
    name = f"raw.{HOSTILE.replace('.', '')}"
    pipeline = Pipeline([Model(name, Full(), Query("SELECT 1 AS n"))])
    page = graph_page(pipeline, pipeline.models)
    assert "<script" not in page
    assert re.search(r"default-src 'none'", page)
    assert "&lt;script&gt;" in page


def test_columns_are_listed_and_escaped() -> None:
    pipeline = Pipeline([Model("raw.t", Full(), Query('SELECT "<b>" AS "<i>", 1 AS n FROM raw."<script>"'))])
    page = graph_page(pipeline, pipeline.models, column_lineage(pipeline))
    assert "<tr><td>&lt;i&gt;</td><td>raw.&lt;script&gt;.&lt;b&gt;</td></tr>" in page
    assert "<tr><td>n</td><td>no column</td></tr>" in page
    assert "<td>unknown</td>" in graph_page(pipeline, pipeline.models, {"raw.t": None})
    assert "<table>" not in graph_page(pipeline, pipeline.models)


def test_sources_in_words() -> None:
    assert sources_text(None) == "unknown"
    assert sources_text([]) == "no column"
    assert sources_text([SourceColumn("a.t", "x"), SourceColumn("a.t", "*")]) == "a.t.x, a.t.*"
