"""New files of a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.pipelines import Append, Model, Pipeline, plan

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def events(folder: Path, pattern: str = "in/*.csv") -> Model:
    return Model("raw.events", Append(files=pattern), folder=folder)


def test_folder_with_brackets_in_its_name_is_read(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    folder = tmp_path / "data[1]*"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "1.csv").write_text("id\n1\n")
    for pattern in ("in/*.csv", "in/../**/*.csv"):
        (step,) = plan(Pipeline([events(folder, pattern)]), lakes[0])
        assert step.files == ["in/1.csv"]
