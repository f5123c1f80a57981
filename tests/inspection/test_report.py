"""`lakeconf report`: the page has correct numbers, loads nothing from elsewhere, and renders in a browser."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from browser import opened
from local_stores import on_postgres, store_of

import lakeconf
from lakeconf.inspection.report import report
from lakeconf.inspection.sizes import table_sizes

if TYPE_CHECKING:
    from servers import PostgresServer

    from lakeconf import Lake, Store

# Writes the colours and the number of drawings of the rendered page to its title.
PROBE = """
<script>addEventListener("load", () => {
  const style = getComputedStyle(document.body), text = document.querySelector(".js-plotly-plot text");
  document.title = [style.backgroundColor, style.color, getComputedStyle(text).fill,
    document.querySelectorAll(".js-plotly-plot .main-svg").length,
    performance.getEntriesByType("resource").length].join("|");
})</script></body>
"""


@pytest.fixture
def store(project: Path) -> Store:
    return lakeconf.init(project).get_store("dev")


def filled(lake: Lake) -> None:
    """Appends to three tables, one of them with markup in its name, then deletes and overwrites rows of one."""
    rows = pa.table({"id": list(range(100)), "text": [f"value-{number}" for number in range(100)]})
    for name in ("raw.events", 'raw."<b>&wild"', "raw.gone"):
        table = lake.create_table(name, rows)
        table.append(rows)
        table.append(rows)
    lake.table("raw.events").delete("id < 10")
    lake.table("raw.events").overwrite(rows.slice(50), where="id >= 50")


def test_growth_equals_the_sizes_of_each_snapshot(store: Store) -> None:
    with store.open() as lake:
        filled(lake)
        native = store.connect()
        native.execute("DROP TABLE raw.gone; CALL dev.set_option('data_inlining_row_limit', 10)")
        native.execute("INSERT INTO raw.events VALUES (1, 'inlined')")
        native.close()
        lake.refresh()
        for one in lake.maintenance.growth():
            tables = table_sizes(lake.at(version=one.snapshot_id))
            assert (one.files, one.bytes, one.delete_files) == (
                sum(len(table.files) for table in tables),
                sum(table.bytes for table in tables),
                sum(table.delete_files for table in tables),
            ), one
        assert [one.snapshot_id for one in lake.maintenance.growth()] == [one.snapshot_id for one in lake.snapshots()]
        by_name = {table.table: table for table in table_sizes(lake)}
        assert (by_name["raw.events"].rows, by_name["raw.events"].inlined_rows) == (131, 1)
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=timedelta(0), keep=1, force=True)
        (last,) = lake.maintenance.growth()
        assert last.files == sum(len(table.files) for table in table_sizes(lake))


def test_page_is_escaped_and_has_a_content_security_policy(store: Store) -> None:
    with store.open() as lake:
        filled(lake)
        page = report(lake, "A <lake>")
    own = page[: page.index("<script")] + page[page.rindex("<h1>") :]
    assert "A &lt;lake&gt;" in own
    assert "<td>raw.events</td>" in own
    # Names are escaped in tables and figures, and the page contains no values of rows.
    assert "<b>&wild" not in page.replace("\\u003c", "<").replace("\\u003e", ">")
    assert "value-" not in own
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", own) == []
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    (nonce,) = re.findall(r"script-src 'nonce-([^']{20,})'", policy)
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    assert page.count(f'<script nonce="{nonce}"') == 4  # plotly, and three figures


def test_report_of_an_empty_lake(store: Store) -> None:
    with store.open() as lake:
        page = report(lake, "empty")
    assert "<b>0</b><span>tables</span>" in page
    assert "0 files would be removed" in page


def test_report_contains_no_secret(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with store_of(tmp_path, on_postgres(postgres_server)).open() as lake:
        filled(lake)
        assert postgres_server.password not in report(lake, "dev")


@pytest.mark.parametrize(("scheme", "is_dark"), [(0, True), (1, False)], ids=["dark", "light"])
def test_report_renders_in_a_browser(scheme: int, is_dark: bool, store: Store, tmp_path: Path) -> None:
    with store.open() as lake:
        filled(lake)
        page = report(lake, "lake")
    # A script without the nonce of the page does not run: neither this one, nor one in a name.
    (word,) = set(re.findall(r'<script nonce="([^"]+)"', page))
    strange = "<script>document.body.style.backgroundColor = document.body.style.color = 'red'</script>"
    probe = PROBE.replace("<script>", f'<script nonce="{word}">')
    (tmp_path / "lake.html").write_text(page.replace("</body>", strange + probe))
    address, colours = (tmp_path / "lake.html").as_uri(), f"--blink-settings=preferredColorScheme={scheme}"
    shown = opened(address, tmp_path / "profile", colours)
    title = re.search(r"<title>(.*?)</title>", shown)
    assert title is not None
    paper, ink, label, drawings, loaded = title[1].split("|")
    assert (int(drawings) >= 3, loaded) == (True, "0")
    assert label == ink
    bright = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (paper, ink)]
    assert (bright[0] < bright[1]) is is_dark
    assert abs(bright[0] - bright[1]) > 400
