from __future__ import annotations

import base64
import html
import json
import os
import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lakeconf
import lakeconf.errors
from lakeconf.errors import LakeconfError
from lakeconf.secret import FromVariable, Secret, Settings, scrub


@pytest.mark.parametrize(
    "show", [str, repr, "{}".format, "{!r}".format, "%s".__mod__, lambda s: str([s]), lambda s: str({1: s})]
)
def test_formatting_a_secret_never_shows_its_value(show: Callable[[Secret], str]) -> None:
    assert "hunter2" not in show(Secret("hunter2"))


def test_reveal_returns_the_value() -> None:
    assert Secret("hunter2").reveal() == "hunter2"


def test_empty_secret_is_rejected() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        Secret("")


def test_secrets_are_compared_by_value() -> None:
    assert Secret("a", variable="A") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


def test_secret_is_not_json_serializable() -> None:
    with pytest.raises(TypeError):
        json.dumps(Secret("hunter2"))


def test_secret_is_pickled_as_its_variable_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "there")
    pickled = pickle.dumps(Secret("hunter2", variable="PGPASSWORD"))
    assert b"hunter2" not in pickled
    assert pickle.loads(pickled) == Secret("there")  # noqa: S301 - pickled two lines above


def test_secret_of_a_missing_variable_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(Secret("hunter2", variable="PGPASSWORD"))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with pytest.raises(LakeconfError, match="the variable PGPASSWORD is not set"):
        pickle.loads(pickled)  # noqa: S301 - pickled three lines above


def test_literal_secret_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match=r"\$\{VARIABLE\}"):
        pickle.dumps(Secret("hunter2"))


def test_from_variable_has_its_variable_name() -> None:
    text = FromVariable("value", "X")
    assert (text, text.variable) == ("value", "X")


FORMS: list[Callable[[str], str]] = [
    str,
    lambda value: value.replace("'", "''"),
    lambda value: value.replace('"', '""'),
    lambda value: value.replace("\\", "\\\\").replace("'", "\\'"),  # the escaping of libpq connection strings
    lambda value: json.dumps(value)[1:-1],
    lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    lambda value: json.dumps(json.dumps(value))[3:-3],
    lambda value: repr(value)[1:-1],
    lambda value: repr(value.encode())[2:-1],
    lambda value: quote(value, safe=""),
    lambda value: quote(value, safe="").lower() if value.islower() else quote(value),
    lambda value: quote(quote(value, safe=""), safe=""),
    quote_plus,
    html.escape,
    lambda value: html.escape(value, quote=False),
    lambda value: value.encode("ascii", "xmlcharrefreplace").decode(),
]
VALUES = st.text(st.characters(codec="utf-8"), min_size=1) | st.text("aB3'\"\\%+ /=&\n\u00e9\U0001f600", min_size=1)
AROUND = [("'", "'"), ('"', '"'), ("password=", " dbname=x"), ("://u:", "@h"), ("%3D", "%26"), ("(", ")")]


@given(VALUES, st.sampled_from(FORMS), st.sampled_from(AROUND))
def test_scrub_masks_every_encoding_of_a_secret(
    value: str, form: Callable[[str], str], around: tuple[str, str]
) -> None:
    before, after = around
    # Otherwise the end of the value is ambiguous.
    assume(not {before[-1], after[0]} & {*form(value), *value})
    assert scrub(f"{before}{form(value)}{after}", [Secret(value)]) == f"{before}***{after}"


@given(VALUES.filter(lambda value: len(value) >= 12), st.sampled_from(FORMS))
def test_scrub_masks_a_long_secret_inside_words(value: str, form: Callable[[str], str]) -> None:
    # The surrounding characters are not in the value, so any unmasked rest of it would be visible.
    before, after = ("\u2460", "\u2461") if not {"\u2460", "\u2461"} & set(value) else ("\u2462", "\u2463")
    assert scrub(f"{before}{form(value)}{after}", [Secret(value)]) == f"{before}***{after}"


@given(st.text(st.characters(codec="utf-8"), min_size=12), st.binary(max_size=4), st.binary(max_size=4))
def test_scrub_masks_a_long_secret_in_base64(value: str, before: bytes, after: bytes) -> None:
    content = before + value.encode() + after
    for encoded in (base64.b64encode(content), base64.urlsafe_b64encode(content)):
        assert scrub(f"Authorization: Basic {encoded.decode()}!", [Secret(value)]) == "Authorization: Basic ***!"
    assert value.encode().hex() not in scrub(content.hex(), [Secret(value)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("lake", "there is no lake yet in __ducklake_metadata_dev"),
        ("postgres", "cannot attach the postgres catalog: postgres_scanner is not loaded"),
        ("a", "a table has a name"),
        ("5", "50 of 51 files"),
        ("ab12", "the file cab12e.parquet"),
        ("s3", "is s3a://bucket/ there?"),
    ],
)
def test_scrub_does_not_mask_a_short_secret_in_sentences(value: str, text: str) -> None:
    assert scrub(text, [Secret(value)]) == text
    for before, after in AROUND:
        assert scrub(f"{text} {before}{value}{after}", [Secret(value)]) == f"{text} {before}***{after}"


@pytest.mark.parametrize("value", ["'" * 60, "\\" * 60, "\\'" * 30, "%25" * 30, "a'" * 500, " +" * 40])
def test_scrub_is_fast_for_repetitive_secrets(value: str) -> None:
    began = time.process_time()
    scrub(f"x{value[:-1]}" * 20, [Secret(f"{value}!")])
    assert time.process_time() - began < 5


def test_scrub_masks_the_longer_of_two_overlapping_secrets() -> None:
    assert scrub("password=abcdef", [Secret("abc"), Secret("abcdef")]) == "password=***"


def test_settings_hide_secret_values_in_their_repr() -> None:
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
def test_traceback_locals_contain_no_secret(
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
    """A value as an error reporting tool shows it; such tools descend into mappings and sequences."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={spelled_out(item)}" for key, item in value.items() if value is not os.environ)
    if isinstance(value, list | tuple):
        return " ".join(map(spelled_out, value))
    # rich shows the beginning of long strings.
    return repr(value) + (repr(value[:80]) if isinstance(value, str) else "")


@pytest.mark.parametrize(
    "rest", ["", "x = 1\n", "x =", "[stores.dev.metadata_backend]\ntype = 'sqlite'\nuri = 'x'\n" * 2]
)
def test_traceback_locals_contain_no_text_of_the_file(rest: str, tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text(f"# {PLANTED}\n{rest}")
    with pytest.raises(lakeconf.errors.LakeconfError) as raised:
        lakeconf.init(tmp_path).get_store()
    error: BaseException | None = raised.value
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            assert {name for name, value in frame.f_locals.items() if PLANTED in spelled_out(value)} == set()
        error = error.__context__


def test_traceback_for_a_missing_file_contains_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", PLANTED)
    with pytest.raises(lakeconf.errors.ConfigError) as raised:
        lakeconf.init(tmp_path / "none.toml")
    for frame, _ in traceback.walk_tb(raised.tb):
        assert PLANTED not in repr([*frame.f_locals.values()]), frame.f_code.co_name


@pytest.mark.parametrize(
    "value", ["h0rse'\\'Stapler9", 'h0rse"\\"Stapler9', "Ab1x\\\\\\\\Zy9passw", "'\\'\\''\"correct1"]
)
def test_scrub_masks_adjacent_quotes_and_backslashes(value: str) -> None:
    sql, libpq = value.replace("'", "''"), value.replace("\\", "\\\\").replace("'", "\\'")
    for form in (value, sql, libpq, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value), quote_plus(value)):
        assert "***" in scrub(f"an error: {form} is wrong", [Secret(value)])
        assert form not in scrub(f"an error: {form} is wrong", [Secret(value)])


def test_scrub_is_fast_for_many_backslashes() -> None:
    started = time.process_time()
    scrub("abc " + "\\" * 3000, [Secret("\\'abc")])
    assert time.process_time() - started < 2


def test_scrub_masks_a_name_truncated_by_postgresql() -> None:
    value = "S3cr3t" * 40
    assert value[:30] not in scrub(f'role "{value[:63]}" does not exist', [Secret(value)])
