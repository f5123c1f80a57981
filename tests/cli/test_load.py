"""`lakeconf load` and `lakeconf restore`: types, plans, consent, and what they refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import duckdb
import pytest
from promotions import stored_rows as rows

import lakeconf
from lakeconf.errors import CommitConflictError
from lakeconf.pipelines.loading import load, planned_load

if TYPE_CHECKING:
    from pathlib import Path


CSV = "id,price\n1,2.5\n2,3.25\n"
PLAN = """\
column  type    from
id      BIGINT  file
price   DOUBLE  file
create raw.prices: 2 rows
"""


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
    assert len(rows("raw.prices")) == 4
    with lakeconf.init().get_store().open() as lake:
        assert lake.snapshot_id == found["snapshot_id"]
        assert lake.snapshots()[-1].message == "load prices.csv"


def test_each_format_is_loaded(project: Path, called: Any) -> None:
    for ending in ("csv", "json", "parquet"):
        duckdb.execute(f"COPY (SELECT 1 AS id, DATE '2024-01-02' AS day) TO '{project / f'rows.{ending}'}'")
        assert called("load", f"rows.{ending}", f"raw.{ending}", "--yes")[0] == 0
        assert [(one, str(day)) for one, day in rows(f"raw.{ending}")] == [(1, "2024-01-02")]


def test_value_or_option_that_does_not_fit_is_refused(project: Path, called: Any) -> None:
    cases: list[tuple[str, str, str]] = [
        ("id,price\n1,2.555\n", "price=DECIMAL(10,2)", "which its type DECIMAL(10,2) would change"),
        ("id,price\n1,2.555\n", "price=DECIMAL(10,2)", 'pass --type "price=VARCHAR"'),
        ("id,day\n1,03/04/2024\n", "day=DATE", "has the value '03/04/2024', which is no DATE in ISO 8601"),
        ("zip\n" + "10000\n" * 21_000 + "00501\n", "", "has the value '00501', which is no BIGINT"),
        ("at\n2024-01-31 12:00:00+01\n", "at=TIMESTAMP", "it has an offset from UTC"),
        (CSV, "prize=DOUBLE", "prices.csv has no column 'prize'"),
        (CSV, "price=DOUBEL", "invalid type 'DOUBEL'"),
        (CSV, "price=DOUBLE Price=INT", "'Price' has two types"),
        ("id,__lakeconf_x\n1,2\n", "", "the column name '__lakeconf_x' is reserved"),
        (CSV, "price", "'price' is not of a form such as price=DECIMAL(10,2)"),
    ]
    for text, types, message in cases:
        (project / "prices.csv").write_text(text)
        options = [part for one in types.split() for part in ("--type", one)]
        code, _, err = called("load", "prices.csv", "raw.prices", "--yes", *options)
        assert (code in (1, 2), message in err, "columns of the model" in err) == (True, True, False), err
        assert not (project / "catalog.sqlite").exists()


GOOD = "id,name,x\n" + "".join(f"{number},n{number},{number}\n" for number in range(50))


def test_no_line_is_left_out_and_no_integer_changes(project: Path, called: Any) -> None:
    lines = "the lines of prices.csv do not have the same number of values"
    for number, (text, count, message) in enumerate(
        (
            (f"{GOOD}50,e,5,EXTRA\n", 0, lines),
            (f"{GOOD}total,,1225,50\n", 0, lines),
            (f"{GOOD}50,e\n", 0, lines),
            (f"{GOOD * 2000}1,a,2,b\n", 0, "prices.csv"),
            ("id\n12345678901234567890\n12345678901234567891\n", 0, "which its type DOUBLE would change"),
            (f"id\n{10**40}\n", 0, "which its type DOUBLE would change"),
            ("id,name\n1,a\n#2,b\n3,c\n", 3, ""),
            ("#id,name\n1,a\n", 1, ""),
            ("k,id\na,1\n#b,2\n", 2, ""),
            ("id,name\n\n1,a\n", 1, ""),
            ('name\n"a, b"\n', 1, ""),
            ("id\tname\n1\ta, b\n", 1, ""),
            ("id\n1.5\n123456789012345\n-9007199254740992\n0.1\n1e300\n", 5, ""),
        )
    ):
        (project / "prices.csv").write_text(text)
        code, out, err = called("load", "prices.csv", f"raw.t{number}", "--yes")
        assert (code, message in err) == (0 if count else 1, True), err
        assert f"raw.t{number}: {count} row" in out or not count
        assert (project / "catalog.sqlite").exists() == bool(count)


def test_file_that_does_not_fit_the_table_has_no_plan(project: Path, called: Any) -> None:
    (project / "prices.csv").write_text(CSV)
    assert called("load", "prices.csv", "raw.prices", "--yes")[0] == 0
    columns = "raw.prices do not have the same columns: only one"
    for text, said, hint in (
        ("id,price,note\n1,2.5,x\n", f"prices.csv and {columns}", "with a model of the"),
        ("id\n1\n", f"{columns} of them has price", "with a model of the kind"),
        ("id,price\n2.5,1\n", "the column 'id' of prices.csv has the value '2.5'", "change the values in the file"),
    ):
        (project / "prices.csv").write_text(text)
        code, out, err = called("load", "prices.csv", "raw.prices")
        assert (code, out, said in err, hint in err) == (1, "", True, True)
    assert len(rows("raw.prices")) == 2


def test_what_was_confirmed_is_what_is_loaded(project: Path) -> None:
    file = project / "prices.csv"
    file.write_text(CSV)
    with lakeconf.init().get_store().open() as lake:
        plan = planned_load(lake, file, "raw.prices", {})
        file.write_text(CSV.replace("2.5", "2.6"))
        with pytest.raises(CommitConflictError, match=r"prices\.csv has changed since the plan was made; nothing was"):
            load(lake, file, "raw.prices", plan)
        assert lake.tables() == []
        plan = planned_load(lake, file, "raw.prices", {})
        lake.create_table("raw.prices", {"id": "BIGINT", "price": "DOUBLE"})
        with pytest.raises(CommitConflictError, match=r"raw\.prices has changed since the plan was made; nothing was"):
            load(lake, file, "raw.prices", plan)
        assert lake.table("raw.prices").count() == 0


BEFORE, AFTER = [(2, "view"), (3, "buy")], [(1, "view"), (2, "view")]
RESTORED = """\
replace rows: raw.events as of version 2
rows now   2
rows then  2
"""


def test_restore_shows_its_plan_and_needs_consent(
    events_folder: Path, called: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("restore", "raw.events", "--version", "2")
    code, out, err = called(*arguments)
    assert (code, out, "then pass --yes" in err) == (2, RESTORED, True)
    assert called(*arguments, "--dry-run") == (0, RESTORED, "")
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdin.isatty", lambda: True, raising=False)
        terminal.setattr(click, "confirm", lambda *_, **__: False)
        code, _, err = called(*arguments)
    assert (code, err, rows("raw.events")) == (1, "nothing was changed\n", BEFORE)
    code, out, _ = called(*arguments, "--yes")
    assert (code, out) == (0, RESTORED + "restored raw.events in snapshot 5\n")
    assert rows("raw.events") == AFTER
    assert called("restore", "raw.events", "--version", "5", "--yes") == (
        0, "raw.events has not changed since version 5: nothing to restore\n", "",
    )  # fmt: skip


def test_dropped_table_comes_back(events_folder: Path, called: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.drop_table("raw.events")
    code, out, _ = called("restore", "raw.events", "--version", "4", "--format", "json", "--yes")
    assert json.loads(out) == {
        "table": "raw.events",
        "version": 4,
        "action": "create again",
        "rows_now": None,
        "rows_then": 2,
        "columns": [],
        "notes": ["the table starts without idempotency keys"],
        "snapshot_id": 6,
    }
    assert (code, rows("raw.events")) == (0, BEFORE)


def test_version_or_time_selects_the_snapshot(events_folder: Path, called: Any) -> None:
    for options, code, message in (
        (("--timestamp", "2000-01-01"), 1, "no snapshot exists at 2000-01-01T00:00:00+00:00"),
        (("--timestamp", "2000-01-01T00:00:00.999999+0000"), 2, "Invalid value"),
        ((), 2, "pass either --version or --timestamp"),
        (("--version", "1", "--timestamp", "2026-01-01"), 2, "pass either --version or --timestamp"),
    ):
        found, _, err = called("restore", "raw.events", *options)
        assert (found, message in err) == (code, True)
    code, out, err = called("restore", "raw.events", "--timestamp", "2999-01-01T00:00:00+0100", "--dry-run")
    assert (code, out) == (0, "raw.events has not changed since version 4: nothing to restore\n")
