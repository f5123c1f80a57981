"""Values as TOML, excerpts of files without secrets, and the hints that say what to write."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeconf
from lakeconf.backends.registry import metadata_backend, storage_backend
from lakeconf.backends.store_options import option_fault
from lakeconf.config.backend_tables import field_fix
from lakeconf.config.config import read, validate
from lakeconf.config.toml_text import TomlText, toml_value
from lakeconf.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


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
    "value", ["\x7f", {"\x7f": 1}, "\u2028", 'a "b" \\ c', dt.datetime(2024, 1, 2, 3, 4, 5), -math.inf]
)
def test_values_that_json_writes_differently(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}")["key"] == value


def test_nan() -> None:
    assert math.isnan(tomllib.loads(f"key = {toml_value(math.nan)}")["key"])


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


def test_a_configuration_without_a_file_has_no_excerpt() -> None:
    with pytest.raises(ConfigError) as caught:
        lakeconf.init({"stores": {"dev": {"metadata_backend": {"type": "sqlite", "url": "x"}}}}).get_store("dev")
    assert [problem.excerpt for problem in caught.value.problems] == [None] * len(caught.value.problems)
