"""`lakeconf load`: its types, its plan, its consent, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

CSV = "id,price\n1,2.5\n2,3.25\n"
PLAN = """\
column  type    from
id      BIGINT  file
price   DOUBLE  file
create raw.prices: 2 rows
"""


def rows(table: str = "raw.prices") -> list[tuple[Any, ...]]:
    with lakeconf.init().get_store().open() as lake:
        native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
        found: list[tuple[Any, ...]] = native.fetchall()
        return found


def test_types_and_consent_come_first(project: Path, called: Any) -> None:
    (project / "prices.csv").write_text(CSV)
    before = sorted(path.name for path in project.iterdir())
    for options, code in (("--dry-run",), 0), ((), 2):
        assert called("load", "prices.csv", "raw.prices", *options)[:2] == (code, PLAN)
        assert sorted(path.name for path in project.iterdir()) == before
    code, out, _ = called("load", "prices.csv", "raw.prices", "--yes", "--type", "Price=DECIMAL(10,2)")
    assert (code, out.splitlines()[2]) == (0, "price   DECIMAL(10,2)  option")
    # The second time, the types are those of the table, and the rows come again.
    code, out, _ = called("load", "prices.csv", "RAW.prices", "--yes", "--format", "json")
    found = json.loads(out)
    assert (code, found["created"], found["rows"], found["columns"]["price"]) == (0, False, 2, "DECIMAL(10,2)")
    assert len(rows()) == 4
    with lakeconf.init().get_store().open() as lake:
        assert lake.snapshot_id == found["snapshot_id"]
        assert lake.snapshots()[-1].message == "load prices.csv"


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_each_format_is_loaded(ending: str, project: Path, called: Any) -> None:
    duckdb.execute(f"COPY (SELECT 1 AS id, DATE '2024-01-02' AS day) TO '{project / f'rows.{ending}'}'")
    assert called("load", f"rows.{ending}", "raw.t", "--yes")[0] == 0
    assert [(one, str(day)) for one, day in rows("raw.t")] == [(1, "2024-01-02")]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "id,price\n1,2.555\n",
            ("--type", "price=DECIMAL(10,2)"),
            "has values that its type DECIMAL(10,2) would round",
        ),
        ("id,day\n1,03/04/2024\n", ("--type", "day=DATE"), "has the value '03/04/2024', which is no DATE in ISO 8601"),
        (CSV, ("--type", "prize=DOUBLE"), "prices.csv has no column 'prize'"),
        (CSV, ("--type", "price=DOUBEL"), "invalid type 'DOUBEL'"),
        (CSV, ("--type", "price"), "expected a form such as price=DECIMAL(10,2)"),
    ],
)
def test_value_or_option_that_does_not_fit_is_refused(
    text: str, options: tuple[str, ...], message: str, project: Path, called: Any
) -> None:
    (project / "prices.csv").write_text(text)
    code, _, err = called("load", "prices.csv", "raw.prices", "--yes", *options)
    assert (code in (1, 2), message in err) == (True, True)
    assert not (project / "catalog.sqlite").exists()


def test_column_that_the_table_lacks_is_refused(project: Path, called: Any) -> None:
    (project / "prices.csv").write_text(CSV)
    assert called("load", "prices.csv", "raw.prices", "--yes")[0] == 0
    (project / "prices.csv").write_text("id,price,note\n1,2.5,x\n")
    code, _, err = called("load", "prices.csv", "raw.prices", "--yes")
    assert (code, "note" in err) == (1, True)
    assert len(rows()) == 2
