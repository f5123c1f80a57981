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
EVERY_RENDERING = pytest.mark.parametrize("rendering", RENDERINGS, ids=lambda one: type(one).__name__)


@pytest.mark.parametrize("name", ["a", "", 'a"b', '"', 'x"; DROP TABLE t; --', "é", "select", "a.b"])
def test_duckdb_reads_an_identifier_back_unchanged(name: str) -> None:
    name = name or " "
    assert duckdb.sql(f"SELECT 1 AS {identifier(name)}").columns == [name]


@pytest.mark.parametrize("value", ["", "a", "it's", "''", "\\", "a\nb", "🦆", 0, -7, 2**70, 0.5, -1e300, True, False])
def test_duckdb_reads_a_literal_back_unchanged(value: str | float) -> None:
    assert duckdb.sql(f"SELECT {literal(value)}").fetchall() == [(value,)]


def test_literal_of_a_boolean_is_no_number() -> None:
    assert (literal(True), literal(False), literal(1)) == ("true", "false", "1")  # noqa: FBT003 - the values


@pytest.mark.parametrize("name", ["ABCXYZ", "Ä", "İ", "ẞ", "a_B"])
def test_names_are_folded_as_duckdb_compares_them(name: str) -> None:
    """DuckDB folds only ASCII letters."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE {identifier(name)} (i INT)")
        found = connection.execute("SELECT table_name FROM duckdb_tables()").fetchone()
        assert found is not None
        connection.execute(f"FROM {identifier(folded(name))}")
    assert folded(name) == "".join(letter.lower() if letter.isascii() else letter for letter in name)


@EVERY_RENDERING
def test_no_script_installs_extensions(rendering: Rendering) -> None:
    """LOAD installs an extension that is missing; INSTALL needs the extension server even if it is not."""
    assert LoadExtension("httpfs").render(rendering) == "LOAD httpfs;"


@pytest.mark.parametrize(
    ("rendering", "expected"),
    [
        (Masked(), "'***'"),
        (Revealed(), "'hun''ter2'"),
        (Portable(), "getenv('PGPASSWORD')"),
        (Bound(), "?"),
    ],
)
def test_secret_of_each_rendering(rendering: Rendering, expected: str) -> None:
    assert rendering.secret("key", PLANTED) == expected


@pytest.mark.parametrize(
    ("rendering", "tainted", "whole", "name"),
    [
        (Masked(), "'a-***'", "'***'", '"a-***"'),
        (Revealed(), "'a-hunter2'", "'hunter2'", '"a-hunter2"'),
        (Bound(), "'a-hunter2'", "'hunter2'", '"a-hunter2"'),
    ],
)
def test_text_that_contains_a_secret_is_masked_only_if_it_is_shown(
    rendering: Rendering, tainted: str, whole: str, name: str
) -> None:
    assert (rendering.text("k", TAINTED), rendering.text("k", WHOLE), rendering.name(TAINTED)) == (tainted, whole, name)


@EVERY_RENDERING
def test_plain_text_and_names_are_quoted(rendering: Rendering) -> None:
    assert (rendering.text("k", "it's"), rendering.name('a"b')) == ("'it''s'", '"a""b"')


def test_portable_script_has_no_value_of_a_secret() -> None:
    script = Portable()
    assert script.text("region", WHOLE) == "getenv('TOKEN')"
    with pytest.raises(LakeconfError) as literal_secret:
        script.secret("stores.dev.password", Secret("hunter2"))
    assert literal_secret.value.message == (
        "stores.dev.password is a literal, so a portable script would contain its value"
    )
    assert literal_secret.value.hint == 'reference a variable in the configuration, such as "${MY_SECRET}"'
    with pytest.raises(LakeconfError) as tainted:
        script.text("stores.dev.prefix", TAINTED)
    assert tainted.value.message == (
        "stores.dev.prefix contains a secret, so a portable script would contain its value"
    )
    assert tainted.value.hint == "use another value, or a single variable"
    with pytest.raises(LakeconfError, match=r"^the alias contains a secret, so a portable script would"):
        script.name(WHOLE)


def test_bind_returns_the_secrets_in_the_order_of_their_marks() -> None:
    one, other = Secret("1st"), Secret("2nd")
    statement = CreateSecret("s", "s3", {"secret": one, "region": "eu", "m": {"a": other, "b": "c"}, "l": [one]})
    text, parameters = bind(statement)
    assert text == (
        "CREATE OR REPLACE TEMPORARY SECRET \"s\" (TYPE s3, SECRET ?, REGION 'eu', M MAP {'a': ?, 'b': 'c'}, L [?]);"
    )
    assert parameters == [one, other, one]


def test_options_of_every_type_are_rendered() -> None:
    options: dict[str, Value] = {"a": 1, "b": 1.5, "c": True, "d": [1, "x"], "e": {"k'": False}, "f": {}, "g": ["it's"]}
    assert (
        CreateSecret("n", "t", options)
        .render(Masked())
        .endswith("(TYPE t, A 1, B 1.5, C true, D [1, 'x'], E MAP {'k''': false}, F MAP {}, G ['it''s']);")
    )


def test_secret_in_motherduck_is_not_temporary() -> None:
    here, there = CreateSecret("s", "s3", {}), CreateSecret("s", "s3", {}, in_motherduck=True)
    assert here.render(Masked()) == 'CREATE OR REPLACE TEMPORARY SECRET "s" (TYPE s3);'
    assert there.render(Masked()) == 'CREATE OR REPLACE SECRET "s" IN MOTHERDUCK (TYPE s3);'


@pytest.mark.parametrize(
    ("statement", "key"),
    [
        (
            CreateSecret("s", "s3", {"token": Secret("x")}, key="stores.dev.storage_backend"),
            "stores.dev.storage_backend",
        ),
        (CreateSecret("s", "s3", {"token": Secret("x")}), "s"),
        (CreateDatabase("d", {"token": Secret("x")}), "d"),
        (Attach("md:", "a", {"token": Secret("x")}, key="stores.dev.attach_options"), "stores.dev.attach_options"),
        (Attach("md:", "a", {"token": Secret("x")}), "md:"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_error_names_the_key_of_the_option(
    statement: CreateSecret | CreateDatabase | Attach, key: str, *, nested: bool
) -> None:
    options = {"map": {"token": Secret("x")}} if nested else statement.options
    with pytest.raises(LakeconfError) as raised:
        statement._replace(options=options).render(Portable())
    assert raised.value.message.startswith(f"{key}.map.token is" if nested else f"{key}.token is")


def test_attach_without_an_alias_or_options() -> None:
    assert Attach("md:", None).render(Masked()) == "ATTACH 'md:';"
    assert Attach("a'b", 'x"y').render(Masked()) == "ATTACH 'a''b' AS \"x\"\"y\";"
    assert Attach("p", "", {"read_only": True}).render(Masked()) == "ATTACH 'p' AS \"\" (READ_ONLY true);"


def test_attach_masks_its_path_and_its_alias() -> None:
    assert Attach(TAINTED, TAINTED).render(Masked()) == "ATTACH 'a-***' AS \"a-***\";"
    with pytest.raises(LakeconfError, match=r"^path contains a secret"):
        Attach(TAINTED, "a").render(Portable())


def test_other_statements() -> None:
    database = CreateDatabase('my "lake"', {"data_path": "s3://b/"})
    assert database.render(Masked()) == (
        'CREATE DATABASE IF NOT EXISTS "my ""lake""" (TYPE DUCKLAKE, DATA_PATH \'s3://b/\');'
    )
    assert Use('a"b').render(Masked()) == 'USE "a""b";'
    assert SetOption("ca_cert_file", "it's").render(Masked()) == "SET GLOBAL ca_cert_file = 'it''s';"
    with pytest.raises(LakeconfError, match=r"^ca_cert_file contains a secret"):
        SetOption("ca_cert_file", TAINTED).render(Portable())


def test_secret_runs_as_it_is_bound() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a VARCHAR, b VARCHAR[])")
        text, parameters = bind(CreateSecret("s", "http", {"bearer_token": PLANTED}))
        connection.execute(text, [secret.reveal() for secret in parameters])
        query = "SELECT name, type, persistent FROM duckdb_secrets()"
        assert connection.execute(query).fetchall() == [("s", "http", False)]
