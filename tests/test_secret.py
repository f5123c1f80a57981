from __future__ import annotations

import json
import os
import pickle
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeconf
import lakeconf.errors
from lakeconf.secret import FromVariable, Secret, Settings, scrub


@pytest.mark.parametrize(
    "show", [str, repr, "{}".format, "{!r}".format, "%s".__mod__, lambda s: str([s]), lambda s: str({1: s})]
)
def test_no_way_of_printing_shows_the_value(show: Callable[[Secret], str]) -> None:
    assert "hunter2" not in show(Secret("hunter2"))


def test_reveal_gives_the_value() -> None:
    assert Secret("hunter2").reveal() == "hunter2"


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        Secret("")


def test_equality_is_by_value() -> None:
    assert Secret("a", variable="A") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


def test_it_is_not_json() -> None:
    with pytest.raises(TypeError):
        json.dumps(Secret("hunter2"))


def test_it_pickles_as_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "there")
    pickled = pickle.dumps(Secret("hunter2", variable="PGPASSWORD"))
    assert b"hunter2" not in pickled
    assert pickle.loads(pickled) == Secret("there")  # noqa: S301 - made in the line above


def test_a_literal_refuses_to_be_pickled_and_says_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"\$\{VARIABLE\}"):
        pickle.dumps(Secret("hunter2"))


def test_a_text_remembers_its_variable() -> None:
    text = FromVariable("value", "X")
    assert (text, text.variable) == ("value", "X")


FORMS: list[Callable[[str], str]] = [
    str,
    lambda value: value.replace("'", "''"),
    lambda value: json.dumps(value)[1:-1],
    lambda value: repr(value)[1:-1],
    lambda value: quote(value, safe=""),
    quote_plus,
]


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.sampled_from(FORMS))
def test_scrubbing_leaves_no_form_of_a_secret(value: str, form: Callable[[str], str]) -> None:
    # Nothing around it can be a part of it, so what is left of it would be seen.
    before, after = ("\u2460", "\u2461") if not {"\u2460", "\u2461"} & set(value) else ("\u2462", "\u2463")
    assert scrub(f"{before}{form(value)}{after}", [Secret(value)]) == f"{before}***{after}"


def test_the_longer_of_two_secrets_is_scrubbed_whole() -> None:
    assert scrub("password=abcdef", [Secret("abc"), Secret("abcdef")]) == "password=***"


def test_settings_hold_the_values_and_do_not_show_the_secret_ones() -> None:
    settings = Settings({"key": Secret("hunter2"), "region": "eu"})
    assert dict(settings) == {"key": "hunter2", "region": "eu"}
    assert "hunter2" not in f"{settings} {settings!r}"
    assert "eu" in repr(settings)


PLANTED = "planted-in-a-local"
ON_A_SERVER = {
    "type": "postgres",
    "host": "127.0.0.1",
    "port": 1,
    "database": "d",
    "user": "u",
    "password": "${PLANTED}",
}
WITH_A_MISTAKE = ON_A_SERVER | {"port": "no number"}


@pytest.mark.parametrize("metadata", [ON_A_SERVER, WITH_A_MISTAKE])
def test_no_local_variable_of_a_traceback_holds_a_secret(
    metadata: Mapping[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", PLANTED)
    storage = {"type": "local", "path": str(tmp_path / "data")}
    config = lakeconf.init({"stores": {"s": {"metadata_backend": metadata, "storage_backend": storage}}})
    with pytest.raises(lakeconf.errors.LakeconfError) as raised:
        config.get_store("s").open()
    error: BaseException | None = raised.value
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            shown = {name for name, value in frame.f_locals.items() if PLANTED in spelled_out(value)}
            assert not shown, frame.f_code.co_name
        error = error.__context__


def spelled_out(value: object) -> str:
    """A value as a tool that reports errors shows it: it goes into mappings and sequences by itself."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={spelled_out(item)}" for key, item in value.items() if value is not os.environ)
    if isinstance(value, list | tuple):
        return " ".join(map(spelled_out, value))
    return repr(value)


def test_a_configuration_that_is_not_found_shows_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", PLANTED)
    with pytest.raises(lakeconf.errors.ConfigError) as raised:
        lakeconf.init(tmp_path / "none.toml")
    for frame, _ in traceback.walk_tb(raised.tb):
        assert PLANTED not in repr([*frame.f_locals.values()]), frame.f_code.co_name
