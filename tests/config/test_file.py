"""Configuration files: lookup, reading, values as TOML, excerpts without secrets, and hints that say what to write."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeconf
from lakeconf.backends.registry import metadata_backend, storage_backend
from lakeconf.backends.store_options import option_fault
from lakeconf.config.backend_tables import field_fix
from lakeconf.config.config import init, read, validate
from lakeconf.config.toml_text import TomlText, toml_value
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


def test_pyproject_is_found_unless_lakeconf_toml_is_beside_it(repository: Path) -> None:
    path = lay(repository / "a", "in_pyproject", PYPROJECT, "pyproject.toml")
    assert found() == ["in_pyproject"]
    assert init().path == path
    lay(repository / "a", "own")
    assert found() == ["own"]


@pytest.mark.parametrize("text", ['[project]\nname = "lakeconf-user"\n', "[project\n", None])
def test_pyproject_without_lakeconf_table_and_folder_are_skipped(text: str | None, repository: Path) -> None:
    lay(repository, "root")
    if text is None:
        (repository / "a" / "lakeconf.toml").mkdir()
    else:
        lay(repository / "a", "", text, "pyproject.toml")
    assert found() == ["root"]


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
    monkeypatch.setenv("LAKECONF_CONFIG", str(repository / "gone.toml"))
    problem = refusal()
    assert (problem.code, problem.file) == ("LC001", repository / "gone.toml")
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


def test_file_is_utf8_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "lakeconf.toml"
    path.write_bytes(b"[stores]\n# caf\xe9\n")
    problem = refusal(path)
    assert (problem.code, problem.line) == ("LC002", 2)
    path.write_bytes(b"\xef\xbb\xbf" + TOML.format(name="dev").encode())
    assert list(init(path).names) == ["dev"]


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root can read every file, so a loop of symbolic links causes the error.
    path = tmp_path / "lakeconf.toml"
    path.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert refusal().code in ("LC001", "LC002")


def test_paths_in_the_file_are_relative_to_its_folder(repository: Path, tmp_path: Path) -> None:
    store = init(lay(tmp_path / "elsewhere", "dev")).get_store()
    assert store.preview_sql()[3].count(f"{tmp_path}/elsewhere/") == 2
    lay(repository, "dev", PYPROJECT, "pyproject.toml")
    assert f"{repository}/catalog.sqlite" in init().get_store().preview_sql()[3]


def test_paths_in_a_dict_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backends = {
        "metadata_backend": {"type": "sqlite", "uri": Path("c.sqlite")},
        "storage_backend": {"type": "local", "path": "../data"},
    }
    sql = init({"stores": {"dev": backends}}).get_store().preview_sql()[3]
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


TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(value=VALUES)
def test_written_value_is_read_back(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}") == {"key": value}


@pytest.mark.parametrize(
    "value", ["\x7f", {"\x7f": 1}, "\u2028", 'a "b" \\ c', dt.datetime(2024, 1, 2, 3, 4, 5), -math.inf, math.nan]
)
def test_values_that_json_writes_differently(value: object) -> None:
    assert repr(tomllib.loads(f"key = {toml_value(value)}")["key"]) == repr(value)


def test_key_is_written_with_an_example_and_its_meaning() -> None:
    for model, name, fix in (
        (metadata_backend("postgres"), "port", "write port = 5432 (port of the server; default 5432)"),
        (metadata_backend("motherduck"), "compute", 'write compute = "local" (where queries run: in MotherDuck, '),
        (storage_backend("s3"), "data_path", 'write data_path = "s3://acme-lake/prod/" (URI of the folder; '),
    ):
        assert field_fix(name, model.model_fields[name]).startswith(fix), model


@pytest.mark.parametrize(
    "text",
    [
        '[stores."a b"]\n',
        '[stores]\n"a b" = 1\n[stores.c]\nextends = "a b"\n',
        '[stores."a b"]\nmetadata_backend = 1\n',
        '[stores."a b"]\nmetadata_backend = { type = "sqlite", uri = "c", alias = "x" }\n',
        '[stores."a b"]\nmetadata_backend = { type = "sqlite", uri = "c" }\n',
        '[stores."a b"]\nmetadata_backend = { type = "postgres", host = "h", port = "x" }\n',
    ],
)
def test_tables_that_hints_name_are_toml(text: str, tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text(text)
    try:
        problems = validate(read(tmp_path))
    except ConfigError as error:
        problems = [*error.problems]
    assert problems
    for problem in problems:
        for header in re.findall(r"\[(?:stores|pipeline)[^\]]*\]", problem.hint or ""):
            assert tomllib.loads(header)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_hint_about_a_catalog_file_names_one_of_its_type(kind: str, tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text(f'[stores.dev]\nmetadata_backend = {{ type = "{kind}" }}\n')
    hints = [str(problem.hint) for problem in validate(read(tmp_path)) if "uri" in (problem.key or "")]
    assert [f'uri = ".lakeconf/catalog.{kind}"' in hint for hint in hints] == [True]


def test_hint_about_a_value_of_an_option_is_about_the_value() -> None:
    for key, value in (("metadata_catalog", "main"), ("metadata_catalog", "a\nb"), ("snapshot_version", -1)):
        fault = option_fault("attach_options", key, value)
        assert fault is not None
        assert fault.hint.startswith(f"write {key} = ")


SECRETS = st.text(st.sampled_from("Q#=[]{},'\"\\ \n\t"), min_size=1, max_size=12).map("Q{}Q".format)


@given(st.lists(SECRETS, min_size=3, max_size=3), st.sampled_from([" ", "\n  # QQ\n  ", "\r\n"]))
def test_an_excerpt_contains_no_value_and_no_comment(secrets: list[str], space: str) -> None:
    one, two, three = map(json.dumps, secrets)
    long = "'''" + secrets[0].replace("'", "") + "'''"
    text = f"# QQ\na.b = {one} # QQ = 1\n[t] # QQ\nc = {{ d = {two}, e = {{ f = {long}, g = 1 }} }} #QQ\n"
    text += f"h = [{space}{three},{space}{long},{space}{{ i = {one} }} ]# QQ\n[[l]]\n j=2024-01-01 # QQ"
    tomllib.loads(text)
    excerpts = TomlText(text)
    for place in TomlText(text).positions.values():
        assert "Q" not in excerpts.excerpt(*place)


@pytest.mark.parametrize(
    ("text", "place", "shown"),
    [
        ('a = "x"\nurl  =  "y"  # z', (2, 1), ["  2 | url  =  …", "    | ^"]),
        ("[a.b] # c\r\nx = 1", (1, 4), ["  1 | [a.b]", "    |    ^"]),
        ("a = { b = 1, c = [ 2, 3 ] }", (1, 20), ["  1 | a = { b = …, c = [ …, … ] }", "    |                    ^"]),
        ("\n" * 9 + "\ta = 'x'", (10, 2), ["  10 |  a = …", "     |  ^"]),
    ],
    ids=["value", "header", "array", "indent"],
)
def test_the_caret_is_below_the_column(text: str, place: tuple[int, int], shown: list[str]) -> None:
    assert TomlText(text).excerpt(*place).split("\n") == shown


def test_odd_characters_are_escaped_and_take_one_column_each() -> None:
    text = 'a = { "\u202e日e\u0301\U000e0001" = 1, b = 2 }'
    line, caret = TomlText(text).excerpt(*TomlText(text).positions["a", "b"]).split("\n")
    assert line.isprintable()
    assert line.isascii() is False
    assert line[line.index("b =")] == "b"
    assert caret.index("^") == line.index("b =")
    assert "日" not in line
    assert "\\u65e5" in line


@pytest.mark.parametrize("length", [10, 60, 75, 90, 400, 100_000])
def test_a_long_line_is_cut_around_the_column(length: int) -> None:
    text = f"a = {{ {'k' * length} = 1, wanted = 2, {'m' * length} = 3 }}"
    line, caret = TomlText(text).excerpt(*TomlText(text).positions["a", "wanted"]).split("\n")
    assert len(line) <= 80
    assert line[caret.index("^") :].startswith("wanted = …")


def test_the_value_at_the_edge_of_a_cut_line_is_hidden() -> None:
    for length in range(150, 260):
        text = f'a = {{ b = "{"Q" * length}", wanted = 2, c = "{"Q" * length}" }}'
        assert "Q" not in TomlText(text).excerpt(*TomlText(text).positions["a", "wanted"])


def test_the_text_of_an_error_has_the_line_and_the_caret(tmp_path: Path) -> None:
    file = tmp_path / "lakeconf.toml"
    file.write_text('[stores.dev.metadata_backend]\ntype = "sqlite"\nurl = "QQ" # QQ\n')
    with pytest.raises(ConfigError) as caught:
        lakeconf.init(file).get_store("dev")
    text = str(caught.value)
    assert "unknown key [LC010]\n  3 | url = …\n    | ^\n  hint: did you mean" in text
    assert "QQ" not in text
    file.write_text("[stores]\npassword = QQ\n")
    with pytest.raises(ConfigError, match=r":2:12: invalid TOML: [^\n]*\[LC003\]\n  hint: ") as caught:
        lakeconf.init(file)
    assert "QQ" not in str(caught.value)
    for text, hint in (
        ("[a]\n[a]\n", "declare each table and each key once"),
        ("a = 1\na = 2\n", "declare each table and each key once"),
        ('a = "C:\\Users"\n', "write a backslash in single quotes"),
        ('a = "C:\\lake"\n', "write a backslash in single quotes"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=f"hint: {hint}"):
            lakeconf.init(file)


def test_a_configuration_without_a_file_has_no_excerpt() -> None:
    with pytest.raises(ConfigError) as caught:
        lakeconf.init({"stores": {"dev": {"metadata_backend": {"type": "sqlite", "url": "x"}}}}).get_store("dev")
    assert [problem.excerpt for problem in caught.value.problems] == [None] * len(caught.value.problems)
