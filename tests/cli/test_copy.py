"""`lakeconf load`, `restore`, `copy` and `diff`: types, plans, consent, what they do, and what they refuse."""

from __future__ import annotations

import contextlib
import json
import os
import pty
from typing import TYPE_CHECKING, Any

import click
import duckdb
import pytest
from promotions import stored_rows

import lakeconf
from lakeconf.cli.app import run
from lakeconf.errors import CommitConflictError
from lakeconf.inspection.table_copy import TableCopies, opened_target
from lakeconf.pipelines.loading import load, planned_load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Lake


CONFIGURATION = """
[stores.prod]
metadata_backend = { type = "sqlite", uri = "prod.sqlite" }
storage_backend = { type = "local", path = "prod" }

[stores.prod_again]
extends = "prod"

[stores.duck]
alias = "prod"
metadata_backend = { type = "duckdb", uri = "duck.duckdb" }
storage_backend = { type = "local", path = "duck" }
"""


@pytest.fixture
def folder(project: Path) -> Path:
    """The table marts.t has four rows in dev, and three of them in prod; marts.same is equal in both."""
    with (project / "lakeconf.toml").open("a") as file:
        file.write(CONFIGURATION)
    for name, count in (("dev", 4), ("prod", 3)):
        with lakeconf.init().get_store(name).open() as lake:
            for table, rows in (("marts.t", count), ("marts.same", 2)):
                frame = lake.sql(f"SELECT range AS id, 'n' || range AS name FROM range({rows})")
                lake.create_table(table, like=frame).append(frame)
    return project


PLAN = "skip     marts.same  equal in both\nreplace  marts.t     1 row added\n"


@pytest.mark.slow
def test_a_plan_and_consent_come_first(folder: Path, called: Any) -> None:
    code, out, err = called("copy", "dev", "prod")
    assert (code, out) == (2, PLAN)
    assert "--yes" in err
    assert called("copy", "dev", "prod", "--dry-run")[:2] == (0, PLAN)
    assert len(stored_rows("marts.t", "prod")) == 3
    code, out, _ = called("copy", "dev", "prod", "--yes", "--format", "json")
    found = json.loads(out)
    assert [(one["table"], one["action"], one["added"], one["removed"]) for one in found["tables"]] == [
        ("marts.same", "skip", 0, 0),
        ("marts.t", "replace", 1, 0),
    ]
    assert stored_rows("marts.t", "prod") == stored_rows("marts.t", "dev")
    with lakeconf.init().get_store("prod").open() as lake:
        assert lake.snapshot_id == found["snapshot_id"]
        assert lake.snapshots()[-1].message == "copy marts.t from dev"
    assert called("copy", "dev", "prod", "marts.t", "--yes")[1] == "skip  marts.t  equal in both\nnothing to copy\n"


@pytest.mark.slow
def test_a_new_table_has_everything_of_its_source(folder: Path, called: Any) -> None:
    definition: dict[str, Any] = {
        "partitioned_by": ["year(day)", "bucket(4, id)"],
        "sorted_by": ["id DESC NULLS LAST"],
        "comment": "Sales.",
        "column_comments": {"id": "The key."},
    }
    with lakeconf.init().get_store("dev").open() as lake:
        wanted = {"id": "UUID NOT NULL", "day": "DATE", "n": "HUGEINT", "s": "STRUCT(a INTEGER[], b DECIMAL(9,2))"}
        made = lake.create_table("raw.sales", wanted, **definition)
        values = "uuid() AS id, DATE '2024-05-17' AS day, 7::HUGEINT AS n, {'a': [1], 'b': 2.50::DECIMAL(9,2)} AS s"
        made.append(lake.sql(f"SELECT {values}"))
        expected = (made.schema, made.comment)
    for target in ("prod", "duck"):
        code, out, _ = called("copy", "dev", target, "raw.sales", "--yes")
        assert (code, out.splitlines()[0]) == (0, "create  raw.sales  1 row added")
        assert stored_rows("raw.sales", target) == stored_rows("raw.sales", "dev")
        with lakeconf.init().get_store(target).open() as lake:
            found = lake.table("raw.sales")
            assert (found.schema, found.comment) == expected
        assert called("copy", "dev", target, "raw.sales")[1].startswith("skip")


@pytest.mark.slow
def test_a_table_that_differs_becomes_that_of_the_source(folder: Path, called: Any) -> None:
    """Whether its columns, its comments and partition keys, or only its rows differ."""
    changes: list[tuple[Callable[[Lake], object], str]] = [
        (lambda lake: lake.table("marts.same").evolve(add={"note": "VARCHAR"}), "- note VARCHAR"),
        (lambda lake: lake.table("marts.same").evolve(drop=["name"]), "+ name VARCHAR"),
        (
            lambda lake: lake.table("marts.same").evolve(promote={"id": "DECIMAL(38, 0)"}),
            "+ id BIGINT; - id DECIMAL(38,0)",
        ),
        (
            lambda lake: (
                lake.drop_table("marts.same"),
                lake.create_table("marts.same", {"name": "VARCHAR"}, partitioned_by=["name"], comment="Other."),
            ),
            "2 rows added; + id BIGINT; partitioned by nothing; other comments",
        ),
        (lambda lake: lake.table("marts.same").append([{"id": 9, "name": None}]), "replace  marts.same  1 row removed"),
    ]
    for change, shown in changes:
        with lakeconf.init().get_store("prod").open() as lake:
            change(lake)
        code, out, _ = called("copy", "dev", "prod", "marts.same", "--yes")
        assert (code, out.splitlines()[0].endswith(shown)) == (0, True), out
        assert stored_rows("marts.same", "prod") == stored_rows("marts.same", "dev")
    assert called("copy", "dev", "prod", "marts.same")[1].startswith("skip")


@pytest.mark.slow
def test_a_plan_creates_no_lake(folder: Path, called: Any) -> None:
    for options in (("--dry-run",), ()):
        code, out, _ = called("copy", "dev", "duck", *options)
        assert (code, out) == (
            0 if options else 2,
            "create  marts.same  2 rows added\ncreate  marts.t     4 rows added\n",
        )
        assert not (folder / "duck.duckdb").exists()
        assert not (folder / "duck").exists()
    code, _, err = called("copy", "duck", "prod", "--yes")
    assert (code, "store 'duck' has no lake yet" in err) == (1, True)
    assert called("copy", "dev", "duck", "--yes")[0] == 0
    assert stored_rows("marts.t", "duck") == stored_rows("marts.t", "dev")


@pytest.mark.slow
def test_what_cannot_be_copied_is_refused(folder: Path, called: Any) -> None:
    """Two names of one lake, and what runs have done."""
    with lakeconf.init().get_store("dev").open() as lake:
        lake.table("marts.t").append([{"id": 9, "name": None}], idempotency_key="k")
    for arguments, message in (
        (("prod", "prod"), "are the same lake"),
        (("prod", "prod_again"), "are the same lake"),
        (("dev", "prod", "lakeconf.commits"), "belongs to lakeconf"),
        (("dev", "prod", "LAKECONF.commits"), "belongs to lakeconf"),
    ):
        code, _, err = called("copy", *arguments, "--yes")
        assert (code, message in err) == (1, True)


@pytest.mark.slow
def test_a_view_of_the_same_name_is_kept(folder: Path, called: Any) -> None:
    with lakeconf.init().get_store("prod").open() as lake:
        lake.drop_table("marts.t")
        lake.create_view("marts.t", "SELECT 1 AS id")
    assert called("copy", "dev", "prod", "--yes")[0] == 1
    assert stored_rows("marts.t", "prod") == [(1,)]


@pytest.mark.slow
def test_a_table_that_changed_after_the_plan_is_not_replaced(folder: Path) -> None:
    config = lakeconf.init()
    with config.get_store("prod").open() as lake, config.get_store("prod").open() as other:
        copies = TableCopies(lake, config.get_store("dev"))
        steps = copies.plan()
        other.table("marts.t").append([{"id": 9, "name": None}])
        with pytest.raises(CommitConflictError):
            copies.copy(steps)
    assert len(stored_rows("marts.t", "prod")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("source_changes", [False, True])
def test_a_lake_that_was_created_after_the_plan_is_not_replaced(folder: Path, *, source_changes: bool) -> None:
    config = lakeconf.init()
    target, source = config.get_store("duck"), config.get_store("dev")
    with contextlib.ExitStack() as stack:
        lake, is_new = opened_target(stack, target)
        assert is_new
        copies = TableCopies(lake, source)
        steps = copies.plan()
        with target.open() as made:
            if not source_changes:
                made.create_table("marts.t", {"id": "BIGINT"}).append([{"id": 100}])
        if source_changes:
            with source.open() as changed:
                changed.table("marts.t").append([{"id": 9, "name": None}])
        new = stack.enter_context(target.open())
        if source_changes:
            copies.copy_to(new, source, steps)
        else:
            with pytest.raises(CommitConflictError, match="after the plan was made"):
                copies.copy_to(new, source, steps)
    assert len(stored_rows("marts.t", "duck")) == (4 if source_changes else 1)


@pytest.mark.slow
def test_models_of_the_target_run_as_usual(folder: Path, called: Any) -> None:
    with (folder / "lakeconf.toml").open("a") as file:
        file.write('\n[pipeline.models."marts.m"]\nsql = "m.sql"\n')
    (folder / "m.sql").write_text("SELECT count(*) AS n FROM marts.t")
    assert run(["run", "--store", "prod"]) == 0
    assert called("copy", "dev", "prod", "marts.t", "--yes")[0] == 0
    assert run(["run", "--store", "prod"]) == 0
    assert stored_rows("marts.m", "prod") == [(4,)]


STORES = """
[stores.dev]
metadata_backend = { type = "sqlite", uri = "dev.sqlite" }
storage_backend = { type = "local", path = "dev" }

[stores.prod]
metadata_backend = { type = "sqlite", uri = "prod.sqlite" }
storage_backend = { type = "local", path = "prod" }
"""


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores. Their tables marts.t differ in each way, marts.more has one row more, and marts.same are equal."""
    folder = tmp_path_factory.mktemp("diff")
    (folder / "lakeconf.toml").write_text(STORES)
    keyed = {
        "dev": "SELECT * FROM (VALUES (1, 'a', [1, NULL]), (2, 'b', [2])) AS t(id, name, tags)",
        "prod": "SELECT *, true AS flag FROM (VALUES (1, 'A', [1, NULL]), (3, NULL, [2])) AS t(id, name, tags)",
    }
    for name, rows in (("dev", 2), ("prod", 3)):
        with lakeconf.init(folder).get_store(name).open() as lake:
            more = f"SELECT range AS id FROM range({rows})"
            for table, sql in (("t", keyed[name]), ("more", more), ("same", "SELECT 1 AS id")):
                lake.create_table(f"marts.{table}", lake.sql(sql)).append(lake.sql(sql))
    return folder


@pytest.fixture
def compared(lakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the two stores is the current one."""
    monkeypatch.chdir(lakes)


def test_equal_tables_and_a_table_with_one_row_more(compared: None, called: Any) -> None:
    assert called("diff", "dev", "prod", "marts.same") == (
        0,
        "marts.same: dev has 1 rows, prod 1\n  1 equal, 0 in dev only, 0 in prod only\n",
        "",
    )
    for table, code, rows in (("same", 0, 1), ("more", 1, 2)):
        found_code, out, _ = called("diff", "dev", "prod", f"marts.{table}", "--format", "json")
        found = json.loads(out)
        assert (found_code, found["equal"] is (code == 0), found["equal_rows"]) == (code, True, rows)


@pytest.mark.slow
def test_differences_with_a_key(compared: None, called: Any) -> None:
    code, out, err = called("diff", "dev", "prod", "marts.t", "--on", "ID")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "marts.t: dev has 2 rows, prod 2",
        "  column flag: none in dev, BOOLEAN in prod",
        "  0 equal, 1 in dev only, 1 in prod only",
        "  name differs in 1 rows of the same ID",
        "  rows in dev only:",
        "    id=2, name=b, tags=[2]",
        "  rows in prod only:",
        "    id=3, name=None, tags=[2]",
        "  rows that differ ([dev, prod]):",
        "    id=1, name=[a, A], tags=[[1, None], [1, None]]",
    ]


def test_differences_as_json(compared: None, called: Any) -> None:
    arguments = ("diff", "dev", "prod", "marts.t", "--on", "id", "--format", "json")
    code, out, _ = called(*arguments)
    found = json.loads(out)
    assert (code, found["equal"], found["equal_rows"], found["stores"]) == (1, False, 0, ["dev", "prod"])
    assert found["table"] == "marts.t"
    assert (found["rows"], found["only"], found["columns"]["name"]) == ([2, 2], [1, 1], 1)
    assert found["schema"] == [["flag", None, "BOOLEAN"]]
    assert found["sample_changes"] == [{"id": 1, "name": ["a", "A"], "tags": [[1, None], [1, None]]}]


def test_key_of_several_columns_and_unknown_names(compared: None, called: Any) -> None:
    code, out, _ = called("diff", "dev", "prod", "marts.t", "--on", "id", "--on", "tags")
    assert code == 1
    assert "  name differs in 1 rows of the same id, tags" in out.splitlines()
    for *arguments, message in (
        ("dev", "nowhere", "marts.t", "use one of the stores: dev, prod"),
        ("dev", "prod", "marts.none", "the store 'dev' has no table marts.none"),
        ("dev", "prod", "marts.t", "--on", "nothing", "marts.t has no column 'nothing' in both stores"),
    ):
        code, out, err = called("diff", *arguments)
        assert (code, out, message in err) == (1, "", True)


CSV = "id,price\n1,2.5\n2,3.25\n"
LOAD_PLAN = """\
column  type    from
id      BIGINT  file
price   DOUBLE  file
create raw.prices: 2 rows
"""


@pytest.mark.slow
def test_types_and_consent_come_first(project: Path, called: Any) -> None:
    (project / "prices.csv").write_text(CSV)
    before = sorted(path.name for path in project.iterdir())
    code, out, err = called("load", "prices.csv", "a.b.c", "--dry-run")
    assert (code, out, err.splitlines()[0]) == (1, "", "error: 'a.b.c' is not a valid table name")
    for options, code in (("--dry-run",), 0), ((), 2):
        assert called("load", "prices.csv", "raw.prices", *options)[:2] == (code, LOAD_PLAN)
        assert sorted(path.name for path in project.iterdir()) == before
    code, out, _ = called("load", "prices.csv", "raw.prices", "--yes", "--type", "Price=DECIMAL(10,2)")
    assert (code, out.splitlines()[2]) == (0, "price   DECIMAL(10,2)  option")
    # The second time, the types are those of the table, and the rows come again.
    code, out, _ = called("load", "prices.csv", "RAW.prices", "--yes", "--format", "json")
    found = json.loads(out)
    assert (code, found["created"], found["rows"], found["columns"]["price"]) == (0, False, 2, "DECIMAL(10,2)")
    assert len(stored_rows("raw.prices")) == 4
    with lakeconf.init().get_store().open() as lake:
        assert lake.snapshot_id == found["snapshot_id"]
        assert lake.snapshots()[-1].message == "load prices.csv"


def test_content_that_was_loaded_before_is_a_warning_that_names_the_snapshot(project: Path, called: Any) -> None:
    (project / "prices.csv").write_text(CSV)
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.other", {"id": "BIGINT"})
    twice = "warning: raw.prices: prices.csv was loaded in snapshot 2: its rows would be in the table twice"
    for name, table, warning in (
        ("prices.csv", "raw.prices", None),
        ("prices.csv", "raw.others", None),
        ("prices.csv", "raw.prices", twice),
        ("prices.csv", "RAW.Prices", twice.replace("raw.prices", "RAW.Prices").replace("snapshot 2", "snapshot 4")),
    ):
        code, _, err = called("load", name, table, "--yes")
        assert (code, err.strip() or None) == (0, warning)
    # A copy is the same content; other content of the same file is not.
    (project / "copy.csv").write_text(CSV)
    code, out, err = called("load", "copy.csv", "raw.prices", "--format", "json")
    assert (code, json.loads(out)["loaded_in"], "was loaded in snapshot 5" in err) == (2, 5, True)
    (project / "prices.csv").write_text(CSV.replace("2.5", "3.5"))
    assert called("load", "prices.csv", "raw.prices", "--yes")[2] == ""
    assert len(stored_rows("raw.prices")) == 8
    # A new table of the same name has no rows of it.
    with lakeconf.init().get_store().open() as lake:
        lake.drop_table("raw.prices")
    assert called("load", "copy.csv", "raw.prices", "--yes")[2] == ""


def test_load_of_the_same_content_asks_by_its_name(project: Path, called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "prices.csv").write_text(CSV)
    assert called("load", "prices.csv", "raw.prices", "--yes")[0] == 0
    leader, follower = pty.openpty()
    os.write(leader, b"n\n")
    with os.fdopen(follower, "r") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        code, _, err = called("load", "prices.csv", "raw.prices")
    os.close(leader)
    assert (code, "Load prices.csv into raw.prices of dev again?" in err) == (1, True)
    assert len(stored_rows("raw.prices")) == 2


@pytest.mark.slow
def test_each_format_is_loaded(project: Path, called: Any) -> None:
    for ending in ("csv", "json", "parquet"):
        duckdb.execute(f"COPY (SELECT 1 AS id, DATE '2024-01-02' AS day) TO '{project / f'rows.{ending}'}'")
        assert called("load", f"rows.{ending}", f"raw.{ending}", "--yes")[0] == 0
        assert [(one, str(day)) for one, day in stored_rows(f"raw.{ending}")] == [(1, "2024-01-02")]


@pytest.mark.slow
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


@pytest.mark.slow
def test_errors_of_the_reader_propose_no_options_of_duckdb(project: Path, called: Any) -> None:
    for content, types, said in (
        (b"id,name\n1,caf\xe9\n", (), "not utf-8"),
        (b"id\n" + b"1\n" * 30_000 + b"x\n", ("--type", "id=INTEGER"), "Could not convert"),
    ):
        (project / "prices.csv").write_bytes(content)
        code, _, err = called("load", "prices.csv", "raw.prices", "--yes", *types)
        assert (code, said in err, "prices.csv: " in err, "hint: change the file" in err) == (1, True, True, True), err
        assert "ignore_errors" not in err


GOOD = "id,name,x\n" + "".join(f"{number},n{number},{number}\n" for number in range(50))


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert len(stored_rows("raw.prices")) == 2


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


@pytest.mark.slow
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
    assert (code, err, stored_rows("raw.events")) == (1, "nothing was changed\n", BEFORE)
    code, out, _ = called(*arguments, "--yes")
    assert (code, out) == (0, RESTORED + "restored raw.events in snapshot 5\n")
    assert stored_rows("raw.events") == AFTER
    assert called("restore", "raw.events", "--version", "5", "--yes") == (
        0, "raw.events has not changed since version 5: nothing to restore\n", "",
    )  # fmt: skip


@pytest.mark.slow
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
    assert (code, stored_rows("raw.events")) == (0, BEFORE)


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
