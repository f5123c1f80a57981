"""Names, paths, errors, commands and tests that the documentation mentions exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

import click
import pytest
from doc_pages import blocks, named
from source_names import code_files, definitions, prose_of, source_names, words_of_code
from source_tree import REPOSITORY, sources

import lakeconf
from lakeconf import errors
from lakeconf.cli.app import COMMANDS, commands, run
from lakeconf.config.config import Config
from lakeconf.lake.maintenance import Maintenance
from lakeconf.pipelines.models.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# The pages for people who change the code: all names between backticks are names of the code.
DESIGN = [
    *sorted((REPOSITORY / "docs" / "design").glob("*.md")),
    REPOSITORY / "lakeconf" / "ARCHITECTURE.md",
    REPOSITORY / "CONTRIBUTING.md",
]
PAGES = [
    *DESIGN,
    *sorted({*(REPOSITORY / "docs").rglob("*.md")} - {*DESIGN}),
    *(REPOSITORY / "examples").rglob("README.md"),
    *(REPOSITORY / name for name in ("README.md", "SECURITY.md")),
]
# The object that a page or a docstring means by a name.
OBJECTS: dict[str, Any] = {
    "lake": lakeconf.Lake,
    "tx": lakeconf.Lake,
    "store": lakeconf.Store,
    "table": lakeconf.Table,
    "events": lakeconf.Table,
    "config": Config,
    "Store": lakeconf.Store,
    "Lake": lakeconf.Lake,
    "Table": lakeconf.Table,
    "maintenance": Maintenance,
}
# Files, loggers and tables that begin with `lakeconf.` but are no part of the package.
FILES = {"toml", "schema.json"}
LOGGERS = {"lake", "plan", "stage", "commit", "locks", "maintenance", "cleanup", "pipeline", "transfer"}
OTHERS = FILES | LOGGERS | {"commits", "metadata_backends", "storage_backends"}
# Files that the reader of a page writes.
WRITTEN = {
    "config.py", "definitions.py", "first.py", "lake.py", "models.py", "load.py", "job.py", "conftest.py",
}  # fmt: skip
SUFFIXES = {"py", "toml", "yaml"}
# A placeholder, and an attribute of the fixture of pytest.
OTHER_OBJECTS = {"store.schema.table", "lake.config"}
# What follows are names in design pages, docstrings and comments that are not those of the code: of other libraries and
# Java, of settings and tables, and in examples.
LIBRARIES = {
    *("ast", "click", "dlt", "duckdb", "functools", "jdk", "jvm", "narwhals", "nw", "pyspark", "pytest", "spark"),
    *("sys", "time", "SparkSession"),
}  # fmt: skip
EXAMPLES = {
    *("a.b", "a.b.c", "alias.set_commit_message", "dev.t", "device.os", "main.events", "main.list_value", "main.trim"),
    *("map.value.kind", "raw.events", "relation.query", "s.key", "schema.table", "stream.writeStream.foreachBatch"),
    *("stores.prod.storage_backend.region", "t.a", "tags.element.kind", "tool.lakeconf"),
}  # fmt: skip
FOREIGN_WORDS = {
    *("INTERSECT", "METADATA_PATH", "MigrateV03", "__index_level_0__", "c0", "c1", "connector_config", "current_query"),
    *("destination_name", "oneOf", "pushFilters", "raw_events"),
}  # fmt: skip
BUILT = {"build/site"}
ENDINGS = SUFFIXES | {"json", "lock", "md", "parquet", "yml"}
DOTTED = re.compile(r"(?<![\w./:<>${}'\"-])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?![\w/-])")
# A place in the code, such as `commit/driver.py:Attempt.run`.
PLACE = re.compile(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+\.py)::?([A-Za-z_][\w.]*)")
FOLDER = re.compile(r"(?:[\w-]+/)+[\w-]*")
PATH = re.compile(r"(?<![\w/.-])(?:\./)?(?:[\w-]+/)*[\w-]+\.(?:py|md)\b")


def code_of(page: Path) -> Iterator[str]:
    """The texts between backticks of a page, without its blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"`([^`\n]+)`", text)


def missing_names(code: str) -> list[str]:
    """The names in a piece of code that do not exist."""
    dotted = re.findall(r"(?<![\w./-])lakeconf((?:\.[A-Za-z_]\w*)+)", code)
    missing = [f"lakeconf{name}" for name in dotted if name[1:] not in OTHERS and not _exists(name)]
    names = source_names()
    of_classes = (name for name in DOTTED.findall(code) if name[0].isupper() and names.knows(name.split(".")[0]))
    missing += [name for name in of_classes if not names.defines(name)]
    for owner, attribute, child in re.findall(r"(?<![\w./-])(\w+)\.([a-z]\w*)(?:\.([a-z]\w*))?(?=\(|$)", code):
        whole = f"{owner}.{attribute}.{child}".rstrip(".")
        if owner not in OBJECTS or attribute in SUFFIXES or whole in OTHER_OBJECTS:
            continue
        found = inspect.getattr_static(OBJECTS[owner], attribute, None)
        if found is None or (attribute == "maintenance" and child and not hasattr(Maintenance, child)):
            missing.append(whole)
    return missing


def _exists(dotted: str) -> bool:
    found: Any = lakeconf
    for name in dotted.split(".")[1:]:
        if not hasattr(found, name):
            try:
                importlib.import_module(f"{found.__name__}.{name}")
            except (ImportError, AttributeError):
                return False
        found = getattr(found, name)
    return True


def existing(path: str, page: Path) -> Path | None:
    """The file or folder that a page means by a path; None if there is none."""
    roots = (REPOSITORY, REPOSITORY / "lakeconf", REPOSITORY / "tests", page.parent)
    return next((root / path for root in roots if (root / path).exists()), None)


def missing_paths(code: str, page: Path) -> list[str]:
    """The paths in a piece of code that do not exist."""
    return [path for path in PATH.findall(code) if path not in WRITTEN and existing(path, page) is None]


def missing_places(code: str, page: Path) -> list[str]:
    """The places such as `commit/driver.py:drive` in a piece of code that do not exist."""
    missing = []
    for path, name in PLACE.findall(code):
        file = existing(path, page)
        if file is None or not source_names().has(definitions(file), name.split(".")):
            missing.append(f"{path}:{name}")
    return missing


def missing_in_code(code: str) -> list[str]:
    """The dotted names in a piece of code, or the only word in it, that the code of the repository does not have."""
    names, missing = source_names(), []
    for dotted in DOTTED.findall(PLACE.sub("", code)):
        first, *_, last = dotted.split(".")
        is_other = last in ENDINGS or dotted in EXAMPLES or first in LIBRARIES or first.startswith("ducklake_")
        is_other = is_other or (first == "lakeconf" and dotted.removeprefix("lakeconf.") in OTHERS)
        if not is_other and not names.defines(dotted):
            missing.append(dotted)
    word = code.removesuffix("()")
    if re.fullmatch(r"[A-Za-z_]\w*", word) and word not in words_of_code() and word not in FOREIGN_WORDS:
        missing.append(word)
    return missing


def missing_commands(line: str) -> list[str]:
    """The command or options that a command line such as `lakeconf tables --limit 3` names and that do not exist."""
    _, name, *words = line.split()
    if name.startswith("-") or not name.islower():
        return []
    if name not in COMMANDS:
        return [name]
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return [f"{name} {word}" for word in words if word.startswith("--") and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    missing = [name for code in code_of(page) for name in (*missing_names(code), *missing_paths(code, page))]
    assert missing + missing_places(text, page) == []
    shell = "".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    inline = "\n".join(code_of(page))
    lines = re.findall(r"^(?:\$ )?(lakeconf [^\n|>]+)", f"{shell}\n{inline}", re.MULTILINE)
    assert [missing for line in lines for missing in missing_commands(line)] == []


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_what_a_design_page_names_is_in_the_code(page: Path) -> None:
    codes = [*code_of(page)]
    missing = [name for code in codes for name in missing_in_code(code)]
    folders = [code for code in codes if FOLDER.fullmatch(code) and code not in BUILT]
    assert missing + [folder for folder in folders if existing(folder, page) is None] == []


@pytest.mark.parametrize("page", [page for page in DESIGN if page.parent.name == "design"], ids=lambda page: page.name)
def test_a_design_page_names_the_code_of_each_step(page: Path) -> None:
    text = page.read_text()
    assert max(map(len, text.splitlines())) <= 180
    assert re.match(r"# Design: .*\n\n\S", text)
    assert len(PLACE.findall(text)) >= 5
    assert re.search(r"^1\. ", text, re.MULTILINE)


def test_what_docstrings_and_comments_name_exists() -> None:
    missing = {}
    for path in code_files():
        codes = [code for text in prose_of(path) for code in re.findall(r"`([^`\n]+)`", text)]
        names = [name for code in codes for name in (*missing_names(code), *missing_paths(code, path))]
        names += [name for code in codes for name in (*missing_places(code, path), *missing_in_code(code))]
        if names:
            missing[str(path.relative_to(REPOSITORY))] = names
    assert missing == {}


def test_loggers_are_those_of_the_page() -> None:
    page = (REPOSITORY / "docs" / "logging.md").read_text()
    texts = [path.read_text() for path in sources().values()]
    used = {name for text in texts for name in re.findall(r'event_logger\("(\w+)"\)', text)}
    assert used == LOGGERS == set(re.findall(r"^\| `lakeconf\.(\w+)` \|", page, re.MULTILINE))


def test_the_checks_see_names_paths_and_commands_that_do_not_exist() -> None:
    for code in (
        "lakeconf.lake.Laken",
        "lakeconf.nothing",
        "lake.compact()",
        "lake.maintenance.vacuum()",
        "store.opens()",
        "StoreNames.alias_of",
    ):
        assert missing_names(code), code
    assert not missing_names("lakeconf.Store") + missing_names("lake.maintenance.compact()")
    page = REPOSITORY / "lakeconf" / "ARCHITECTURE.md"
    assert missing_paths("commit/sessions.py", page) == ["commit/sessions.py"]
    assert missing_paths("commit/session.py", page) == []
    places = ("commit/session.py:drive", "commit/driver.py:Attempt.drive", "commit/driven.py:drive")
    for place in places:
        assert missing_places(f"see `{place}`", page) == [place]
    assert missing_places("`commit/driver.py:drive`, `commit/driver.py:Attempt.run`", page) == []
    for stale in ("committer.Commit", "driver.Commit", "Session.fly", "session.fly()", "run_the_step", "lake.compact"):
        assert missing_in_code(stale) == [stale.removesuffix("()")]
    for name in ("driver.drive", "commit.driver.Attempt.run", "Attempt.run", "StagedCommit.find", "session.reader"):
        assert missing_in_code(name) == []
    assert missing_commands("lakeconf compact") == ["compact"]
    assert missing_commands("lakeconf tables --vacuum") == ["tables --vacuum"]


ROW = re.compile(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", re.MULTILINE)


def test_page_lists_every_exception() -> None:
    listed = {name: base or None for name, base in ROW.findall((REPOSITORY / "docs" / "errors.md").read_text())}
    found = {
        name: next((base.__name__ for base in kind.__bases__ if base is not errors.LakeconfError), None)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.LakeconfError) and kind is not errors.LakeconfError
    }
    assert listed == found


PAGE = (REPOSITORY / "docs" / "security.md").read_text()
CLAIM = re.compile(r"<!-- (\S+)::(\S+) -->$")


def test_each_claim_names_its_test() -> None:
    promises = PAGE.partition("## Advice")[0]
    claims = [line for line in promises.splitlines() if line.startswith("- ")]
    assert len(claims) >= 30
    for claim in claims:
        found = CLAIM.search(claim)
        assert found is not None, claim
        tree = ast.parse((REPOSITORY / "tests" / found[1]).read_text())
        assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, claim


def test_both_security_pages_list_every_attacker() -> None:
    short = (REPOSITORY / "SECURITY.md").read_text()
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == [
        "Who can write to the lake or its catalog",
        "Who wrote the TOML",
        "Who reads logs, tickets, traces and generated files",
        "Who shares the machine",
        "Advice",
    ]
    assert len(re.findall(r"^\d\. who ", short, re.MULTILINE)) == 4
    assert "docs/security.md" in short


README = (REPOSITORY / "README.md").read_text()


def test_readme_is_short_and_its_make_commands_exist() -> None:
    assert len(README.partition("## Documentation")[0].split()) <= 500
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", README, re.MULTILINE)) <= set(targets)


PAGE_OF_PIPELINES_PAGE = "pipelines.md"
TESTS = "pipeline-tests.md"


def test_unit_test_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for language in ("toml", "sql", "python"):
        for name, text in named(PAGE_OF_PIPELINES_PAGE, language).items():
            (tmp_path / name).write_text(text)
    (tested,) = (text for text in blocks(TESTS, "toml") if text.startswith("[pipeline.tests."))
    with (tmp_path / "lakeconf.toml").open("a") as file:
        file.write(f"\n{tested}")
    passed, failed = (text for text in blocks(TESTS, "text") if text.startswith("$ lakeconf test"))
    assert run(["test"]) == 0
    assert capsys.readouterr().out == passed.partition("\n")[2]
    query = tmp_path / "large.sql"
    query.write_text(query.read_text().replace(">", ">="))
    assert run(["test"]) == 1
    assert capsys.readouterr().out == failed.partition("\n")[2]
    page = (REPOSITORY / "docs" / PAGE_OF_PIPELINES_PAGE).read_text()
    assert all(f"| `{name}` |" in page for name in KINDS)
