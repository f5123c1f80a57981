"""`lakeconf stores KEY` and excerpts of files show where a value is, without secrets."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeconf
from lakeconf.cli.app import run
from lakeconf.config.config import init
from lakeconf.config.explain_key import explain_key
from lakeconf.config.toml_text import TomlText, syntax_excerpt
from lakeconf.errors import ConfigError, LakeconfError

if TYPE_CHECKING:
    from pathlib import Path


TEXT = """\
[stores.prod]
alias = "lake"

[stores.prod.metadata_backend]
type = "postgres"
host = "${PGHOST}"
database = "lake_${STAGE}"
user = "${PGUSER:-lake}"
password = "${PGPASSWORD}"
secret_parameters = { sslmode = "require", sslkey = "planted-key" }

[stores.prod.storage_backend]
type = "s3"
bucket = "acme"
secret_parameters = { provider = "credential_chain" }

[stores.staging]
extends = "prod"
storage_backend = { prefix = "staging" }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakeconf.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGUSER", raising=False)
    for name, value in {"PGHOST": "db", "STAGE": "one", "PGPASSWORD": "planted-password"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "lakeconf.toml"


@pytest.mark.parametrize(
    ("key", "value", "origin"),
    [
        ("prod.alias", "lake", "lakeconf.toml:2"),
        ("prod.metadata_backend.type", "postgres", "lakeconf.toml:5"),
        ("prod.metadata_backend.host", "db", "the variable PGHOST, named in lakeconf.toml:6"),
        ("prod.metadata_backend.database", "lake_one", "lakeconf.toml:7, with the variable STAGE"),
        (
            "prod.metadata_backend.user",
            "lake",
            "the default in lakeconf.toml:8, because the variable PGUSER is not set",
        ),
        ("prod.metadata_backend.password", "***", "the variable PGPASSWORD, named in lakeconf.toml:9"),
        ("prod.metadata_backend.secret_parameters", "sslmode = require, sslkey = ***", "lakeconf.toml:10"),
        ("prod.storage_backend.prefix", "(not set)", "not set"),
        ("staging.storage_backend.prefix", "staging", "lakeconf.toml:19"),
        ("staging.storage_backend.bucket", "acme", "lakeconf.toml:14, inherited from stores.prod"),
    ],
)
def test_one_key(key: str, value: str, origin: str, file: Path) -> None:
    (found,) = explain_key(init(), f"stores.{key}")
    assert (found.key, found.value, found.origin) == (f"stores.{key}", value, origin)
    assert found.description


def test_all_keys_of_a_store(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stores", "prod"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["key", "value", "from"]
    assert {"stores.prod.alias", "stores.prod.metadata_backend.port", "stores.prod.storage_backend.bucket"} <= {
        line.split()[0] for line in lines
    }
    assert "planted" not in "".join(lines)
    assert run(["stores", "prod.storage_backend.bucket"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "stores.prod.storage_backend.bucket = acme",
        "  from  lakeconf.toml:14",
    ]


def test_unknown_keys(file: Path) -> None:
    with pytest.raises(LakeconfError, match="'prod' has no key") as caught:
        explain_key(init(), "stores.prod.storage_backend.buckett")
    assert caught.value.hint == 'did you mean "stores.prod.storage_backend.bucket"?'
    with pytest.raises(LakeconfError, match="unknown store 'prdo'"):
        explain_key(init(), "stores.prdo")


def test_url_with_credentials_is_not_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace('host = "${PGHOST}"', 'host = "postgres://u:${PGHOST}@h/x"'))
    run(["stores", "prod.metadata_backend.host"])
    run(["stores", "prod"])
    shown = capsys.readouterr()
    assert "u:db@" not in shown.out + shown.err


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


@pytest.mark.parametrize(
    ("text", "place", "shown"),
    [
        ("a = 1\ntype = sqlite\n", (2, 8), "  2 | type = …\n    |        ^"),
        ('password = "QQ" QQ = 1', (1, 17), "  1 | password = …\n    |            ^"),
        ("a =", (1, 4), "  1 | a =\n    |    ^"),
        ("[stores.dev\na = 1", (1, 12), "  1 | [stores.dev\n    |            ^"),
        ("[a]\n[a]", (2, 4), "  2 | [a]\n    |    ^"),
        ("password QQ", (1, 10), None),
        ("QQabcdefQQ=", (1, 12), None),
        (f"{'q' * 31}=", (1, 33), None),
        ('password = """\nqq = 1', (2, 7), None),
        ("password = [\nqq = 1", (2, 4), None),
        ("[QQ", (1, 4), None),
        ("[qq, 1]", (1, 4), None),
        ("", (1, 1), None),
    ],
)
def test_the_excerpt_of_invalid_toml_is_only_the_key(text: str, place: tuple[int, int], shown: str | None) -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text or "=")
    assert syntax_excerpt(text, *place) == shown


def test_the_text_of_an_error_has_the_line_and_the_caret(tmp_path: Path) -> None:
    file = tmp_path / "lakeconf.toml"
    file.write_text('[stores.dev.metadata_backend]\ntype = "sqlite"\nurl = "QQ" # QQ\n')
    with pytest.raises(ConfigError) as caught:
        lakeconf.init(file).get_store("dev")
    text = str(caught.value)
    assert "unknown key [LC010]\n  3 | url = …\n    | ^\n  hint: did you mean" in text
    assert "QQ" not in text
    file.write_text("[stores]\npassword = QQ\n")
    with pytest.raises(ConfigError, match=r"\[LC003\]\n  2 \| password = …\n    \|            \^\n  hint: "):
        lakeconf.init(file)


def test_a_configuration_without_a_file_has_no_excerpt() -> None:
    with pytest.raises(ConfigError) as caught:
        lakeconf.init({"stores": {"dev": {"metadata_backend": {"type": "sqlite", "url": "x"}}}}).get_store("dev")
    assert [problem.excerpt for problem in caught.value.problems] == [None] * len(caught.value.problems)
