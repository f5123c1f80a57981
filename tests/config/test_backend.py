"""A backend's table becomes a backend, or problems with a key, a line and a hint, but without the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from config_source import draft_of, summary
from pydantic import Field, model_validator

from lakeconf.backends.backend import ANY_CREDENTIALS, MetadataBackend, SecretParameters, StoreNames, Text, fault
from lakeconf.backends.registry import UnknownTypeError, metadata_backend
from lakeconf.config.backend_tables import build_backend, typed, unknown_key_hint
from lakeconf.config.file import ConfigSource
from lakeconf.config.resolve import Draft, Inheritance
from lakeconf.secret import Secret
from lakeconf.sql import Value

Summary = tuple[str, str, str | None, str | None, int | None]
CHANGE = "change the keys of [stores.dev.metadata_backend]"
TYPES = "use one of: duckdb, motherduck, postgres, sqlite"


class Shelf(MetadataBackend):
    """A shelf.

    More about it.
    """

    type: Literal["shelf"] = "shelf"
    board: Annotated[Text, Field(description="The board.")]
    height: Annotated[int | None, Field(description="In cm.", ge=1, le=9)] = None
    width: Annotated[float | None, Field(description="In m.")] = None
    colour: Annotated[Literal["red", "blue"] | None, Field(description="Its colour.")] = None
    books: Annotated[list[Text] | None, Field(description="Its books.")] = None
    open: Annotated[bool | None, Field(description="No doors.")] = None
    undescribed: Text | None = None
    secret_parameters: SecretParameters = {}  # noqa: RUF012 - a field of the model

    @model_validator(mode="after")
    def _is_consistent(self) -> Shelf:
        if self.height == 7:
            raise fault("height and width conflict", "height", "width", hint="remove height of [{table}]")
        if self.height == 8:
            raise ValueError("nothing fits")
        if self.undescribed == "conflict":
            raise fault("these credentials are odd", hint=ANY_CREDENTIALS, credentials=True)
        return self

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("board", "undescribed")

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the contract
        return {"metadata_path": self.board}


def find(name: str) -> type[MetadataBackend]:
    if name == "shelf":
        return Shelf
    raise UnknownTypeError(f"unknown type {name!r}", hint="use one of: shelf")


def built(lines: str, environment: dict[str, str] | None = None, **more: Any) -> tuple[Any, list[Summary]]:
    """The backend of the table, and the problems; the type is in line 2, and other keys follow."""
    draft = draft_of(f'[stores.dev.metadata_backend]\ntype = "shelf"\n{lines}', environment, **more)
    backend = build_backend(draft, "metadata_backend", find)
    return backend, [summary(problem) for problem in draft.problems]


def problem(lines: str, environment: dict[str, str] | None = None) -> tuple[Any, ...]:
    """The only problem of the table; its key is relative to the table."""
    _, (found,) = built(lines, environment)
    return (*found[:3], (found[3] or "").removeprefix("stores.dev.metadata_backend").lstrip("."), found[4])


# A valid table.


def test_valid_table_is_a_backend_with_absolute_paths() -> None:
    """A path may contain a colon."""
    backend, problems = built('board = "a/../b"\nheight = 1\nbooks = ["x"]\nundescribed = "/abs"')
    assert problems == []
    assert (backend.board, backend.height, backend.books, backend.undescribed) == ("/conf/b", 1, ["x"], "/abs")
    for path in ("C:\\\\lake", "a:b", "1a:b", "x/y:z", "mem"):
        assert built(f'board = "{path}"')[1] == [], path


# The type.


def of_type(line: str, environment: dict[str, str] | None = None) -> list[Summary]:
    draft = draft_of(f"[stores.dev.metadata_backend]\n{line}\n", environment)
    assert build_backend(draft, "metadata_backend", metadata_backend) is None
    return [summary(one) for one in draft.problems]


KEY = "stores.dev.metadata_backend.type"


def test_unknown_type_has_a_suggestion_unless_it_is_the_value_of_a_variable() -> None:
    hint = f'did you mean "sqlite"? {TYPES}'
    assert of_type('type = "sqlit"') == [("LC050", "unknown type 'sqlit'", hint, KEY, 2)]
    assert of_type('type = "${T}"', {"T": "sqllite"}) == [
        ("LC050", "unknown type '${T}' (from the variable T)", "change the value of the variable", KEY, 2)
    ]
    assert [one[0] for one in of_type('type = "${T}"')] == ["LC030"]


# Keys and types of values.


def test_unknown_key_is_reported_with_the_nearest() -> None:
    assert problem('bord = "x"') == ("LC010", "unknown key", 'did you mean "board"?', "bord", 3)
    assert problem('BORD = "x"')[:3] == ("LC010", "unknown key", 'did you mean "board"?')
    known = ("key_id", "secret", "secret_name", "secret_parameters", "database", "use_ssl")
    for key, meant in (("aws_secret_access_key", "secret"), ("access_key_id", "key_id"), ("dbname", "database")):
        assert unknown_key_hint(key, known) == f'did you mean "{meant}"?'
    assert unknown_key_hint("sslmode", known) == "write secret_parameters = { sslmode = … }"
    assert unknown_key_hint("ssl_use", known) != "write secret_parameters = { ssl_use = … }"
    hint = "use one of: type, board, height, width, colour, books, open, undescribed, secret_parameters"
    assert problem('board = "x"\nq = 1') == ("LC010", "unknown key", hint, "q", 4)


def test_missing_key_is_reported_beside_an_unrelated_unknown_one() -> None:
    _, problems = built("q = 1")
    assert sorted((one[0], one[2]) for one in problems if one[0] == "LC011") == [("LC011", "set board: the board")]
    assert len(problems) == 2
    _, problems = built("q = 1\nheight = 'x'")
    assert sorted(one[:2] for one in problems) == [
        ("LC010", "unknown key"),
        ("LC011", "is missing"),
        ("LC012", "must be a valid integer"),
    ]


def test_wrong_value_is_reported_with_the_description_of_its_key() -> None:
    for line, code, message, hint in (
        ("height = '1'", "LC012", "must be a valid integer", "set height: in cm"),
        ("height = 1.5", "LC012", "must be a valid integer", "set height: in cm"),
        ("width = '1'", "LC012", "must be a valid number", None),
        ("open = 1", "LC012", "must be a valid boolean", None),
        ("books = 'x'", "LC012", "must be a valid list", "set books: its books"),
        ("undescribed = 1979-05-27", "LC012", "must be a valid string", "choose another undescribed"),
        ("secret_parameters = 1", "LC012", "must be a valid table", None),
        ("height = 0", "LC013", "must be greater than or equal to 1", "set height: in cm"),
        ("colour = 'planted'", "LC013", "must be 'red' or 'blue'", "set colour: its colour"),
        ("undescribed = ''", "LC013", "must have at least 1 character", "choose another undescribed"),
        ('undescribed = "a\\nb"', "LC013", "must not contain control characters, such as line ends", None),
    ):
        found = problem(f'board = "x"\n{line}')
        assert found == (code, message, hint or found[2], line.partition(" ")[0], 4), line
    message = "must have at least 1 character"
    assert problem('board = "x"\nbooks = [""]')[:3] == ("LC013", message, "set books: its books")
    message = "must be a valid integer (from the variable H)"
    found = problem('board = "x"\nheight = "${H}"', {"H": "planted"})
    assert found[:3] == ("LC012", message, "set height: in cm")


@pytest.mark.parametrize("value", ['""', "[1]", "{ a = 1 }", "1979-05-27", "[['x']]"])
def test_value_of_a_parameter_is_reported_once(value: str) -> None:
    found = problem(f'board = "x"\nsecret_parameters = {{ region = {value} }}')
    message = "is not a valid CREATE SECRET parameter value"
    hint = "use a non-empty string, a number, true or false, a list of strings, or a table of strings"
    assert found == ("LC013", message, hint, "secret_parameters.region", 4)


def test_unset_variable_is_the_only_problem_of_its_key() -> None:
    for line in ('height = "${UNSET}"', 'undescribed = "${UNSET}"', 'books = ["${UNSET}"]'):
        assert problem(f'board = "x"\n{line}')[0] == "LC030"
    assert problem('board = "x"\nsecret_parameters = { region = "${UNSET}" }')[0] == "LC030"
    assert [one[0] for one in built('board = "x"\nq = "${UNSET}"')[1]] == ["LC030", "LC010"]
    assert [one[0] for one in built('board = "x"\nheight = 7\nwidth = "${UNSET}"')[1]] == ["LC030"]


# Conflicts between keys.


def test_conflict_is_reported_at_the_first_key_that_it_names_or_at_the_table() -> None:
    hint = "remove height of [stores.dev.metadata_backend]"
    found = problem('board = "x"\nwidth = 1.0\nheight = 7')
    assert found == ("LC053", "height and width conflict", hint, "height", 5)
    assert problem('board = "x"\nheight = 8') == ("LC053", "nothing fits", CHANGE, "", 1)


# Helpers.


def test_text_of_a_variable_gets_an_allowed_type() -> None:
    cases: list[tuple[object, set[type], object]] = [
        ("true", {bool}, True),
        ("TRUE", {bool, int}, True),
        ("1", {bool}, True),
        ("0", {bool}, False),
        ("False", {bool}, False),
        ("yes", {bool}, "yes"),
        ("7", {bool, int}, 7),
        ("-7", {int}, -7),
        ("+7", {int}, 7),
        ("7.0", {int}, "7.0"),
        ("", {int, float, bool}, ""),
        ("٣", {int}, "٣"),
        ("7_0", {int}, "7_0"),
        ("7", {float}, 7.0),
        ("-1.5e+3", {float}, -1500.0),
        ("1e", {float}, "1e"),
        (".5", {float}, 0.5),
        ("5.", {float}, 5.0),
        (".", {float}, "."),
        ("9" * 20, {int}, 10**20 - 1),
        ("9" * 5000, {int}, "9" * 5000),
        ("inf", {float}, "inf"),
        ("7", {int, str}, "7"),
        ("7", {int, Secret}, "7"),
        ("true", set(), "true"),
        (7, {bool}, 7),
        (["1"], {int}, ["1"]),
    ]
    for text, allowed, expected in cases:
        found = typed(text, allowed)
        assert (found, type(found)) == (expected, type(expected)), text


def test_problem_of_a_dict_has_no_line() -> None:
    source = ConfigSource({"stores": {"dev": {"metadata_backend": {"type": "shelf", "board": "s3://x"}}}})
    draft = Draft(Inheritance(source, source.data["stores"]), "dev", {})
    build_backend(draft, "metadata_backend", find)
    assert draft.problems[0].hint == "remove the scheme; relative paths start from the folder of the configuration"
    assert draft.problems[0].line is None
