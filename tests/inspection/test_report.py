"""The report of a lake, the files below its data path, and the sizes of tables."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from browser import opened
from lake_parts import catalog_of, data_path_of
from local_stores import on_postgres, store_of

import lakeconf
from lakeconf.catalog.history import TableFile
from lakeconf.inspection import catalog_files as module
from lakeconf.inspection.catalog_files import TableSize, data_path_files, table_sizes
from lakeconf.inspection.report import report

if TYPE_CHECKING:
    from servers import PostgresServer

    from lakeconf import Lake, Store
    from lakeconf.catalog.reader import CatalogReader

# Tells the page around it what does not fit, which texts are hard to read, and how the page was drawn.
PROBE = """
<script nonce="probe">addEventListener("load", () => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = colour => { const [r, g, b] = numbers(colour).map(one => one / 255)
    .map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (one, other) => { const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05); };
  const paper = element => { const found = getComputedStyle(element).backgroundColor;
    const [, , , alpha = 1] = numbers(found);
    return alpha > 0 ? found : paper(element.parentElement); };
  const shown = [...document.querySelectorAll("body *")].filter(one => one.checkVisibility());
  const texts = shown.filter(one => [...one.childNodes].some(each => each.nodeType === 3 && each.data.trim()));
  const of = one => { const style = getComputedStyle(one); return one.closest("svg") ? style.fill : style.color; };
  const style = getComputedStyle(document.body), inner = document.documentElement.clientWidth;
  parent.postMessage({
    width: innerWidth, paper: style.backgroundColor, ink: style.color,
    wide: document.documentElement.scrollWidth > inner,
    outside: shown.filter(one => !one.closest(".scroll, pre, svg *"))
      .filter(one => one.getBoundingClientRect().right > inner + 1)
      .map(one => one.outerHTML.slice(0, 80)),
    faint: texts.filter(one => contrast(of(one), paper(one)) < 4.5).map(one => one.textContent.slice(0, 40)),
    texts: texts.length,
    loaded: performance.getEntriesByType("resource").length,
  }, "*");
})</script></body>
"""
FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><title></title>
<script>addEventListener("message", event => { document.title = JSON.stringify(event.data); })</script>
<iframe src="lake.html" style="border: 0; height: 2000px; width: WIDTHpx"></iframe>
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


@pytest.mark.slow
def test_page_is_escaped_and_says_what_to_do(store: Store) -> None:
    with store.open() as lake:
        filled(lake)
        (folder,) = {Path(file.path).parent for file in lake.table("raw.events").files()}
        (folder / "<i>.parquet").write_bytes(b"")
        plan = {one.table: one for one in lake.maintenance.plan_compaction()}
        page = report(lake, store)
    assert "<title>The lake of dev</title>" in page
    assert ">raw.events</a></td>" in page
    # Names are escaped, and the page contains no values of rows.
    assert "<b>&wild" not in page
    assert "value-" not in page
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page) == []
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert "<script" not in page
    assert plan["raw.<b>&wild"].merged_files == 2
    assert '&lt;b&gt;&amp;wild</a></td><td class="text">merge 2 small files</td>' in page
    assert page.count('<td class="text">') - len(re.findall(r'<td class="text">(?!merge|rewrite)', page)) == len(plan)
    assert '<pre class="paste">lakeconf maintain --store dev</pre>' in page
    assert "The catalog does not know 1 file below" in page
    assert f"{html.escape(str(folder))}/&lt;i&gt;.parquet" in page
    # Links lead to a place of their own.
    places = re.findall(r'\bid="([^"]+)"', page)
    links = re.findall(r'href="#([^"]+)"', page)
    assert len(places) == len(set(places))
    assert set(links) <= set(places)
    assert min(links.count(f"table-{number}") for number in range(3)) >= 1
    assert links.count("tables") == 1 + 3
    with store.open(read_only=True) as lake:
        page = report(lake, store)
    assert "The maintenance cannot be planned:" in page
    assert "read-only" in page


def test_report_of_an_empty_lake(store: Store) -> None:
    with store.open() as lake:
        page = report(lake, store)
    assert "<b>0</b><span>tables</span>" in page
    assert "0 files would be removed" in page
    for text in ("No table needs", "The catalog knows every file"):
        assert f'<p class="good">{text} ' in page


@pytest.mark.slow
def test_report_contains_no_secret(postgres_server: PostgresServer, tmp_path: Path) -> None:
    store = store_of(tmp_path, on_postgres(postgres_server))
    with store.open() as lake:
        filled(lake)
        assert postgres_server.password not in report(lake, store)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme", "is_dark"), [(375, 0, True), (1280, 1, False)], ids=["dark", "light"])
def test_report_fits_into_a_browser_and_is_readable(
    scheme: int, is_dark: bool, width: int, store: Store, tmp_path: Path
) -> None:
    with store.open() as lake:
        filled(lake)
        lake.create_table(f"raw.{'long_name_' * 9}", pa.table({f"column_{'x' * 90}": [1]}))
        page = report(lake, store)
    # A script without the nonce of the page does not run: neither this one, nor one in a name.
    page = page.replace("default-src 'none';", "default-src 'none'; script-src 'nonce-probe';")
    strange = "<script>document.body.style.backgroundColor = document.body.style.color = 'red'</script>"
    page = page.replace("<details>", "<details open>")
    (tmp_path / "lake.html").write_text(page.replace("</body>", strange + PROBE))
    (tmp_path / "frame.html").write_text(FRAME.replace("WIDTH", str(width)))
    colours = f"--blink-settings=preferredColorScheme={scheme}"
    window = f"--window-size={width + 100},2200"
    shown = opened((tmp_path / "frame.html").as_uri(), tmp_path / "profile", colours, window)
    title = re.search(r"<title>(.*?)</title>", shown)
    assert title is not None
    found = json.loads(html.unescape(title[1]))
    assert (found["width"], found["wide"], found["outside"], found["faint"]) == (width, False, [], [])
    assert found["texts"] > 100
    assert found["loaded"] == 0
    dark, light = (sum(map(int, re.findall(r"\d+", found[name])[:3])) for name in ("paper", "ink"))
    assert (dark < light) is is_dark


ROWS = pa.table({"id": [1, 2, 3]})


def test_missing_and_unknown_files_are_found(project: Path) -> None:
    """A file that waits for its removal is known."""
    with lakeconf.init(project).get_store("dev").open() as lake:
        table = lake.create_table("raw.t", ROWS)
        for _ in range(2):
            table.append(ROWS)
        lake.maintenance.compact()
        reader, folder = catalog_of(lake), Path(data_path_of(lake))
        (path,) = (file.path for file in table.files())
        assert len(list(folder.rglob("*.parquet"))) > 1
        found = data_path_files(reader)
        assert (path in found.needed, found.missing, found.unknown) == (True, (), ())
        stranger = folder / "raw" / "<b>.parquet"
        stranger.write_bytes(b"")
        (folder / "raw" / "notes.txt").write_text("")
        Path(path).unlink()
        found = data_path_files(reader)
        assert (found.missing, found.unknown) == ((path,), (str(stranger),))


def test_file_that_is_committed_meanwhile_is_known(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog is read before and after the listing."""
    with lakeconf.init(project).get_store("dev").open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.append(ROWS)
        known = module.registered_files

        def committed_afterwards(reader: CatalogReader) -> tuple[dict[str, int | None], frozenset[str]]:
            before = known(reader)
            if len(before[0]) == 1:
                table.append(ROWS)
            return before

        monkeypatch.setattr(module, "registered_files", committed_afterwards)
        assert data_path_files(catalog_of(lake)).unknown == ()
        assert len(table.files()) == 2


FILES = (
    TableFile("a", rows=10, bytes=100, begin_snapshot=1, delete_file="d", deleted_rows=3),
    TableFile("b", rows=20, bytes=200, begin_snapshot=2, deleted_rows=1),  # inlined deletes
    TableFile("c", rows=5, bytes=50, begin_snapshot=2),
)


def test_size_is_the_sum_over_its_files() -> None:
    size = TableSize("main.t", FILES, inlined_rows=2)
    assert (size.rows, size.deleted_rows, size.delete_files, size.bytes) == (33, 4, 1, 350)
    empty = TableSize("main.t", (), inlined_rows=0)
    assert (empty.rows, empty.deleted_rows, empty.delete_files, empty.bytes) == (0, 0, 0, 0)


def test_tables_of_a_lake_have_the_size_of_its_snapshot(store: Store) -> None:
    with store.connect() as native:
        native.execute("CREATE TABLE dev.t AS SELECT range AS a FROM range(100)")
        native.execute('CREATE SCHEMA dev."odd.schema"; CREATE TABLE dev."odd.schema".u (a INTEGER)')
        native.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
        native.execute("DELETE FROM dev.t WHERE a < 3")
        native.execute('INSERT INTO dev."odd.schema".u VALUES (1), (2)')
    with store.open() as lake:
        t, u = sorted(table_sizes(lake), key=lambda size: size.rows, reverse=True)
        assert (t.table, len(t.files), t.rows, t.deleted_rows, t.inlined_rows) == ("main.t", 1, 97, 3, 0)
        assert (u.table, u.files, u.rows, u.inlined_rows) == ('"odd.schema".u', (), 2, 2)
        assert t.bytes == t.files[0].bytes > 0
        assert [(one.table, one.rows) for one in table_sizes(lake.at(version=1))] == [("main.t", 100)]
        assert table_sizes(lake.at(version=0)) == []
