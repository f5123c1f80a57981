"""The JSON Schema of models agrees with their parser, key for key, and reports one problem at the key."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Any

import jsonschema
import pytest

from lakeconf.config.config import init
from lakeconf.config.schema import json_schema
from lakeconf.errors import ConfigError
from lakeconf.pipelines.models.declaration import TABLES as MODELS
from lakeconf.pipelines.models.declaration import parsed
from lakeconf.pipelines.models.kinds import KINDS
from lakeconf.pipelines.models.unit_tests import DeclaredUnitTest, declared_unit_tests, pipeline_schema

STORES = {
    "dev": {"metadata_backend": {"type": "sqlite", "uri": "x"}, "storage_backend": {"type": "local", "path": "d"}}
}
# The smallest table of each kind.
TABLES: dict[str, dict[str, Any]] = {
    "full": {"sql": "t.sql"},
    "append": {"sql": "t.sql"},
    "incremental": {"sql": "t.sql", "time_column": "day"},
    "merge": {"sql": "t.sql", "on": "id"},
    "view": {"sql": "t.sql"},
    "seed": {"csv": "t.csv"},
}
EXAMPLES = {key: (one.examples or [None])[0] for table in MODELS.values() for key, one in table.model_fields.items()}
EVERY_KEY = [(kind, key) for kind in KINDS for key in (*EXAMPLES, "kin", "name", "identity")]


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json_schema(pipeline_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def errors(validator: Any, table: Any, name: str = "a.t", part: str = "models") -> list[tuple[list[Any], str]]:
    """The errors of a model or of another part of the pipeline, each with the path below it."""
    found = validator.iter_errors({"stores": STORES, "pipeline": {part: {name: table}}})
    return [(list(one.absolute_path)[3:], one.message) for one in found]


def is_parsed(table: Any) -> bool:
    """True if the parser accepts a model."""
    try:
        parsed(init({"stores": STORES}), "a.t", table)
    except ConfigError:
        return False
    return True


def as_json(value: Any) -> Any:
    """TOML's dates as an editor passes them to a schema."""
    return str(value) if isinstance(value, date) else value


@pytest.mark.parametrize(("kind", "key"), EVERY_KEY)
def test_schema_and_parser_accept_the_same_keys(kind: str, key: str, validator: Any) -> None:
    value = kind if key == "kind" else EXAMPLES.get(key, "x")
    table = {"kind": kind, **TABLES[kind], key: value}
    found = errors(validator, {name: as_json(one) for name, one in table.items()})
    assert (found == []) is is_parsed(table) is (key in MODELS[kind].model_fields)
    unknown = f"Additional properties are not allowed ({key!r} was unexpected)"
    assert found == ([] if key in MODELS[kind].model_fields else [([], unknown)])


@pytest.mark.parametrize(
    ("kind", "key"), [(kind, key) for kind in KINDS for key in MODELS[kind].model_fields if key != "kind"]
)
def test_wrong_type_of_each_key_is_one_error_at_it(kind: str, key: str, validator: Any) -> None:
    table = {"kind": kind, **TABLES[kind], key: [[1]]}
    ((path, _),) = errors(validator, table)
    assert path[:1] == [key]
    assert not is_parsed(table)


def test_schema_and_parser_accept_the_same_numbers(validator: Any) -> None:
    for kind, key, value, accepted in (
        # Seconds since 1970: the first of January 1970, at 00:33:44.
        ("incremental", "start", 2024, False),
        ("incremental", "start", 1.5, False),
        ("incremental", "start", "x", False),
        ("incremental", "start", "2024-1-1", False),
        ("incremental", "start", "01.01.2024", False),
        ("incremental", "start", "2024-01-01 03", False),
        *(
            ("incremental", "start", f"2024-01-01{time}", True)
            for time in ("", "T03:00", "T03:00:00", " 03:00:00.5", "T03:00:00Z", "T03:00:00+02:00", "T03:00-0200")
        ),
        ("incremental", "lookback", True, False),
        ("incremental", "batch", True, False),
        ("incremental", "partial", 1, False),
        ("merge", "update", 0, False),
    ):
        table = {"kind": kind, **TABLES[kind], key: value}
        assert is_parsed(table) is accepted, kind
        assert (errors(validator, table) == []) is accepted, kind


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, table in TABLES.items() for key in table])
def test_missing_key_is_one_error(kind: str, key: str, validator: Any) -> None:
    table = {"kind": kind, **{name: value for name, value in TABLES[kind].items() if name != key}}
    assert errors(validator, table) == [([], f"{key!r} is a required property")]
    assert not is_parsed(table)


def test_files_replace_the_query_of_an_append_and_full_is_the_default(validator: Any) -> None:
    for table in ({"kind": "append", "files": "x/*.csv"}, {"sql": "t.sql"}):
        assert (errors(validator, table), is_parsed(table)) == ([], True)
    unknown = "Additional properties are not allowed ('on' was unexpected)"
    assert errors(validator, {"sql": "t.sql", "on": "id"}) == [([], unknown)]


def test_wrong_value_is_one_precise_error(validator: Any) -> None:
    for table, path, message in (
        ({"kind": "fulll", "sql": "x", "nope": 1}, ["kind"], "'fulll' is not one of "),
        ("t.sql", [], "'t.sql' is not of type 'object'"),
        ({"sql": "x", "tests": {"nul": []}}, ["tests"], "Additional properties are not allowed ('nul' was unexpected)"),
        ({"sql": "x", "tests": {"accepted_values": {"a": []}}}, ["tests", "accepted_values", "a"], "[] should be non-"),
        (
            {"sql": "x", "tests": {"relationships": {"a": "b.c"}}},
            ["tests", "relationships", "a"],
            "'b.c' does not match",
        ),
        ({"sql": "x", "tests": {"unique": [[]]}}, ["tests", "unique", 0], "[] should be non-empty"),
        ({"kind": "incremental", "sql": "x", "time_column": "d", "batch": 0}, ["batch"], "0 is less than the minimum"),
        ({"kind": "incremental", "sql": "x", "time_column": "d", "interval": "days"}, ["interval"], "'days' is not "),
        ({"kind": "incremental", "sql": "x", "time_column": "d", "late": "no"}, ["late"], "'no' is not one of "),
    ):
        ((found, text),) = errors(validator, table)
        assert found == path, table
        assert text.startswith(message), table


def test_name_of_a_model_has_a_schema(validator: Any) -> None:
    for name in ("t", "a.b.c", ".t", "a."):
        ((_, message),) = errors(validator, TABLES["full"], name)
        assert message.startswith(f"{name!r} does not match ")
    loose = jsonschema.Draft202012Validator(json_schema())  # a schema without models allows any table
    assert errors(loose, {"anything": 1}, "t") == []


def test_every_key_has_a_description_and_a_valid_example(validator: Any) -> None:
    definitions = validator.schema["$defs"]
    for kind in KINDS:
        properties = definitions[f"model.{kind}"]["properties"]
        assert [key for key, one in properties.items() if key != "kind" and not one.get("description")] == []
        for key, one in properties.items():
            for example in one.get("examples", []):
                assert errors(validator, {"kind": kind, **TABLES[kind], key: example}) == [], key
    properties = definitions["unit_test"]["properties"]
    assert properties.keys() == DeclaredUnitTest.model_fields.keys()
    for key, one in properties.items():
        assert one["description"]
        for example in one["examples"]:
            assert errors_of_test(validator, {**UNIT_TEST, key: example}) == []


errors_of_test = partial(errors, name="one", part="tests")
UNIT_TEST = {"model": "a.t", "expect": [{"id": 1}]}


def test_schema_and_parser_accept_unit_tests(validator: Any) -> None:
    for more in (
        {},
        {"given": {}, "columns": ["id"], "start": "2024-01-01", "end": "2024-01-02T03:00:00"},
        {"given": {"a.u": [], "files": [{"id": 1, "n": {"x": [1]}}], "a.v": {}, "a.w": {"rows": [{}], "columns": {}}}},
    ):
        table = {**UNIT_TEST, **more}
        assert errors_of_test(validator, table) == [], more
        assert declared_unit_tests(configuration(table)), more


def configuration(table: Any) -> Any:
    return init({"stores": STORES, "pipeline": {"tests": {"one": table}}})


@pytest.mark.parametrize(
    ("more", "key", "message", "problem"),
    [
        ({"expects": []}, [], "Additional properties are not allowed ('expects' was", "one.expects: unknown key"),
        ({"expect": {}}, ["expect"], "{} is not of type 'array'", "one.expect: Input should be a valid list"),
        ({"expect": [1]}, ["expect", 0], "1 is not of type 'object'", "one.expect: Input should be a valid dictionary"),
        ({"model": 1}, ["model"], "1 is not of type 'string'", "one.model: Input should be a valid string"),
        ({"given": []}, ["given"], "[] is not of type 'object'", "one.given: Input should be a valid dictionary"),
        ({"given": {"a.u": 1}}, ["given", "a.u"], "1 is not of type 'array', 'object'", 'given."a.u": Input should be'),
        ({"given": {"a.u": [1]}}, ["given", "a.u", 0], "1 is not of type 'object'", 'given."a.u": Input should be'),
        (
            {"given": {"a.u": {"row": []}}},
            ["given", "a.u"],
            "Additional properties are not allowed ('row' was",
            'one.given."a.u".row: unknown key',
        ),
        (
            {"given": {"a.u": {"rows": [1]}}},
            ["given", "a.u", "rows", 0],
            "1 is not of type 'object'",
            'one.given."a.u".rows: Input should be a valid dictionary',
        ),
        (
            {"given": {"a.u": {"columns": {"id": 1}}}},
            ["given", "a.u", "columns", "id"],
            "1 is not of type 'string'",
            'one.given."a.u".columns: Input should be a valid string',
        ),
        ({"columns": "id"}, ["columns"], "'id' is not of type 'array'", "one.columns: Input should be a valid list"),
        ({"start": "soon"}, ["start"], "'soon' does not match", "one.start: Input should be a valid da"),
        ({"end": 2024}, ["end"], "2024 is not of type 'string'", "one.end: Input should be a date or a time"),
        ({"start": "2024"}, ["start"], "'2024' does not match", "one.start: Input should be a date or a time, not a"),
    ],
)
def test_wrong_key_of_a_unit_test_is_one_precise_problem(
    more: dict[str, Any], key: list[Any], message: str, problem: str, validator: Any
) -> None:
    table = {**UNIT_TEST, **more}
    ((found, text),) = errors_of_test(validator, table)
    assert found == key
    assert text.startswith(message)
    with pytest.raises(ConfigError) as caught:
        declared_unit_tests(configuration(table))
    (parsed_problem,) = caught.value.problems
    assert problem in str(parsed_problem)


@pytest.mark.parametrize("key", UNIT_TEST)
def test_missing_key_of_a_unit_test_is_one_problem(key: str, validator: Any) -> None:
    table = {name: value for name, value in UNIT_TEST.items() if name != key}
    assert errors_of_test(validator, table) == [([], f"{key!r} is a required property")]
    with pytest.raises(ConfigError) as caught:
        declared_unit_tests(configuration(table))
    (problem,) = caught.value.problems
    assert (problem.key, problem.message) == (f"pipeline.tests.one.{key}", "is missing")
