"""One store: its keys, alias, options and backends, and all of its problems."""

from __future__ import annotations

from datetime import timedelta

import pytest
from config_source import reading_of, stores_of, summary

from lakeconf.backends.store_options import MaintenanceLimits
from lakeconf.config.codes import Code
from lakeconf.config.read_store import Reading, allowed_name, read_store
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


@pytest.mark.parametrize("committer", ["auto", "public", "staged"])
def test_store_has_its_committer(committer: str) -> None:
    read = reading_of(with_keys('committer = "${C}"'), {"C": committer}).store
    assert read is not None
    assert read.committer == committer


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [("1", "LC012", "must be a string, not an integer"), ('"Staged"', "LC013", "unknown committer")],
)
def test_wrong_committer(value: str, code: str, message: str) -> None:
    assert problem(with_keys(f"committer = {value}"))[:2] == (code, message)


def test_reading_shows_no_value() -> None:
    reading = reading_of(POSTGRES_S3 + 'nonsense = "shown"', {"PASSWORD": "hunter2"})
    assert repr(reading).startswith("Reading(None, (Problem(")
    assert "hunter2" not in repr(reading) + repr(reading_of(POSTGRES_S3, {"PASSWORD": "hunter2"}))
    assert Reading(None, ()).secrets == ()
    assert Reading(None, ()).value(("a",)) is None


def test_untrusted_file_with_variables_gives_no_store_and_no_problems() -> None:
    reading = reading_of(POSTGRES_S3, untrusted=True)
    assert (reading.store, reading.problems) == (None, ())
    assert reading_of(BACKENDS, untrusted=True).store is not None


# Problems of the table.


def test_pair_is_not_checked_if_one_of_the_two_is_invalid() -> None:
    for valid, invalid in (('path = "data"', "pat = 'x'"), ('uri = "c.sqlite"', "ur = 'x'")):
        assert [one[0] for one in problems(BACKENDS.replace(valid, invalid))] == ["LC010"]


def test_problems_of_all_parts_are_reported_in_the_order_of_the_file() -> None:
    text = with_keys("alias = 1\nattach_options = 2\nx = 3").replace("uri", "url").replace("path", "pat")
    assert [(one[0], one[4]) for one in problems(text)] == [
        ("LC012", 2),
        ("LC012", 3),
        ("LC010", 4),
        ("LC010", 8),
        ("LC010", 11),
    ]


# The alias.


def test_valid_alias() -> None:
    for alias in ("a", "_", "a_1", "_2", "lake__x"):
        store = reading_of(with_keys(f'alias = "{alias}"')).store
        assert store is not None
        assert store.alias == alias


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


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("a", "a"), ("Größe 1", "groe_1"), ("--A--b--", "a_b"), ("9", "s9"), ("!", "store"), ("ﬁn", "fin"), ("_9", "s9")],
)
def test_allowed_name(name: str, allowed: str) -> None:
    assert allowed_name(name) == allowed


# The options of ATTACH.


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("7", ("LC012", "must be a table, not an integer", 'write { deadline = "30m" }', "maintenance")),
        (
            "{ deadline = 30 }",
            ("LC012", "must be a string", 'write deadline = "30m"', "maintenance.deadline"),
        ),
        (
            '{ deadline = "30" }',
            ("LC013", "is not a duration", 'write deadline = "30m"', "maintenance.deadline"),
        ),
        (
            '{ memory_limit = "0GB" }',
            ("LC013", "must be more than 0", 'write memory_limit = "4GB"', "maintenance.memory_limit"),
        ),
        (
            '{ memory_limits = "4GB" }',
            ("LC010", "unknown key", 'did you mean "memory_limit"?', "maintenance.memory_limits"),
        ),
    ],
)
def test_invalid_limit_of_maintenance_is_reported(limits: str, expected: tuple[str, str, str, str]) -> None:
    code, message, hint, key = expected
    assert problem(with_keys(f"maintenance = {limits}")) == (code, message, hint, f"stores.dev.{key}", 2)


def test_limits_of_maintenance_are_read_with_their_variables() -> None:
    text = with_keys('maintenance = { deadline = "${LIMIT}", memory_limit = "4GB" }')
    store = reading_of(text, {"LIMIT": "1h30m"}).store
    assert store is not None
    assert MaintenanceLimits.of(store.maintenance) == MaintenanceLimits(timedelta(minutes=90), "4GB")
    unset = reading_of(text, {})
    assert [problem.code for problem in unset.problems] == ["LC030"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("snapshot_version", "7", 7),
        ("read_only", "1", True),
        ("read_only", "FALSE", False),
        ("snapshot_time", "2026", "2026"),
        ("meta_x", "7", Secret("7")),
        ("meta_schema", "7", "7"),
    ],
)
def test_text_of_a_variable_gets_the_type_of_the_option(name: str, value: str, expected: object) -> None:
    store = reading_of(with_keys(f'attach_options = {{ {name} = "${{V}}" }}'), {"V": value}).store
    assert store is not None
    assert dict(store.attach_options) == {name: expected}


def test_options_after_an_unset_one_are_checked() -> None:
    text = with_keys('attach_options = { snapshot_time = "${UNSET}", read_only = 1 }')
    assert [one[0] for one in problems(text)] == ["LC030", "LC054"]


def test_options_that_contradict_each_other_are_reported_at_the_option() -> None:
    text = with_keys("attach_options = { snapshot_version = 1, read_only = false }")
    code, message, hint, key, line = problem(text)
    assert (code, hint, key, line) == (Code.FIELDS.code, "remove it", "stores.dev.attach_options.read_only", 2)
    assert message == "a lake that is pinned at a snapshot is read-only"


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
