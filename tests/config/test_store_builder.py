"""A store while it is read: its values, their origins, and problems that show no value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from config_source import draft_of

from lakeconf.config.codes import Code
from lakeconf.config.file import Source
from lakeconf.config.resolve import Draft, Inheritance, secret_texts
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from lakeconf.errors import Problem

TEXT = """
[stores.dev]
alias = "${ALIAS}"
extends = "base"
[stores.dev.storage_backend]
prefix = "a/${PREFIX:-x}/b"
secret = "${TOKEN:-fallback}"
use_ssl = false
list = ["${ALIAS}", [1]]
[stores.base.storage_backend]
bucket = "acme"
secret = "inherited"
"""


def draft_of_data(data: dict[str, Any], **environment: str) -> Draft:
    """The draft of the store `dev` of a dict."""
    source = Source({"stores": {"dev": data}})
    return Draft(Inheritance(source, source.data["stores"]), "dev", environment)


def reported(draft: Draft, *arguments: Any, **more: Any) -> Problem:
    draft.report(*arguments, **more)
    return draft.problems[-1]


# Values and origins.


def test_values_are_resolved_at_every_depth() -> None:
    draft = draft_of(TEXT, {"ALIAS": "lake", "TOKEN": ""})
    assert draft.values == {
        "alias": "lake",
        "extends": "base",
        "storage_backend": {
            "prefix": "a/x/b",
            "secret": "fallback",
            "use_ssl": False,
            "list": ["lake", [1]],
            "bucket": "acme",
        },
    }
    assert (draft.name, draft.file_name, draft.problems, draft.unresolved) == ("dev", "lakeconf.toml", [], set())
    assert draft.looked_up == {"ALIAS": "lake", "PREFIX": None, "TOKEN": ""}


def test_other_objects_are_kept_and_paths_become_texts() -> None:
    secret = Secret("x")
    draft = draft_of_data({"a": Path("/a/${X}"), "b": secret, "c": 1.5, "d": None})
    assert draft.values == {"a": "/a/${X}", "b": secret, "c": 1.5, "d": None}
    assert draft.file_name == "the configuration"


# Variables that cannot be resolved.


def test_untrusted_file_reads_no_variable_and_reports_none_as_missing() -> None:
    draft = draft_of(TEXT, untrusted=True)
    assert draft.problems == []
    assert draft.unresolved == {("alias",), ("storage_backend", "list")}
    malformed = draft_of('[stores.dev]\nalias = "${1}"', untrusted=True)
    assert [problem.code for problem in malformed.problems] == ["LC031"]


def test_message_and_hint_show_no_secret_and_no_value_of_a_variable() -> None:
    draft = draft_of(TEXT, {"ALIAS": "planted", "TOKEN": "hunter2"}, hidden=[Secret("else-where")])
    text = "planted hunter2 else-where inherited acme"
    problem = reported(draft, Code.WRONG_VALUE, text, ("storage_backend", "bucket"), hint=text)
    assert problem.message == "${ALIAS} *** *** inherited acme"
    assert problem.hint == problem.message
    assert draft.shown(text) == problem.message


@pytest.mark.parametrize(("value", "shown"), [("abc", "abc"), ("abcd", "${ONE}"), ("", ""), ("a\nb'c\\d", "${ONE}")])
def test_values_of_four_characters_or_more_become_the_first_variable(value: str, shown: str) -> None:
    """So does the escaped form of a value."""
    draft = draft_of('[stores.dev]\nalias = "x${ONE}"\nother = "${TWO}"', {"ONE": value, "TWO": value})
    assert draft.shown(f"<{value}>") == f"<{shown}>"
    if "\n" in value:
        assert draft.shown(repr(value)) == f'"{shown}"'


def test_secrets_in_lists_and_tables_are_found() -> None:
    data = {
        "storage_backend": {"secret_parameters": {"tokens": ["planted-1", {"region": "planted-2"}]}},
        "password": Secret("planted-3"),
        "secret": "",
        "region": "shown-1",
    }
    assert secret_texts({"dev": data}) == ("planted-1", "planted-2", "planted-3")


def test_problem_while_the_values_are_read_masks_those_of_the_whole_configuration() -> None:
    draft = draft_of('[stores.dev]\nalias = "${X:?planted-9}"', hidden=[Secret("planted-9")])
    assert draft.problems[0].message == "the variable X is not set: ***"


# Paths.


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data", "/conf/data"),
        ("./a/../b", "/conf/b"),
        ("../b", "/b"),
        ("/abs/x/", "/abs/x"),
        ("", "/conf"),
        ("a b'c", "/conf/a b'c"),
    ],
)
def test_relative_path_starts_from_the_folder_of_the_file(path: str, expected: str) -> None:
    assert draft_of("[stores.dev]").absolute(path) == expected


def test_home_is_expanded_and_links_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    draft = draft_of("[stores.dev]")
    assert draft.absolute("~/data") == str(tmp_path / "data")
    assert draft.absolute(str(tmp_path / "link" / "x")) == str(tmp_path / "link" / "x")
