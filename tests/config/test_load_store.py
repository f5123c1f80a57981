"""One store: its keys, alias, options and backends, and all of its problems."""

from __future__ import annotations

from datetime import timedelta

import pytest
from config_source import reading_of, stores_of, summary

from lakeconf.backends.store_options import MaintenanceLimits
from lakeconf.config.codes import Code
from lakeconf.config.read_store import Reading, allowed_name, in_order, read_store
from lakeconf.errors import Problem
from lakeconf.secret import HiddenText, Secret
from lakeconf.sql import CreateSecret

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


def test_reading_has_values_origins_and_variables() -> None:
    reading = reading_of(POSTGRES_S3, {"PASSWORD": "hunter2", "OTHER": "x"})
    assert reading.value(("metadata_backend", "password")) == "hunter2"
    assert reading.value(("storage_backend",))["bucket"] == "b"
    for path in (("missing",), ("storage_backend", "bucket", "deeper"), ("alias", "x")):
        assert reading.value(path) is None
    assert reading.origins["metadata_backend", "password"].variable == "PASSWORD"
    assert dict(reading.variables) == {"PASSWORD": "hunter2"}
    assert [secret.name for secret in reading.secrets] == [
        "lakeconf_dev__metadata",
        "lakeconf_dev__storage",
        "lakeconf_dev",
    ]
    assert all(isinstance(secret, CreateSecret) for secret in reading.secrets)


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


def test_invalid_parent_is_the_only_problem() -> None:
    reading = reading_of('[stores.dev]\nextends = "x"\nnonsense = 1')
    assert [one.code for one in reading.problems] == ["LC040"]
    assert (reading.store, dict(reading.values)) == (None, {})


def test_unknown_keys_are_reported_with_the_nearest_or_all() -> None:
    keys = "use one of: metadata_backend, storage_backend, alias, attach_options, maintenance, committer, extends"
    assert problems(with_keys('allias = "x"\nq = 1')) == [
        ("LC010", "unknown key", 'did you mean "alias"?', "stores.dev.allias", 2),
        ("LC010", "unknown key", keys, "stores.dev.q", 3),
    ]


def test_missing_backends_are_reported() -> None:
    assert problem("[stores.dev]") == (
        "LC011",
        "is missing",
        'declare the catalog: [stores.dev.metadata_backend] type = "sqlite" …',
        "stores.dev.metadata_backend",
        1,
    )
    catalog = BACKENDS.partition("[stores.dev.storage")[0]
    assert problem(catalog) == (
        "LC051",
        "sqlite needs a storage_backend, which defines where the Parquet files are",
        'write [stores.dev.storage_backend] and add type = "…" below it',
        "stores.dev.metadata_backend",
        2,
    )


def test_pair_is_not_checked_if_one_of_the_two_is_invalid() -> None:
    for valid, invalid in (('path = "data"', "pat = 'x'"), ('uri = "c.sqlite"', "ur = 'x'")):
        assert [one[0] for one in problems(BACKENDS.replace(valid, invalid))] == ["LC010"]


def test_unsupported_pair_is_reported_at_the_storage() -> None:
    text = BACKENDS.replace('type = "sqlite"\nuri = "c.sqlite"', 'type = "motherduck"\ndatabase = "d"')
    assert problem(text) == (
        "LC051",
        "motherduck supports s3, r2 or gcs storage, or none: it cannot access files on this machine",
        "change the type of one of the two",
        "stores.dev.storage_backend",
        5,
    )


def test_problems_of_all_parts_are_reported_in_the_order_of_the_file() -> None:
    text = with_keys("alias = 1\nattach_options = 2\nx = 3").replace("uri", "url").replace("path", "pat")
    assert [(one[0], one[4]) for one in problems(text)] == [
        ("LC012", 2),
        ("LC012", 3),
        ("LC010", 4),
        ("LC010", 8),
        ("LC010", 11),
    ]


def test_order_of_problems_is_that_of_lines_and_columns_without_duplicates() -> None:
    def at(line: int | None, column: int | None, **more: str) -> Problem:
        return Problem("LC010", more.get("message", "m"), more.get("hint"), more.get("key"), line=line, column=column)

    one, other, third = at(2, 1), at(1, 9), at(2, 5)
    nowhere = at(None, None)
    assert in_order([third, one, other, nowhere]) == [nowhere, other, one, third]
    assert in_order([one, at(2, 1, hint="other hint"), at(2, 1)]) == [one]
    assert len(in_order([one, at(2, 1, key="k"), at(2, 1, message="n"), one._replace(code="LC011")])) == 4


# The alias.


@pytest.mark.parametrize("alias", ["a", "_", "a_1", "_2", "lake__x"])
def test_valid_alias(alias: str) -> None:
    store = reading_of(with_keys(f'alias = "{alias}"')).store
    assert store is not None
    assert store.alias == alias


@pytest.mark.parametrize(
    ("alias", "message", "hint"),
    [
        ('"Lake"', "invalid alias 'Lake'", 'write it as "lake"'),
        ('""', "invalid alias ''", 'write it as "store"'),
        ('"1a"', "invalid alias '1a'", 'write it as "s1a"'),
        ('"a-b"', "invalid alias 'a-b'", 'write it as "a_b"'),
        ('"a\\n"', "invalid alias 'a\\n'", 'write it as "a"'),
        ('"main"', "DuckDB reserves 'main'", "choose another alias"),
        ('"temp"', "DuckDB reserves 'temp'", "choose another alias"),
    ],
)
def test_invalid_alias_is_reported(alias: str, message: str, hint: str) -> None:
    assert problem(with_keys(f"alias = {alias}")) == ("LC023", message, hint, "stores.dev.alias", 2)


def test_alias_is_a_text() -> None:
    expected = ("LC012", "must be a string, not a list", "write it in quotes", "stores.dev.alias", 2)
    assert problem(with_keys("alias = ['a']")) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [("Secret-Name", "invalid alias '${ALIAS}'"), ("information_schema", "DuckDB reserves '${ALIAS}'")],
)
def test_value_of_a_variable_is_not_shown_not_even_in_part(value: str, message: str) -> None:
    found, hint = problem(with_keys('alias = "${ALIAS}"'), {"ALIAS": value}), "change the value of the variable"
    assert found == ("LC023", f"{message} (from the variable ALIAS)", hint, "stores.dev.alias", 2)


def test_unset_alias_is_reported_once() -> None:
    assert problem(with_keys('alias = "${ALIAS}"'))[0] == "LC030"


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
    ("options", "expected"),
    [
        ("7", ("LC012", "must be a table, not an integer", "write { read_only = true }", "attach_options")),
        (
            '{ read_only = "yes" }',
            (
                "LC054",
                "must be true or false",
                "write read_only = true",
                "attach_options.read_only",
            ),
        ),
        (
            '{ snapshot_version = "1" }',
            ("LC054", "must be an integer", "write snapshot_version = 12", "attach_options.snapshot_version"),
        ),
        (
            "{ snapshot_time = 1 }",
            ("LC054", "must be a string", 'write snapshot_time = "2026-01-31"', "attach_options.snapshot_time"),
        ),
        (
            "{ meta_x = [1] }",
            (
                "LC054",
                "must be a string, a number or a boolean",
                "look up the META_ options in the documentation of the catalog's database",
                "attach_options.meta_x",
            ),
        ),
        (
            "{ read_onli = true }",
            ("LC054", "unknown attach option", 'did you mean "read_only"?', "attach_options.read_onli"),
        ),
        (
            '{ meta_password = "" }',
            ("LC013", "must not be empty", "set a value, or remove the option", "attach_options.meta_password"),
        ),
    ],
)
def test_invalid_option_is_reported(options: str, expected: tuple[str, str, str, str]) -> None:
    code, message, hint, key = expected
    assert problem(with_keys(f"attach_options = {options}")) == (code, message, hint, f"stores.dev.{key}", 2)


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


def test_every_invalid_option_is_reported() -> None:
    text = with_keys("attach_options = { read_only = 1, encrypted = 2, snapshot_version = 3 }")
    assert [one[3] for one in problems(text)] == [
        "stores.dev.attach_options.read_only",
        "stores.dev.attach_options.encrypted",
    ]


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


def test_text_of_the_file_is_not_converted() -> None:
    assert problem(with_keys('attach_options = { snapshot_version = "7" }'))[1] == "must be an integer"


def test_options_after_an_unset_one_are_checked() -> None:
    text = with_keys('attach_options = { snapshot_time = "${UNSET}", read_only = 1 }')
    assert [one[0] for one in problems(text)] == ["LC030", "LC054"]


def test_options_that_contradict_each_other_are_reported_at_the_option() -> None:
    text = with_keys("attach_options = { snapshot_version = 1, read_only = false }")
    code, message, hint, key, line = problem(text)
    assert (code, hint, key, line) == (Code.FIELDS.code, "remove it", "stores.dev.attach_options.read_only", 2)
    assert message == "a lake that is pinned at a snapshot is read-only"


def test_contradiction_with_the_alias_is_reported_at_the_alias() -> None:
    text = '[stores.dev]\nalias = "x"\n[stores.dev.metadata_backend]\ntype = "motherduck"\ndatabase = "shop"\n'
    assert problem(text) == (
        "LC053",
        "the alias 'x' is not the database 'shop'",
        "omit alias: MotherDuck attaches a database under its own name",
        "stores.dev.alias",
        2,
    )


# Secrets.


def test_backends_must_not_use_one_secret_name() -> None:
    text = POSTGRES_S3.replace('user = "u"', 'user = "u"\nsecret_name = "Mine"') + 'secret_name = "mine"\n'
    assert problem(text, {"PASSWORD": "p"}) == (
        "LC055",
        "both backends of the store use this secret_name",
        "use a different secret_name for each backend",
        "stores.dev.storage_backend.secret_name",
        15,
    )


def test_value_that_is_a_secret_elsewhere_is_masked_when_it_is_printed() -> None:
    text = POSTGRES_S3.replace('region = "eu"', 'region = "${PASSWORD}"\nprefix = "a/${PASSWORD}"')
    text += 'secret_parameters = { kms_key_id = "${PASSWORD}" }\n'
    store = reading_of(text, {"PASSWORD": "hunter2"}).store
    assert store is not None
    assert "hunter2" not in repr(store.storage_backend) + repr(store.statements)
    region = store.storage_backend.region  # type: ignore[union-attr]
    assert isinstance(region, HiddenText)
    assert (region, region.variable) == ("hunter2", "PASSWORD")


def test_secrets_of_other_stores_are_masked_as_well() -> None:
    stores = stores_of(BACKENDS.replace('"data"', '"data-planted-9"'))
    store = read_store(stores, "dev", {}, [Secret("planted-9")]).store
    assert store is not None
    assert "planted" not in repr(store) + repr(store.storage_backend)
    assert store.storage_backend is not None
    assert store.storage_backend.location == "/conf/data-planted-9/"


def test_backend_without_hidden_values_is_not_copied() -> None:
    store = reading_of(BACKENDS).store
    assert store is not None
    assert not isinstance(store.metadata_backend.uri, HiddenText)  # type: ignore[attr-defined]
