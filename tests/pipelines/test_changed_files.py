"""Loaded files that change afterwards: `plan` and `run` warn about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import config_of, in_bucket

import lakeconf
from lakeconf.pipelines import Append, Full, Merge, Model, Pipeline, Query, Seed, plan, run

if TYPE_CHECKING:
    from pathlib import Path

    from servers import S3Server

    from lakeconf import Lake
    from lakeconf.pipelines.models.kinds import Kind

WARNING = (
    "{} changed after the table was loaded from it: run with --rebuild to load all files of the pattern again, "
    "or write new rows to new files"
)


@pytest.fixture
def loaded(lake: Lake, tmp_path: Path) -> tuple[Lake, Pipeline, Path]:
    """A lake that has loaded `in/1.csv`, the pipeline, and the folder of the files."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("id\n1\n")
    pipeline = Pipeline([Model("raw.events", Append(files="in/*.csv"), folder=tmp_path)])
    assert run(pipeline, lake)[0].status == "done"
    return lake, pipeline, folder


def warnings(loaded: tuple[Lake, Pipeline, Path]) -> list[str]:
    (step,) = plan(loaded[1], loaded[0])
    return list(step.warnings)


@pytest.mark.parametrize("text", ["id\n1\n2\n", "id\n2\n"], ids=["longer", "same size"])
def test_changed_file_is_a_warning_until_it_is_loaded_again(text: str, loaded: tuple[Lake, Pipeline, Path]) -> None:
    lake, pipeline, folder = loaded
    (folder / "1.csv").write_text(text)
    assert warnings(loaded) == [WARNING.format("in/1.csv")]
    (skipped,) = run(pipeline, lake)
    assert (skipped.status, skipped.warnings) == ("skipped", [WARNING.format("in/1.csv")])
    # The warning does not keep new files away.
    (folder / "2.csv").write_text("id\n3\n")
    (done,) = run(pipeline, lake)
    assert (done.status, done.reason, done.warnings) == ("done", "1 new file", [WARNING.format("in/1.csv")])
    assert run(pipeline, lake, rebuild=True)[0].warnings == []
    expected = [int(line) for line in (text + "3").split() if line != "id"]
    assert lake.sql("SELECT id FROM raw.events ORDER BY id").collect().to_dict(as_series=False) == {"id": expected}
    assert warnings(loaded) == []


def test_file_that_is_gone_is_no_warning_and_leaves_its_rows(loaded: tuple[Lake, Pipeline, Path]) -> None:
    lake, pipeline, folder = loaded
    (step,) = plan(pipeline, lake, rebuild=True)
    assert (step.reason, step.replaces) == ("requested: replaces all rows by those of in/1.csv", True)
    (folder / "1.csv").unlink()
    assert warnings(loaded) == []
    (skipped,) = run(pipeline, lake, rebuild=True)
    assert (skipped.status, skipped.reason) == ("skipped", "no file of in/*.csv exists, so the table keeps its rows")
    assert lake.table("raw.events").count() == 1


def test_warning_names_three_files_and_counts_the_others(lake: Lake, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("id\n1\n")
    pipeline = Pipeline([Model("raw.events", Append(files="*.csv"), folder=tmp_path)])
    assert run(pipeline, lake)[0].status == "done"
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("id\n2\n")
    assert plan(pipeline, lake)[0].warnings == [WARNING.format("0.csv, 1.csv, 2.csv and 2 more")]


def test_changed_object_of_a_bucket_is_a_warning(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.create_bucket()
    store = lakeconf.init(config_of(tmp_path, storage=in_bucket(s3_server, bucket))).get_store("dev")
    pipeline = Pipeline([Model("raw.numbers", Append(files=f"s3://{bucket}/landing/*.csv"))])
    url = f"s3://{bucket}/landing/1.csv"
    with store.connect() as native, store.open() as lake:
        native.sql("SELECT 1 AS i").write_csv(url)
        assert run(pipeline, lake)[0].status == "done"
        assert plan(pipeline, lake)[0].warnings == []
        native.sql("SELECT 10 AS i").write_csv(url)
        assert plan(pipeline, lake)[0].warnings == [WARNING.format(url)]


def test_file_that_is_absent_while_all_files_are_loaded_again_is_loaded_when_it_returns(
    loaded: tuple[Lake, Pipeline, Path], tmp_path: Path
) -> None:
    lake, pipeline, folder = loaded
    (folder / "2.csv").write_text("id\n2\n")
    assert run(pipeline, lake)[0].reason == "1 new file"
    (folder / "2.csv").rename(tmp_path / "2.csv")
    run(pipeline, lake, rebuild=True)
    assert lake.table("raw.events").count() == 1
    (tmp_path / "2.csv").rename(folder / "2.csv")
    (done,) = run(pipeline, lake)
    assert (done.reason, done.warnings) == ("1 new file", [])
    assert sorted(lake.table("raw.events").to_arrow()["id"].to_pylist()) == [1, 2]
    assert run(pipeline, lake)[0].status == "skipped"


def test_files_of_another_pattern_or_folder_are_the_same(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id\n1\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    absolute = str(tmp_path / "in" / "*.csv")
    statuses = []
    for pattern, folder in (
        (absolute, tmp_path), (absolute, tmp_path / "deep" / "er"), ("in/../in/*.csv", tmp_path),
        ("in/*.csv", type(tmp_path)()), (absolute, type(tmp_path)()),
    ):  # fmt: skip
        (result,) = run(Pipeline([Model("raw.events", Append(files=pattern), folder=folder)]), lake)
        statuses.append(result.status)
    assert statuses == ["done", "skipped", "skipped", "skipped", "skipped"]


@pytest.mark.parametrize("kind", [Seed("1.csv"), Full(), Merge(["id"]), Append()], ids=lambda kind: kind.name)
def test_files_are_not_added_to_the_rows_of_another_kind(kind: Kind, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id\n1\n")
    rows = lake.sql("SELECT 1::BIGINT AS id")
    lake.create_table("raw.source", rows).append(rows)
    body = None if isinstance(kind, Seed) else Query("SELECT id FROM raw.source")
    (first,) = run(Pipeline([Model("raw.t", kind, body, folder=tmp_path)]), lake)
    assert first.status == "done", first.error
    files = Pipeline([Model("raw.t", Append(files="*.csv"), folder=tmp_path)])
    (refused,) = run(files, lake)
    assert "the run would replace all rows of raw.t: its definition has changed; needs --rebuild" in str(refused.error)
    (done,) = run(files, lake, rebuild=True)
    assert (done.status, lake.table("raw.t").count()) == ("done", 1)
    assert [step.runs for step in plan(files, lake)] == [False]
