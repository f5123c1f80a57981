"""New files of a pattern, and the warning for a pattern that has never matched a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakeconf.cli.commands import run as run_command
from lakeconf.pipelines import Append, Model, Pipeline, plan, run
from lakeconf.pipelines.new_files import unmatched_warnings

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake

WARNING = "warning: raw.events: lakeconf.toml:{line}:1: no file has ever matched events/*.cvs\n"


def events(folder: Path, pattern: str = "in/*.csv") -> Model:
    return Model("raw.events", Append(files=pattern), folder=folder)


def test_pattern_that_never_matched_is_a_warning_with_its_place(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / "lakeconf.toml"
    file.write_text(file.read_text() + '\n[pipeline.models."raw.events"]\nkind = "append"\nfiles = "events/*.cvs"\n')
    warning = WARNING.format(line=file.read_text().splitlines().index('files = "events/*.cvs"') + 1)
    for command in ("plan", "run"):
        assert run_command([command]) == 0
        assert capsys.readouterr().err == warning
    assert run_command(["plan", "--format", "json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)
    assert step["warnings"] == [warning.removeprefix("warning: raw.events: ").rstrip()]
    (project / "events").mkdir()
    (project / "events" / "1.cvs").write_text("id\n1\n")
    file.write_text(file.read_text().replace("kind =", 'columns = { id = "BIGINT" }\nkind ='))
    assert run_command(["run"]) == 1
    (project / "events" / "1.cvs").rename(project / "events" / "1.csv")
    file.write_text(file.read_text().replace("*.cvs", "*.csv"))
    assert run_command(["run"]) == 0
    assert capsys.readouterr().err.count("warning") == 0


def test_pattern_whose_files_are_loaded_and_gone_is_no_warning(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id\n1\n")
    lake, pipeline = lakes[0], Pipeline([events(tmp_path)])
    assert run(pipeline, lake)[0].status == "done"
    (tmp_path / "in" / "1.csv").unlink()
    for rebuild in (False, True):
        assert plan(pipeline, lake, rebuild=rebuild)[0].warnings == []
    misspelled = Pipeline([events(tmp_path, "im/*.csv")])
    assert plan(misspelled, lake)[0].warnings == ["no file has ever matched im/*.csv"]
    assert run(misspelled, lake)[0].warnings == ["no file has ever matched im/*.csv"]


def test_absolute_pattern_whose_files_are_loaded_and_gone_is_no_warning(
    lakes: tuple[Lake, Lake], tmp_path: Path
) -> None:
    file = tmp_path / "in" / "1.csv"
    file.parent.mkdir()
    file.write_text("id\n1\n")
    lake, pipeline = lakes[0], Pipeline([events(tmp_path, str(tmp_path / "in" / "*.csv"))])
    assert run(pipeline, lake)[0].status == "done"
    assert lake.runs.committed("raw.events")[0].files == (str(file),)
    file.unlink()
    assert plan(pipeline, lake)[0].warnings == []
    misspelled = str(tmp_path / "in" / "*.cvs")
    assert plan(Pipeline([events(tmp_path, misspelled)]), lake)[0].warnings == [
        f"no file has ever matched {misspelled}"
    ]


@pytest.mark.parametrize(
    ("pattern", "file", "matches"),
    [
        ("in/*.csv", "in/1.csv", True),
        ("./in/../in/*.csv", "in/1.csv", True),
        ("in/**/*.csv", "in/1.csv", True),
        ("in/**/*.csv", "in/a/b/1.csv", True),
        ("in/[12].csv", "in/1.csv", True),
        ("in/[12].csv", "in/3.csv", False),
        ("In/*.csv", "in/1.csv", False),
        ("s3://bucket/in/*.csv", "s3://bucket/in/1.csv", True),
        ("s3://bucket/in/*.csv", "s3://bucket/out/1.csv", False),
    ],
)
def test_loaded_file_of_the_pattern_prevents_the_warning(
    pattern: str, file: str, matches: bool, tmp_path: Path
) -> None:
    assert unmatched_warnings(events(tmp_path), pattern, [file]) == (
        [] if matches else [f"no file has ever matched {pattern}"]
    )
    assert unmatched_warnings(events(tmp_path), str(tmp_path / "in" / "*.csv"), ["in/1.csv"]) == []


def test_folder_with_brackets_in_its_name_is_read(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    folder = tmp_path / "data[1]*"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "1.csv").write_text("id\n1\n")
    for pattern in ("in/*.csv", "in/../**/*.csv"):
        (step,) = plan(Pipeline([events(folder, pattern)]), lakes[0])
        assert step.files == ["in/1.csv"]
