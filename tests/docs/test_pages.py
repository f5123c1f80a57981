"""Pages run in order in a fresh folder, as a reader would run them, and give the output that they show."""

from __future__ import annotations

import logging
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from doc_pages import blocks
from shell import run_shell
from source_tree import REPOSITORY

import lakeconf
from lakeconf.cli.app import run
from lakeconf.inspection.doctor import diagnose

INIT = """
import lakeconf
from lakeconf.cli.app import run
run(["init"])
"""
EVENTS = f"""{INIT}
with lakeconf.init().get_store().open() as lake:
    table = lake.create_table("raw.events", {{"id": "BIGINT", "kind": "VARCHAR"}})
    table.append([{{"id": 1, "kind": "view"}}, {{"id": 2, "kind": "view"}}])
    table.delete("id = 1")
    table.append([{{"id": 3, "kind": "buy"}}])
"""
FILES = """
from pathlib import Path
import duckdb
Path("events").mkdir()
Path("events/1.csv").write_text("id,day,revenue\\n1,2024-01-01,9.99\\n2,2024-01-01,29.99\\n3,2024-01-02,5\\n")
Path("orders.csv").write_text("id,item,price\\n1,tea,3.50\\n2,cup,9.00\\n")
Path("old").mkdir()
day = "DATE '2026-01-01' + (id % 2)::INTEGER AS day"
duckdb.sql(f"COPY (SELECT id, {day} FROM range(3) AS t(id)) TO 'old/events' (FORMAT parquet, PARTITION_BY (day))")
"""
TWO_STORES = """
import lakeconf
from pathlib import Path
with Path("lakeconf.toml").open("w") as file:
    print('default_store = "dev"', file=file)
    for name in ("dev", "prod"):
        print(f'[stores.{name}]', file=file)
        print(f'metadata_backend = {{ type = "sqlite", uri = "{name}.sqlite" }}', file=file)
        print(f'storage_backend = {{ type = "local", path = "{name}" }}', file=file)
for name in ("dev", "prod"):
    with lakeconf.init().get_store(name).open() as lake:
        lake.create_table("raw.orders", {"id": "BIGINT"}).append([{"id": 1}])
"""
# A table to read in one store, and an open lake to copy it to; the data source needs the configuration's path.
TWO_LAKES = f"""{TWO_STORES}
columns = {{"id": "BIGINT", "kind": "VARCHAR", "day": "DATE"}}
with lakeconf.init().get_store("prod").open() as lake:
    lake.create_table("raw.events", columns)
    lake.execute("INSERT INTO raw.events VALUES (1, 'view', '2026-01-02'), (2, 'buy', '2025-12-31')")
copy = lakeconf.init().get_store("dev").open(spark)
copy.create_table("raw.events", columns)
frame = spark.sql("SELECT 3L AS id, 'buy' AS kind, DATE '2026-01-03' AS day")
"""
# What each page takes for granted.
PAGES = {
    "README.md": "",
    "docs/getting-started.md": "",
    "docs/writing.md": INIT,
    "docs/sql.md": TWO_STORES,
    "docs/inspect.md": EVENTS,
    "docs/doctor.md": EVENTS,
    "docs/maintenance.md": EVENTS,
    "docs/load-files.md": INIT + FILES,
    "docs/pipelines.md": FILES,
    "docs/logging.md": EVENTS,
    "docs/leaving.md": EVENTS,
    "docs/spark-source.md": TWO_LAKES,
    "docs/spark-sql.md": INIT,
}
# What a query of the lake returns at the end of a page.
RESULTS = {
    "docs/writing.md": (
        "SELECT DISTINCT id, event_type, amount::BIGINT FROM raw.events WHERE id IN (1, 2, 3, 99) ORDER BY ALL",
        [(2, "sale", 207), (99, "sale", 5)],
    ),
    "docs/pipelines.md": ("SELECT id, revenue::DOUBLE FROM marts.large", [(2, 29.99)]),
    "docs/spark-source.md": ("SELECT id FROM raw.events ORDER BY id", [(1,), (2,), (3,)]),
}
ON_SPARK = (
    "README.md",
    "docs/getting-started.md",
    "docs/writing.md",
    "docs/sql.md",
    "docs/spark-source.md",
    "docs/spark-sql.md",
)
ONLY_ON_SPARK = ("docs/sql.md", "docs/spark-source.md", "docs/spark-sql.md")
FORMAT = 'format("lakeconf")'
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"(?:#|--) (\S+\.(?:py|sql|toml))\n")


class Reader:
    """Follows a page in the working folder.

    Attributes:
        names: What the Python blocks have defined.
        printed: The output of the last Python block.
    """

    def __init__(self, folder: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.printed = folder, capsys, ""
        self.names: dict[str, Any] = {"spark": spark, "__name__": "page"}

    def follow(self, language: str, block: str) -> None:
        if found := NAME.match(block):
            (self.folder / found[1]).parent.mkdir(exist_ok=True)
            (self.folder / found[1]).write_text(block)
        elif language == "python":
            code = block.replace(".open()  # on Spark", ".open(spark)  #") if self.names["spark"] else block
            # The processes of Spark have another working folder.
            code = code.replace(FORMAT, f'{FORMAT}.option("config", "{self.folder / "lakeconf.toml"}")')
            code = code.replace('"checkpoint"', f'"{self.folder / "checkpoint"}"')
            exec(compile(code, "page", "exec"), self.names)  # noqa: S102 - that is the test
            self.printed = self.output()
            assert_healthy(code)
        elif language == "text":
            assert self.printed == block
        elif language == "toml":
            self.configure(block)
        elif language == "sql" and self.names["spark"]:
            option = f"config '{self.folder / 'lakeconf.toml'}', store"
            self.names["spark"].sql(block.strip().rstrip(";").replace("store", option))
        elif language == "console":
            for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, shown = command.partition("\n")
                assert self.command(line) == shown, line
        elif language == "sh" and not block.startswith("pip install"):
            for line in block.splitlines():
                self.command(line)

    def configure(self, block: str) -> None:
        """Adds tables to the configuration, if it does not have them yet as shown."""
        config = self.folder / "lakeconf.toml"
        (header, *_) = re.findall(r"^\[.*\]$", block, re.MULTILINE)
        if header in config.read_text():
            assert block in config.read_text()
        else:
            with config.open("a") as file:
                file.write(f"\n{block}")

    def command(self, line: str) -> str:
        """Runs a command and returns its output."""
        words = shlex.split(line)
        if words[0] == "python":
            words += ["spark"] if self.names["spark"] else []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", words[1:])
                runpy.run_path(words[1], run_name="__main__")
        elif words[0] == "lakeconf" and ">" not in words:
            assert run(words[1:]) == 0, line
        else:
            return run_shell(line)
        return self.output()

    def output(self) -> str:
        """What was printed, with the folder and the Java of the pages."""
        printed = self.capsys.readouterr().out.replace(str(self.folder), "/shop")
        return re.sub(r"Java in \S+", "Java in /usr/lib/jvm/java-17-openjdk-amd64", printed)


def assert_healthy(after: str) -> None:
    """No step of `lakeconf doctor` fails or warns."""
    steps = {step.name: (step.status, step.found) for step in diagnose(lakeconf.init().get_store("dev"))}
    assert [step for step, (status, _) in steps.items() if status not in ("ok", "skipped")] == [], (steps, after)


MOST_WORDS, MOST_WORDS_OF_A_PAGE = 34_200, 2_500
# Of the map of the code, and of the pages about its design.
MOST_WORDS_OF_THE_MAP, MOST_WORDS_OF_DESIGN = 1_200, 8_500


def test_documentation_stays_short() -> None:
    design = {*(REPOSITORY / "docs" / "design").glob("*.md")}
    pages = {REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")} - design
    words = {str(page.relative_to(REPOSITORY)): len(page.read_text().split()) for page in pages}
    assert {page: number for page, number in words.items() if number > MOST_WORDS_OF_A_PAGE} == {}
    assert sum(words.values()) <= MOST_WORDS
    assert len((REPOSITORY / "lakeconf" / "ARCHITECTURE.md").read_text().split()) <= MOST_WORDS_OF_THE_MAP
    assert sum(len(page.read_text().split()) for page in design) <= MOST_WORDS_OF_DESIGN


CASES = [*((page, "duckdb") for page in PAGES if page not in ONLY_ON_SPARK), *((page, "spark") for page in ON_SPARK)]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "engine"), CASES)
def test_page_runs_in_order(
    page: str,
    engine: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("lakeconf"), "level", logging.NOTSET)
    reader = Reader(tmp_path, request.getfixturevalue("spark") if engine == "spark" else None, capsys)
    exec(PAGES[page], reader.names)  # noqa: S102 - prepares the folder
    reader.output()
    for language, block in FENCE.findall((REPOSITORY / page).read_text()):
        reader.follow(language, block)
    assert_healthy(page)
    if "copy" in reader.names:
        reader.names["copy"].close()
    if page in RESULTS:
        query, rows = RESULTS[page]
        with lakeconf.init().get_store("dev").open() as lake:
            assert lake.sql(query).to_native().fetchall() == rows


@pytest.fixture
def events_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the layout of `lakeconf init` and the table of the page."""
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.events", {"id": "BIGINT", "kind": "VARCHAR"})
        table.append([{"id": 1, "kind": "view"}, {"id": 2, "kind": "view"}])
        table.delete("id = 1")
        table.append([{"id": 3, "kind": "buy"}])
    return tmp_path


def ids() -> list[int]:
    with lakeconf.init().get_store().open() as lake:
        return sorted(lake.table("raw.events").to_arrow(["id"])["id"].to_pylist())


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> str:
        assert run(arguments) == 0
        return capsys.readouterr().out

    return call


@pytest.mark.slow
def test_restore_and_backup_of_the_page(events_folder: Path, shown: Any) -> None:
    assert ids() == [2, 3]
    for text in blocks("operations.md", "console"):
        command, _, output = text.partition("\n")
        assert shown(*command.removeprefix("$ lakeconf ").split()) == output
    assert ids() == [1, 2]
    (code,) = blocks("operations.md", "python")
    exec(compile(code, "docs/operations.md", "exec"), {})  # noqa: S102 - that is the test
    assert ids() == [1, 2]
    drill, branching, move = blocks("operations.md", "sh")
    assert_branched(branching)
    backup, *restore = drill.splitlines()
    run_shell(backup)
    with lakeconf.init().get_store().open() as lake:
        lake.table("raw.events").append([{"id": number, "kind": "late"} for number in range(9, 59)])
    found = run_shell("\n".join(restore))
    assert re.search(
        r"lost +1 commit:\n.*insert raw\.events \+50 rows.*restored dev: .*dev works\b", found, re.DOTALL
    ), found
    assert ids() == [1, 2]
    assert "if the catalog was restored from a backup" in shown(
        "maintain", "--dry-run", "--cleanup-days", "0", "--force"
    )
    assert_moved(move)


def assert_branched(branching: str) -> None:
    before = Path("lakeconf.toml").read_text()
    (table,) = blocks("operations.md", "toml")
    Path("lakeconf.toml").write_text(f"{before}\n{table}")
    found = run_shell(branching)
    assert re.search(
        r"pr is a branch of dev at.*\npr +\d.*\n *2 equal.*nothing to copy.*dropped pr", found, re.DOTALL
    ), found
    Path("lakeconf.toml").write_text(before)


SERVER = """
[stores.server]
metadata_backend = { type = "duckdb", uri = "server.duckdb" }
storage_backend = { type = "local", path = "server" }
"""


def assert_moved(move: str) -> None:
    with Path("lakeconf.toml").open("a") as file:
        file.write(SERVER)
    found = run_shell(move)
    assert re.search(r"server\.duckdb, attached.*server works\b.*count_star\(\)\n *2\n$", found, re.DOTALL), found


KILLED = """
import os, lakeconf
with lakeconf.init().get_store().open() as lake:
    lake.create_table("raw.events", {"id": "BIGINT"}).append([{"id": 1}, {"id": 2}])
    os._exit(9)
"""


@pytest.fixture
def killed_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a lake with a DuckDB catalog, whose commits are only in the file .wal."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakeconf.toml").write_text(
        '[stores.dev]\nmetadata_backend = { type = "duckdb", uri = ".lakeconf/catalog.duckdb" }\n'
        'storage_backend = { type = "local", path = ".lakeconf/data" }\n'
    )
    assert subprocess.run([sys.executable, "-c", KILLED], check=False).returncode == 9
    assert (tmp_path / ".lakeconf" / "catalog.duckdb.wal").exists()
    return tmp_path


@pytest.mark.slow
def test_move_of_a_duckdb_catalog_after_a_killed_job_loses_no_commit(killed_job: Path) -> None:
    *_, move = blocks("operations.md", "sh")
    assert_moved(move)
    assert (killed_job / ".lakeconf" / "catalog.duckdb.wal").exists()
