"""SQL as values: quoting, the statements of a store, and how each rendering writes secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from lakeconf.errors import LakeconfError
from lakeconf.secret import HiddenText, Secret
from lakeconf.sql import (
    Attach,
    Bound,
    CreateDatabase,
    CreateSecret,
    LoadExtension,
    Masked,
    Portable,
    Revealed,
    SetOption,
    Use,
    bind,
    folded,
    identifier,
    literal,
)

if TYPE_CHECKING:
    from lakeconf.sql import Rendering, Value

PLANTED = Secret("hun'ter2", variable="PGPASSWORD")
TAINTED = HiddenText("a-hunter2", "a-***")
WHOLE = HiddenText("hunter2", "***", "TOKEN")
RENDERINGS: list[Rendering] = [Masked(), Revealed(), Portable(), Bound()]


def test_duckdb_reads_identifiers_and_literals_back_unchanged() -> None:
    for name in ("a", " ", 'a"b', '"', 'x"; DROP TABLE t; --', "é", "select", "a.b"):
        assert duckdb.sql(f"SELECT 1 AS {identifier(name)}").columns == [name]
    for value in ("", "a", "it's", "''", "\\", "a\nb", "🦆", 0, -7, 2**70, 0.5, -1e300, True, False):
        assert duckdb.sql(f"SELECT {literal(value)}").fetchall() == [(value,)]
    assert (literal(True), literal(False), literal(1)) == ("true", "false", "1")  # noqa: FBT003 - the values


def test_names_are_folded_as_duckdb_compares_them() -> None:
    """DuckDB folds only ASCII letters."""
    with duckdb.connect() as connection:
        for name in ("ABCXYZ", "Ä", "İ", "ẞ", "a_B"):
            connection.execute(f"CREATE TABLE {identifier(name)} (i INT)")
            connection.execute(f"FROM {identifier(folded(name))}")
            assert folded(name) == "".join(letter.lower() if letter.isascii() else letter for letter in name)


def test_each_rendering_quotes_text_and_shows_secrets_in_its_way() -> None:
    """LOAD installs an extension that is missing; INSTALL needs the extension server even if it is not."""
    shown = ["'***'", "'hun''ter2'", "getenv('PGPASSWORD')", "?"]
    assert [rendering.secret("key", PLANTED) for rendering in RENDERINGS] == shown
    for rendering in RENDERINGS:
        assert LoadExtension("httpfs").render(rendering) == "LOAD httpfs;"
        assert (rendering.text("k", "it's"), rendering.name('a"b')) == ("'it''s'", '"a""b"')
        if not isinstance(rendering, Portable):
            tainted, whole = ("a-***", "***") if isinstance(rendering, Masked) else ("a-hunter2", "hunter2")
            found = (rendering.text("k", TAINTED), rendering.text("k", WHOLE), rendering.name(TAINTED))
            assert found == (f"'{tainted}'", f"'{whole}'", f'"{tainted}"')


def test_portable_script_has_no_value_of_a_secret() -> None:
    script = Portable()
    assert script.text("region", WHOLE) == "getenv('TOKEN')"
    with pytest.raises(LakeconfError) as literal_secret:
        script.secret("stores.dev.password", Secret("hunter2"))
    message = "stores.dev.password is no variable, so a portable script would contain its value"
    assert literal_secret.value.message == message
    assert literal_secret.value.hint == 'reference a variable in the configuration, such as "${MY_SECRET}"'
    with pytest.raises(LakeconfError) as tainted:
        script.text("stores.dev.prefix", TAINTED)
    message = "stores.dev.prefix contains a secret, so a portable script would contain its value"
    assert tainted.value.message == message
    assert tainted.value.hint == "use another value, or a single variable"
    with pytest.raises(LakeconfError, match=r"^the alias contains a secret, so a portable script would"):
        script.name(WHOLE)


def test_secrets_are_bound_in_the_order_of_their_marks_and_run() -> None:
    one, other = Secret("1st"), Secret("2nd")
    statement = CreateSecret("s", "s3", {"secret": one, "region": "eu", "m": {"a": other, "b": "c"}, "l": [one]})
    text, parameters = bind(statement)
    assert text == (
        "CREATE OR REPLACE TEMPORARY SECRET \"s\" (TYPE s3, SECRET ?, REGION 'eu', M MAP {'a': ?, 'b': 'c'}, L [?]);"
    )
    assert parameters == [one, other, one]
    with duckdb.connect() as connection:
        text, parameters = bind(CreateSecret("s", "http", {"bearer_token": PLANTED}))
        connection.execute(text, [secret.reveal() for secret in parameters])
        query = "SELECT name, type, persistent FROM duckdb_secrets()"
        assert connection.execute(query).fetchall() == [("s", "http", False)]


def test_options_of_every_type_are_rendered_and_secrets_in_motherduck_are_kept() -> None:
    options: dict[str, Value] = {"a": 1, "b": 1.5, "c": True, "d": [1, "x"], "e": {"k'": False}, "f": {}, "g": ["it's"]}
    rendered = "(TYPE t, A 1, B 1.5, C true, D [1, 'x'], E MAP {'k''': false}, F MAP {}, G ['it''s']);"
    assert CreateSecret("n", "t", options).render(Masked()) == f'CREATE OR REPLACE TEMPORARY SECRET "n" {rendered}'
    there = CreateSecret("s", "s3", {}, in_motherduck=True)
    assert there.render(Masked()) == 'CREATE OR REPLACE SECRET "s" IN MOTHERDUCK (TYPE s3);'


def test_error_names_the_key_of_the_option() -> None:
    token: dict[str, Value] = {"token": Secret("x")}
    storage, attach = "stores.dev.storage_backend", "stores.dev.attach_options"
    for statement, key in (
        (CreateSecret("s", "s3", token, key=storage), storage),
        (CreateSecret("s", "s3", token), "s"),
        (CreateDatabase("d", token), "d"),
        (Attach("md:", "a", token, key=attach), attach),
        (Attach("md:", "a", token), "md:"),
    ):
        for options, name in ((token, "token"), ({"map": token}, "map.token")):
            with pytest.raises(LakeconfError) as raised:
                statement._replace(options=options).render(Portable())
            assert raised.value.message.startswith(f"{key}.{name} is")


def test_attach_quotes_and_masks_its_path_and_its_alias() -> None:
    assert Attach("md:", None).render(Masked()) == "ATTACH 'md:';"
    assert Attach("a'b", 'x"y').render(Masked()) == "ATTACH 'a''b' AS \"x\"\"y\";"
    assert Attach("p", "", {"read_only": True}).render(Masked()) == "ATTACH 'p' AS \"\" (READ_ONLY true);"
    assert Attach(TAINTED, TAINTED).render(Masked()) == "ATTACH 'a-***' AS \"a-***\";"
    with pytest.raises(LakeconfError, match=r"^path contains a secret"):
        Attach(TAINTED, "a").render(Portable())


def test_other_statements() -> None:
    database = CreateDatabase('my "lake"', {"data_path": "s3://b/"})
    created = 'CREATE DATABASE IF NOT EXISTS "my ""lake""" (TYPE DUCKLAKE, DATA_PATH \'s3://b/\');'
    assert database.render(Masked()) == created
    assert Use('a"b').render(Masked()) == 'USE "a""b";'
    assert SetOption("ca_cert_file", "it's").render(Masked()) == "SET GLOBAL ca_cert_file = 'it''s';"
    with pytest.raises(LakeconfError, match=r"^ca_cert_file contains a secret"):
        SetOption("ca_cert_file", TAINTED).render(Portable())
