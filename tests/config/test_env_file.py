"""`.env` files: their syntax, their precedence, and errors without values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeconf.config.config import init
from lakeconf.config.environment import env_variables, environment
from lakeconf.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("X=plain", "plain"),
        ("  export\tX = spaced  ", "spaced"),
        ("X=a b # a comment", "a b"),
        ("X=a#b", "a#b"),
        ("X=# a comment", ""),
        ("X=", ""),
        ("X=''", ""),
        ("X='a # \\n $Y \" b '  # a comment", 'a # \\n $Y " b '),
        ('X="a # \\n \\"b\\" \\$Y \\\\ \\x \' "# a comment', 'a # \n "b" $Y \\ \\x \' '),
        ("X=a=b", "a=b"),
        ("X=${Y}$(ls)`ls`", "${Y}$(ls)`ls`"),
        ("X=1\nX=2\r\n", "2"),
        ("\ufeffX=bom", "bom"),
    ],
)
def test_syntax(line: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "variables"
    path.write_bytes(f"{line}\n\n  # the end\n".encode())
    assert env_variables(path) == {"X": value}


@given(value=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0", exclude_categories=["Zl", "Zp"])))
def test_any_line_in_double_quotes_is_read_back(value: str, tmp_path: Path) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    (tmp_path / ".env").write_text(f'X="{escaped}"', encoding="utf-8")
    assert env_variables(tmp_path / ".env") == {"X": value}


@pytest.mark.parametrize(
    "line",
    ["planted", "1X=planted", "X Y=planted", "X-Y=planted", "=planted", "X='planted", 'X="planted', "X='planted' y",
     'X="planted\\"', "X: planted", "X=planted\0"],
)  # fmt: skip
def test_invalid_lines_are_errors_that_show_no_value(line: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"A=1\n{line}\nB=2\n")
    with pytest.raises(ConfigError) as raised:
        env_variables(tmp_path / ".env")
    ((problem,),) = [raised.value.problems]
    assert (problem.file, problem.line, problem.code) == (tmp_path / ".env", 2, "LC002")
    assert "planted" not in repr(raised.value) + str(raised.value)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file not found"):
        environment(tmp_path / ".env")


def test_variables_of_the_process_take_precedence(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".env").write_text("LAKE=of_the_file\n")
    text = (project / "lakeconf.toml").read_text()
    (project / "lakeconf.toml").write_text(text.replace("catalog.sqlite", "${LAKE}.sqlite"))

    def statements() -> str:
        return "\n".join(init(env_file=".env").get_store().preview_sql())

    assert "of_the_file.sqlite" in statements()
    assert "LAKE" not in os.environ
    monkeypatch.setenv("LAKE", "of_the_process")
    assert "of_the_process.sqlite" in statements()
    monkeypatch.delenv("LAKE")
    with pytest.raises(ConfigError, match="LAKE is not set"):
        init().get_store()
