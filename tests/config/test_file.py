"""Configuration file lookup and reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeconf.config.config import init
from lakeconf.errors import ConfigError, Problem

TOML = """\
[stores.{name}.metadata_backend]
type = "sqlite"
uri = "catalog.sqlite"

[stores.{name}.storage_backend]
type = "local"
path = "data"
"""
PYPROJECT = '[project]\nname = "shop"\n\n' + TOML.replace("[stores", "[tool.lakeconf.stores")


def lay(folder: Path, name: str, text: str = TOML, file: str = "lakeconf.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_text(text.format(name=name))
    return path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository inside a folder that also has a configuration. The working directory is a subfolder of it."""
    lay(tmp_path, "outside")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repository" / "a" / "b")
    return tmp_path / "repository"


def found() -> list[str]:
    return list(init().names)


def refusal(source: object = None) -> Problem:
    with pytest.raises(ConfigError) as raised:
        init(source)  # type: ignore[arg-type]
    (problem,) = raised.value.problems
    return problem


def test_search_finds_the_nearest_file_upward(repository: Path) -> None:
    lay(repository, "root")
    assert found() == ["root"]
    lay(repository / "a", "a")
    assert found() == ["a"]
    lay(repository / "a" / "b", "b")
    assert found() == ["b"]


def test_search_stops_at_the_repository_root(repository: Path) -> None:
    problem = refusal()
    assert problem.code == "LC001"
    assert str(repository / "a" / "b") in problem.message
    assert str(repository / "a") in problem.message
    assert str(repository.parent) + "," not in problem.message
    assert not problem.message.endswith(str(repository.parent))
    # The root of a worktree of git is one, too.
    lay(repository, "root")
    (repository / "a" / ".git").write_text("gitdir: elsewhere")
    assert refusal().code == "LC001"


def test_outside_a_repository_only_the_working_directory_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, "above")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert refusal().code == "LC001"
    lay(tmp_path / "sub", "here")
    assert found() == ["here"]


def test_pyproject_is_found(repository: Path) -> None:
    path = lay(repository / "a", "in_pyproject", PYPROJECT, "pyproject.toml")
    assert found() == ["in_pyproject"]
    assert init().path == path


@pytest.mark.parametrize("text", ['[project]\nname = "lakeconf-user"\n', "[project\n", None])
def test_pyproject_without_lakeconf_table_and_folder_are_skipped(text: str | None, repository: Path) -> None:
    lay(repository, "root")
    if text is None:
        (repository / "a" / "lakeconf.toml").mkdir()
    else:
        lay(repository / "a", "", text, "pyproject.toml")
    assert found() == ["root"]


def test_lakeconf_toml_takes_precedence_over_pyproject(repository: Path) -> None:
    lay(repository, "in_pyproject", PYPROJECT, "pyproject.toml")
    lay(repository, "own")
    assert found() == ["own"]


@pytest.mark.parametrize("name", ["lakeconf.toml", "other.toml", ""])
def test_explicit_path_takes_precedence(
    name: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(repository, "root")
    monkeypatch.setenv("LAKECONF_CONFIG", str(lay(tmp_path / "env", "by_variable")))
    lay(tmp_path / "explicit", "explicit", file=name or "lakeconf.toml")
    assert list(init(tmp_path / "explicit" / name).names) == ["explicit"]
    assert list(init(str(tmp_path / "explicit" / name)).names) == ["explicit"]


def test_lakeconf_config_variable_takes_precedence_over_the_search(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(repository, "root")
    path = lay(tmp_path / "elsewhere", "by_variable")
    for value in (path, path.parent):
        monkeypatch.setenv("LAKECONF_CONFIG", str(value))
        assert found() == ["by_variable"]


def test_lakeconf_config_variable_names_a_missing_file(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(repository, "root")
    monkeypatch.setenv("LAKECONF_CONFIG", str(repository / "gone.toml"))
    problem = refusal()
    assert problem.code == "LC001"
    assert problem.file == repository / "gone.toml"
    assert "LAKECONF_CONFIG" in problem.message


def test_relative_path_and_home_directory(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(repository / "a", "a")
    assert list(init("..").names) == ["a"]
    monkeypatch.setenv("HOME", str(repository / "a"))
    assert list(init("~/lakeconf.toml").names) == ["a"]


def test_explicit_path_is_not_searched_upward_and_needs_a_configuration(repository: Path, tmp_path: Path) -> None:
    lay(repository, "root")
    problem = refusal(repository / "a")
    assert problem.code == "LC001"
    assert str(repository / "a") in problem.message
    assert refusal(tmp_path / "no.toml").code == "LC001"
    assert refusal(lay(tmp_path, "", '[project]\nname = "x"\n', "pyproject.toml")).code == "LC004"


def test_syntax_error_names_line_and_column(tmp_path: Path) -> None:
    path = lay(tmp_path, "", "a = 1\nb = c\n")
    problem = refusal(path)
    assert (problem.code, problem.line, problem.column, problem.file) == ("LC003", 2, 5, path)
    assert problem.hint is not None


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "lakeconf.toml"
    path.write_bytes(b"[stores]\n# caf\xe9\n")
    problem = refusal(path)
    assert (problem.code, problem.line) == ("LC002", 2)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root can read every file, so a loop of symbolic links causes the error.
    path = tmp_path / "lakeconf.toml"
    path.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert refusal().code in ("LC001", "LC002")


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "lakeconf.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TOML.format(name="dev").encode())
    assert list(init(path).names) == ["dev"]


def test_paths_in_the_file_are_relative_to_its_folder(repository: Path, tmp_path: Path) -> None:
    store = init(lay(tmp_path / "elsewhere", "dev")).get_store()
    assert store.preview_sql()[2].count(f"{tmp_path}/elsewhere/") == 2
    lay(repository, "dev", PYPROJECT, "pyproject.toml")
    assert f"{repository}/catalog.sqlite" in init().get_store().preview_sql()[2]


def test_paths_in_a_dict_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backends = {
        "metadata_backend": {"type": "sqlite", "uri": Path("c.sqlite")},
        "storage_backend": {"type": "local", "path": "../data"},
    }
    sql = init({"stores": {"dev": backends}}).get_store().preview_sql()[2]
    assert f"'sqlite:{tmp_path}/c.sqlite'" in sql
    assert f"'{tmp_path.parent}/data/'" in sql


LARGE = {"digits": "9" * 5000, "negative": "-" + "9" * 5000, "next": str(2**63), "below": str(-(2**63) - 1)}


@pytest.mark.parametrize("number", [*LARGE.values(), "0x" + "f" * 6000], ids=[*LARGE, "hexadecimal"])
def test_integer_of_more_than_64_bits_is_refused(number: str, tmp_path: Path) -> None:
    """Python neither reads nor prints integers of more than 4300 decimal digits."""
    path = tmp_path / "lakeconf.toml"
    for text in (f"a = {number}", f"[stores.dev]\nx = [{{ y = {number} }}]"):
        path.write_text(text)
        problem = refusal(path)
        assert (problem.code, problem.message) == ("LC003", "an integer is too large")
        assert problem.hint == "use at most 64 bits: from -9223372036854775808 to 9223372036854775807"
        assert (problem.file, problem.line) == (path, text.count("\n") + 1)
        assert text.splitlines()[-1][(problem.column or 0) - 1 :].startswith(("a", "y", number.lstrip("-")))


def test_integer_of_64_bits_is_accepted_and_a_dict_has_the_same_limit(tmp_path: Path) -> None:
    path = tmp_path / "lakeconf.toml"
    for number in (2**63 - 1, -(2**63)):
        path.write_text(f"a = {number}\n[stores.dev]")
        assert refusal(path).message == "unknown key"
    for number in (2**63, 10**5000):
        with pytest.raises(ConfigError, match="an integer is too large"):
            init({"stores": {"dev": {"password": number}}})
