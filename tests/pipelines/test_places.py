"""Places as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeconf.config.config import init
from lakeconf.pipelines.places import dotted_key, key_place, shown_place, unquoted_name_problems

if TYPE_CHECKING:
    import pytest

    from lakeconf.config.config import Config

KEY = ("pipeline", "models", "raw.t", "files")


def config() -> Config:
    """A configuration without a file."""
    return init({"stores": {"dev": {"metadata_backend": {"type": "sqlite", "uri": "c.sqlite"}}}})


def test_place_is_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_place(tmp_path / "a.sql", 2, 3) == "a.sql:2:3"
    assert shown_place(tmp_path / "a.sql") == "a.sql"
    assert shown_place(Path("/elsewhere/a.sql"), 1, 1) == "/elsewhere/a.sql:1:1"
    assert shown_place(None, 2, 3) == "the SQL, line 2, column 3"
    assert shown_place(None) == ""


def test_place_of_a_key_is_in_its_file(project: Path) -> None:
    file = project / "lakeconf.toml"
    file.write_text(file.read_text().rstrip() + '\n[pipeline.models."raw.t"]\nkind = "append"\n files = "x.csv"\n')
    line = len(file.read_text().splitlines())
    assert key_place(init(), KEY) == f"lakeconf.toml:{line}:2"
    assert dotted_key(init(), KEY) == 'pipeline.models."raw.t".files'


def test_configuration_without_a_file_has_the_key_as_place() -> None:
    assert key_place(config(), KEY) == 'pipeline.models."raw.t".files'


def test_name_without_quotes_is_one_problem_for_each_name() -> None:
    tables = {"events": {"sql": "x"}, "a b": {}, "known": {}, "text": "x"}
    found = unquoted_name_problems(config(), ("pipeline", "models"), "raw", tables, ("known",))
    assert [(one.code, one.key, one.hint) for one in found] == [
        ("LC010", "pipeline.models.raw.events", 'write [pipeline.models."raw.events"]'),
        ("LC010", 'pipeline.models.raw."a b"', 'write [pipeline.models."raw.a b"]'),
    ]
    assert found[0].message == "the name raw.events lacks quotes, so TOML reads it as a table in a table"
    for name, table in (("raw.t", tables), ("raw", []), ("raw", {"sql": "x"})):
        assert unquoted_name_problems(config(), ("pipeline", "models"), name, table, ("known",)) == []
