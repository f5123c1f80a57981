"""Stores of a file: keys, alias, options, backends, origins and summaries; all of their problems, without values."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from config_source import draft_of, reading_of, source_of, stores_of, summary

from lakeconf.backends.store_options import MaintenanceLimits
from lakeconf.config.codes import Code
from lakeconf.config.file import ConfigSource
from lakeconf.config.read_store import STORE_NAME, StoreReading, read_store, structure_problems
from lakeconf.config.resolve import Draft, Inheritance, Outline, outline_of, secret_names, secret_texts
from lakeconf.errors import Problem
from lakeconf.secret import HiddenText, Secret

BACKENDS = """
[stores.dev.metadata_backend]
type = "sqlite"
uri = "c.sqlite"
[stores.dev.storage_backend]
type = "local"
path = "data"
"""
POSTGRES_S3 = """
[stores.dev.metadata_backend]
type = "postgres"
host = "h"
database = "d"
user = "u"
password = "${PASSWORD}"
[stores.dev.storage_backend]
type = "s3"
bucket = "b"
key_id = "k"
secret = "s"
region = "eu"
"""
Summary = tuple[str, str, str | None, str | None, int | None]


def with_keys(lines: str) -> str:
    return f"[stores.dev]\n{lines}\n{BACKENDS}"


def problems(text: str, environment: dict[str, str] | None = None) -> list[Summary]:
    reading = reading_of(text, environment)
    assert (reading.store is None) == bool(reading.problems)
    assert {problem.store for problem in reading.problems} <= {"dev"}
    return [summary(problem) for problem in reading.problems]


def problem(text: str, environment: dict[str, str] | None = None) -> Summary:
    (found,) = problems(text, environment)
    return found


# A valid store.


def test_store_has_its_name_alias_options_and_backends() -> None:
    reading = reading_of(with_keys('alias = "lake"\nattach_options = { read_only = true }'))
    store = reading.store
    assert store is not None
    assert (store.name, store.alias, store.attach_options) == ("dev", "lake", {"read_only": True})
    assert (store.metadata_backend.description(), reading.problems) == ("/conf/c.sqlite", ())
    assert store.storage_backend is not None
    assert store.storage_backend.location == "/conf/data/"


def test_store_has_its_committer_and_its_alias() -> None:
    for committer in ("auto", "public", "staged"):
        read = reading_of(with_keys('committer = "${C}"'), {"C": committer}).store
        assert read is not None
        assert read.committer == committer
    for alias in ("a", "_", "a_1", "_2", "lake__x"):
        read = reading_of(with_keys(f'alias = "{alias}"')).store
        assert read is not None
        assert read.alias == alias


def test_reading_shows_no_value() -> None:
    reading = reading_of(POSTGRES_S3 + 'nonsense = "shown"', {"PASSWORD": "hunter2"})
    assert repr(reading).startswith("StoreReading(None, (Problem(")
    assert "hunter2" not in repr(reading) + repr(reading_of(POSTGRES_S3, {"PASSWORD": "hunter2"}))
    assert StoreReading(None, ()).secrets == ()
    assert StoreReading(None, ()).value(("a",)) is None


def test_untrusted_file_with_variables_gives_no_store_and_no_problems() -> None:
    reading = reading_of(POSTGRES_S3, untrusted=True)
    assert (reading.store, reading.problems) == (None, ())
    assert reading_of(BACKENDS, untrusted=True).store is not None
    draft = draft_of(TEXT, untrusted=True)
    assert draft.problems == []
    assert draft.unresolved == {("alias",), ("storage_backend", "list")}
    malformed = draft_of('[stores.dev]\nalias = "${1}"', untrusted=True)
    assert [problem.code for problem in malformed.problems] == ["LC031"]


# Problems of the table.


def test_pair_is_not_checked_if_one_of_the_two_is_invalid() -> None:
    for valid, invalid in (('path = "data"', "pat = 'x'"), ('uri = "c.sqlite"', "ur = 'x'")):
        assert [one[0] for one in problems(BACKENDS.replace(valid, invalid))] == ["LC010"]


def test_problems_of_all_parts_are_reported_in_the_order_of_the_file() -> None:
    text = with_keys("alias = 1\nattach_options = 2\nx = 3").replace("uri", "url").replace("path", "pat")
    found = [(one[0], one[4]) for one in problems(text)]
    assert found == [("LC012", 2), ("LC012", 3), ("LC010", 4), ("LC010", 8), ("LC010", 11)]


# The alias.


@pytest.mark.parametrize(
    ("value", "message"),
    [("Secret-Name", "invalid alias '${ALIAS}'"), ("information_schema", "DuckDB reserves '${ALIAS}'")],
)
def test_value_of_a_variable_is_not_shown_not_even_in_part(value: str, message: str) -> None:
    found, hint = problem(with_keys('alias = "${ALIAS}"'), {"ALIAS": value}), "change the value of the variable"
    assert found == ("LC023", f"{message} (from the variable ALIAS)", hint, "stores.dev.alias", 2)


def test_name_that_duckdb_reserves_needs_an_alias() -> None:
    text = BACKENDS.replace(".dev.", ".main.")
    found = read_store(stores_of(text), "main", {})
    assert [summary(one)[:3] for one in found.problems] == [
        ("LC023", "DuckDB reserves 'main'", 'set an alias: [stores.main] alias = "lake"')
    ]
    assert read_store(stores_of('[stores.main]\nalias = "lake"\n' + text), "main", {}).store is not None


# The options of ATTACH.


def test_invalid_committer_or_limit_is_reported() -> None:
    for line, expected in (
        ("committer = 1", ("LC012", "must be a string, not an integer", "write it in quotes", "committer")),
        ('committer = "Staged"', ("LC013", "unknown committer", "use one of: auto, public, staged", "committer")),
        ("maintenance = 7", ("LC012", "must be a table, not an integer", 'write { deadline = "30m" }', "maintenance")),
        *(
            (f"maintenance = {{ {limit} }}", (code, message, hint, f"maintenance.{limit.partition(' ')[0]}"))
            for limit, code, message, hint in (
                ("deadline = 30", "LC012", "must be a string", 'write deadline = "30m"'),
                ('deadline = "30"', "LC013", "is not a duration", 'write deadline = "30m"'),
                ('memory_limit = "0GB"', "LC013", "must be more than 0", 'write memory_limit = "4GB"'),
                (
                    'keep_files = "23h"',
                    "LC013",
                    "must be at least 1d: other processes may still read or write the files",
                    'write keep_files = "2d"',
                ),
                ('keep_snapshots = "100001d"', "LC013", "must be at most 100000d", 'write keep_snapshots = "7d"'),
                *(
                    (
                        f'backups = "{place}"',
                        "LC013",
                        "must not have credentials: the URI contains a user, a password or a token",
                        'write backups = "s3://acme/backups"',
                    )
                    for place in ("s3://u:planted@acme/b", "az://a.blob.core.windows.net/c/b?sv=1&sig=planted")
                ),
                ('memory_limits = "4GB"', "LC010", "unknown key", 'did you mean "memory_limit"?'),
            )
        ),
    ):
        code, message, hint, key = expected
        assert problem(with_keys(line)) == (code, message, hint, f"stores.dev.{key}", 2), line


def test_limits_of_maintenance_are_read_with_their_variables() -> None:
    text = with_keys('maintenance = { deadline = "${LIMIT}", memory_limit = "4GB", keep_files = "36h" }')
    store = reading_of(text, {"LIMIT": "1h30m"}).store
    assert store is not None
    assert MaintenanceLimits.of(store.maintenance) == MaintenanceLimits(
        timedelta(minutes=90), "4GB", keep_snapshots=timedelta(days=30), keep_files=timedelta(hours=36)
    )
    unset = reading_of(text, {})
    assert [problem.code for problem in unset.problems] == ["LC030"]


def test_text_of_a_variable_gets_the_type_of_the_option() -> None:
    for name, value, expected in (
        ("snapshot_version", "7", 7),
        ("read_only", "1", True),
        ("read_only", "FALSE", False),
        ("snapshot_time", "2026", "2026"),
        ("meta_x", "7", Secret("7")),
        ("meta_schema", "7", "7"),
    ):
        store = reading_of(with_keys(f'attach_options = {{ {name} = "${{V}}" }}'), {"V": value}).store
        assert store is not None, name
        assert dict(store.attach_options) == {name: expected}, name


def test_options_that_are_invalid_beside_another_are_reported() -> None:
    text = with_keys('attach_options = { snapshot_time = "${UNSET}", read_only = 1 }')
    assert [one[0] for one in problems(text)] == ["LC030", "LC054"]
    text = with_keys("attach_options = { snapshot_version = 1, read_only = false }")
    message = "a lake that is pinned at a snapshot is read-only"
    assert problem(text) == (Code.FIELDS.code, message, "remove it", "stores.dev.attach_options.read_only", 2)


# Secrets.


def test_value_that_is_a_secret_elsewhere_is_masked_when_it_is_printed() -> None:
    text = POSTGRES_S3.replace('region = "eu"', 'region = "${PASSWORD}"\nprefix = "a/${PASSWORD}"')
    text += 'secret_parameters = { kms_key_id = "${PASSWORD}" }\n'
    store = reading_of(text, {"PASSWORD": "hunter2"}).store
    assert store is not None
    assert "hunter2" not in repr(store.storage_backend) + repr(store.statements)
    region = store.storage_backend.region  # type: ignore[union-attr]
    assert isinstance(region, HiddenText)
    assert (region, region.variable) == ("hunter2", "PASSWORD")


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
    source = ConfigSource({"stores": {"dev": {"a": Path("/a/${X}"), "b": secret, "c": 1.5, "d": None}}})
    draft = Draft(Inheritance(source, source.data["stores"]), "dev", {})
    assert draft.values == {"a": "/a/${X}", "b": secret, "c": 1.5, "d": None}
    assert draft.file_name == "the configuration"


# Variables that cannot be resolved.


def test_message_and_hint_show_no_secret_and_no_value_of_a_variable() -> None:
    draft = draft_of(TEXT, {"ALIAS": "planted", "TOKEN": "hunter2"}, hidden=[Secret("else-where")])
    text = "planted hunter2 else-where inherited acme"
    draft.report(Code.WRONG_VALUE, text, ("storage_backend", "bucket"), hint=text)
    problem = draft.problems[-1]
    assert problem.message == "${ALIAS} *** *** inherited acme"
    assert problem.hint == problem.message
    assert draft.shown(text) == problem.message
    draft = draft_of('[stores.dev]\nalias = "${X:?planted-9}"', hidden=[Secret("planted-9")])
    assert draft.problems[0].message == "the variable X is not set: ***"


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


# Paths.


def test_relative_path_starts_from_the_folder_of_the_file_and_links_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for path, expected in (
        ("data", "/conf/data"),
        ("./a/../b", "/conf/b"),
        ("../b", "/b"),
        ("/abs/x/", "/abs/x"),
        ("", "/conf"),
        ("a b'c", "/conf/a b'c"),
        ("~/data", f"{tmp_path}/data"),
        (f"{tmp_path}/link/x", f"{tmp_path}/link/x"),
    ):
        assert draft_of("[stores.dev]").absolute(path) == expected, path


SUMMARIZED = """
[stores.dev.metadata_backend]
type = "sqlite"
secret_name = "of_the_catalog"

[stores.prod]
extends = "dev"
alias = "${ALIAS}"
storage_backend = { type = "s3", secret_name = "${NAME}" }

[stores.cloud.metadata_backend]
type = "motherduck"
database = "shop"
table = { a = 1 }

[stores.local.metadata_backend]
type = "motherduck"
database = "shop"
compute = "local"

[stores.odd]
metadata_backend = "text"
storage_backend = { type = { a = 1 }, secret_name = { b = 2 } }

[stores.unknown]
metadata_backend = { type = "nonsense", database = "shop" }

[stores.typeless.metadata_backend]
database = "shop"

[stores.number]
metadata_backend = { type = 7, secret_name = 8 }

[stores.orphan]
extends = "nowhere"
"""
STORES = stores_of(SUMMARIZED)


@pytest.mark.parametrize(
    "expected",
    [
        ("dev", True, "sqlite", None, None, "dev"),
        ("prod", False, "sqlite", "s3", "dev", "${ALIAS}"),
        ("cloud", False, "motherduck", None, None, "shop"),
        ("local", False, "motherduck", None, None, "local"),
        ("odd", False, None, None, None, "odd"),
        ("number", False, "7", None, None, "number"),
        ("typeless", False, None, None, None, "typeless"),
        ("unknown", False, "nonsense", None, None, "unknown"),
        ("orphan", False, None, None, None, "orphan"),
    ],
    ids=str,
)
def test_summary_shows_what_the_file_says(expected: Outline) -> None:
    assert outline_of(STORES, expected[0], is_default=expected[0] == "dev") == expected


def test_names_of_secrets_as_written() -> None:
    assert secret_names(STORES, "dev") == ("of_the_catalog",)
    assert secret_names(STORES, "prod") == ("of_the_catalog", "${NAME}")
    assert secret_names(STORES, "cloud") == secret_names(STORES, "odd") == secret_names(STORES, "orphan") == ()
    assert secret_names(STORES, "number") == ("8",)


WRITE_A_STORE = 'write [stores.dev.metadata_backend] and add type = "sqlite" below it'


def structure(text: str, data: dict[str, Any] | None = None) -> list[Problem]:
    source = source_of(text)
    return list(structure_problems(source if data is None else replace(source, data=data)))


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "a string"), (1, "an integer"), (True, "a boolean"), ([], "a list"), (date(2026, 1, 1), "a date or time")],
)
def test_stores_and_pipeline_are_tables(value: object, kind: str) -> None:
    (problem,) = structure("", {"stores": value})
    assert summary(problem) == ("LC012", f"must be a table, not {kind}", WRITE_A_STORE, "stores", None)
    (problem,) = structure("", {"stores": {"dev": {}}, "pipeline": value})
    hint = 'write [pipeline] and add python = ["models.py"] below it'
    assert summary(problem) == ("LC012", f"must be a table, not {kind}", hint, "pipeline", None)


def test_valid_store_name() -> None:
    for name in ("a", "dev", "a1", "a_b", "a1_2b_c3"):
        assert STORE_NAME.fullmatch(name)
        assert structure("", {"stores": {name: {}}}) == []


def test_invalid_store_name_is_reported_with_a_valid_one() -> None:
    for name, proposed in (
        ("My-Store", "my_store"),
        ("a__b", "a_b"),
        ("_a", "a"),
        ("a_", "a"),
        ("1a", "s1a"),
        ("", "store"),
        ("Größe", "groe"),
        ("a\n", "a"),
        ("ä", "a"),
        ("a; DROP TABLE t", "a_drop_table_t"),
        *(("Größe 1", "groe_1"), ("--A--b--", "a_b"), ("9", "s9"), ("!", "store"), ("ﬁn", "fin"), ("_9", "s9")),
    ):
        (problem,) = structure("", {"stores": {name: {}}})
        assert (problem.code, problem.message) == ("LC020", "invalid store name"), name
        assert problem.hint == (f"rename it to {proposed}: use lower-case letters, digits and single underscores"), name
        assert STORE_NAME.fullmatch(proposed), name
