from __future__ import annotations

import base64
import html
import json
import os
import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lakeconf
from lakeconf.errors import ConfigError, LakeconfError
from lakeconf.secret import FromVariable, Secret, Settings, scrub

if TYPE_CHECKING:
    from pathlib import Path


def test_a_secret_is_shown_only_on_request_and_compared_by_value() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret!s} {secret!r} {secret} {[secret]} { {1: secret} } {'%s' % secret}"  # noqa: UP031
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.reveal() == "hunter2"
    assert secret == Secret("hunter2", variable="A")
    assert secret not in (Secret("b"), "hunter2")
    assert len({secret, Secret("hunter2")}) == 1
    with pytest.raises(ValueError, match="must not be empty"):
        Secret("")
    text = FromVariable("value", "X")
    assert (text, text.variable) == ("value", "X")
    settings = Settings({"key": secret, "region": "eu"})
    assert dict(settings) == {"key": "hunter2", "region": "eu"}
    assert "hunter2" not in f"{settings} {settings!r}"
    assert "eu" in repr(settings)


def test_secret_is_pickled_as_its_variable_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "there")
    pickled = pickle.dumps(Secret("hunter2", variable="PGPASSWORD"))
    assert b"hunter2" not in pickled
    assert pickle.loads(pickled) == Secret("there")  # noqa: S301 - pickled two lines above
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(LakeconfError, match="the variable PGPASSWORD is not set"):
        pickle.loads(pickled)  # noqa: S301
    with pytest.raises(TypeError, match=r"\$\{VARIABLE\}"):
        pickle.dumps(Secret("hunter2"))


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


def test_scrub_is_fast_for_repetitive_secrets_and_texts() -> None:
    began = time.process_time()
    for value in ("'" * 60, "\\" * 60, "\\'" * 30, "%25" * 30, "a'" * 500, " +" * 40):
        scrub(f"x{value[:-1]}" * 20, [Secret(f"{value}!")])
    scrub("abc " + "\\" * 3000, [Secret("\\'abc")])
    assert time.process_time() - began < 5


PLANTED = "planted-in-a-local"
ADDRESS = {"type": "postgres", "host": "127.0.0.1", "port": 1}
ON_A_SERVER = ADDRESS | {"database": "d", "user": "u", "password": "${PLANTED}"}
WITH_A_MISTAKE = ON_A_SERVER | {"port": "no number"}


def locals_with_the_secret(error: BaseException | None) -> dict[str, set[str]]:
    """The variables of each function of a traceback, and of its causes, that show the planted secret."""
    found: dict[str, set[str]] = {}
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if shown := {name for name, value in frame.f_locals.items() if PLANTED in spelled_out(value)}:
                found.setdefault(frame.f_code.co_name, set()).update(shown)
        error = error.__context__
    return found


@pytest.mark.parametrize("metadata", [ON_A_SERVER, WITH_A_MISTAKE])
def test_traceback_locals_contain_no_secret(
    metadata: Mapping[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", PLANTED)
    storage = {"type": "local", "path": str(tmp_path / "data")}
    config = lakeconf.init({"stores": {"s": {"metadata_backend": metadata, "storage_backend": storage}}})
    with pytest.raises(LakeconfError) as raised:
        config.get_store("s").open()
    assert locals_with_the_secret(raised.value) == {}
    with pytest.raises(ConfigError) as missing:
        lakeconf.init(tmp_path / "none.toml")
    assert locals_with_the_secret(missing.value) == {}


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
    with pytest.raises(LakeconfError) as raised:
        lakeconf.init(tmp_path).get_store()
    assert locals_with_the_secret(raised.value) == {}


def test_scrub_masks_adjacent_quotes_truncated_names_and_overlapping_secrets() -> None:
    for value in ("h0rse'\\'Stapler9", 'h0rse"\\"Stapler9', "Ab1x\\\\\\\\Zy9passw", "'\\'\\''\"correct1"):
        sql, libpq = value.replace("'", "''"), value.replace("\\", "\\\\").replace("'", "\\'")
        for form in (value, sql, libpq, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value), quote_plus(value)):
            masked = scrub(f"an error: {form} is wrong", [Secret(value)])
            assert ("***" in masked, form in masked) == (True, False)
    name = "S3cr3t" * 40
    assert name[:30] not in scrub(f'role "{name[:63]}" does not exist', [Secret(name)])
    assert scrub("password=abcdef", [Secret("abc"), Secret("abcdef")]) == "password=***"
