"""docs/writing.md and docs/maintenance.md: their blocks run in order, writing on both engines."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from doc_pages import blocks

import lakeconf
from lakeconf.cli.app import run
from lakeconf.inspection.doctor import diagnose

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("engine", ["on_duckdb", "on_spark"])
def test_python_blocks_run(project: Path, engine: str, request: pytest.FixtureRequest) -> None:
    spark = request.getfixturevalue("spark") if engine == "on_spark" else None
    names: dict[str, Any] = {"spark": spark}
    for text in blocks("writing.md", "python"):
        code = text.replace(".open() ", ".open(spark) ")
        exec(compile(code, "docs/writing.md", "exec"), names)  # noqa: S102 - that is the test
        # Also a delete file that a later one replaced is no file of a killed write.
        step = next(step for step in diagnose(lakeconf.init().get_store()) if step.name == "files")
        assert (step.status, step.found.endswith("and no others")) == ("ok", True), (step, code)
    lake: lakeconf.Lake = names["lake"]
    found = lake.sql("SELECT id, event_type, amount FROM raw.events WHERE id IN (1, 2, 3, 99) ORDER BY ALL")
    assert sorted(set(found.collect("pyarrow").rows())) == [(2, "sale", 207), (99, "sale", 5)]
    assert lake.tables() == ["analytics.sales", "raw.events"]
    lake.close()
    assert (project / "lakeconf.toml").exists()


def test_commands_run(project: Path) -> None:
    with lakeconf.init(project).get_store("dev").open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT", "kind": "VARCHAR"})
    for line in "".join(blocks("maintenance.md", "sh")).splitlines():
        assert run(shlex.split(line)[1:]) == 0
