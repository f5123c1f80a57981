"""Lakes, tables, scans and snapshots as text and in notebooks."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from IPython.core.formatters import DisplayFormatter

from lakeconf.errors import LakeconfError
from lakeconf.lake.table import MOST_ROWS, html_table, listed

if TYPE_CHECKING:
    from lakeconf import Lake, Store

HOSTILE = "<script>alert('x')</script>&\"\x1b[31m"


def cells(page: str) -> list[list[str]]:
    """The texts of a table, with its caption as the first row."""
    table = ET.fromstring(page)  # noqa: S314 - our own page
    return [[table.findtext("caption") or ""], *([cell.text or "" for cell in row] for row in table.iter("tr"))]


def test_text_of_a_lake_lists_its_tables(two_tables: Lake) -> None:
    assert repr(two_tables) == "Lake('dev' at snapshot 2, duckdb: main.t, main.u)"
    assert repr(two_tables.at(version=0)) == "Lake('dev' at snapshot 0, duckdb: no tables)"
    two_tables.create_table('"a\x1b[31m"', {"id": "BIGINT"})
    assert "\x1b" not in repr(two_tables)
    two_tables.close()
    assert repr(two_tables) == "Lake('dev' at snapshot 3, duckdb: the lake is closed)"


def test_many_names_are_counted() -> None:
    assert listed(["a"] * 10) == ", ".join("a" * 10)
    assert listed([str(n) for n in range(12)]).endswith("8, 9 and 2 more")


def test_notebook_shows_tables_and_views(two_tables: Lake) -> None:
    two_tables.create_view("v", "SELECT 1 AS one")
    assert cells(two_tables._repr_html_()) == [
        ["Lake dev at snapshot 3, duckdb"],
        ["name", "kind"],
        ["main.t", "table"],
        ["main.u", "table"],
        ["main.v", "view"],
    ]


def test_notebook_escapes_names_values_and_comments(two_tables: Lake) -> None:
    name = '"' + HOSTILE.replace('"', '""') + '"'
    table = two_tables.create_table(name, {HOSTILE: "BIGINT"}, comment=HOSTILE, column_comments={HOSTILE: HOSTILE})
    with two_tables.transaction(HOSTILE, author=HOSTILE) as tx:
        tx.table(name).append([{HOSTILE: 1}])
    pages = [
        two_tables._repr_html_(),
        table._repr_html_(),
        two_tables.snapshots()._repr_html_(),  # type: ignore[attr-defined]
        table.explain()._repr_html_(),
    ]
    for page in pages:
        assert "<script" not in page
        assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;" in page
    assert all("\x1b" not in page for page in pages[:3])
    shown = cells(pages[1])
    assert shown[2] == [HOSTILE.replace("\x1b", "\\x1b"), "BIGINT", HOSTILE.replace("\x1b", "\\x1b")]


def test_snapshots_are_shown_newest_first(two_tables: Lake) -> None:
    found = two_tables.snapshots()
    assert isinstance(found, list)
    rows = cells(found._repr_html_())  # type: ignore[attr-defined]
    assert [row[0] for row in rows[2:]] == ["2", "1", "0"]
    assert rows[2][4] == "create table main.u"


def test_ipython_shows_html(two_tables: Lake) -> None:
    formatter = DisplayFormatter()
    for one in (two_tables, two_tables.table("t"), two_tables.snapshots(), two_tables.table("t").explain()):
        shown, _ = formatter.format(one)
        assert shown["text/html"].startswith(("<table>", "<pre>")), type(one)
    shown, _ = formatter.format(two_tables.table("t").scan())
    assert "Narwhals LazyFrame" in shown["text/plain"]


def test_long_tables_are_cut() -> None:
    page = html_table("t", ("n",), [(n,) for n in range(MOST_ROWS + 3)])
    rows = cells(page)
    assert (rows[-1], rows[-2], len(rows)) == (["and 3 more"], [str(MOST_ROWS - 1)], MOST_ROWS + 3)
    assert len(cells(html_table("t", ("n",), [(n,) for n in range(MOST_ROWS)]))) == MOST_ROWS + 2
    assert 'text-align: right">7<' in page


def test_closed_lake_says_so(two_tables: Lake) -> None:
    table = two_tables.table("t")
    two_tables.close()
    two_tables.close()
    for use in (
        two_tables.tables,
        two_tables.refresh,
        two_tables.snapshots,
        table.scan,
        lambda: table.append([{"id": 1}]),
        lambda: two_tables.sql("SELECT 1"),
        lambda: two_tables.drop_table("t"),
        two_tables.maintenance.compact,
    ):
        with pytest.raises(LakeconfError, match="the lake is closed") as refused:
            use()
        assert refused.value.hint == "open it again: store.open()"


def test_read_only_lake_says_how_to_write(two_tables: Lake, store: Store) -> None:
    with (
        store.open(read_only=True) as lake,
        pytest.raises(LakeconfError, match="the store 'dev' is read-only") as refused,
    ):
        lake.drop_table("t")
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("open it without read_only=True")
    assert two_tables.tables() == ["main.t", "main.u"]
