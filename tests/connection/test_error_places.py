"""The place of an error in a relation, and its message."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.connection.connection import Connection, connect
from lakeconf.connection.error_places import Reported, errors_with_places, place_of, reported
from lakeconf.errors import LakeconfError


def failing(connection: Connection, sql: str) -> LakeconfError:
    relation = connection.relation(sql)
    with pytest.raises(LakeconfError) as caught, connection.errors(), errors_with_places(connection):
        relation.query("lakeconf_rows", "CREATE TABLE memory.main.lakeconf_t AS SELECT a FROM lakeconf_rows")
    return caught.value


def test_place_is_that_in_the_relation_and_the_message_has_no_statement() -> None:
    with connect() as connection:
        error = failing(connection, "SELECT 'é', CAST('x' || range AS INT) AS a FROM range(3)")
        assert error.message.startswith("Conversion Error: Could not convert string 'x")
        assert "lakeconf_t" not in str(error)
        assert "\n" not in error.message
        assert place_of(error) == len("SELECT 'é', ".encode())
        # Other errors are as before.
        with pytest.raises(duckdb.Error, match="LINE 1: SELECT nope"):
            connection.native.execute("SELECT nope")


def test_error_without_a_place() -> None:
    with connect() as connection:
        error = failing(connection, "SELECT 9223372036854775807 + range AS a FROM range(3)")
        assert place_of(error) is None
        assert error.message.startswith("Out of Range Error: Overflow")
    assert place_of(ValueError()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Parser Error: {"exception_message":"at {a}: b","position":"12"}', Reported("Parser Error", "at {a}: b", 12)),
        ('Error: {"exception_message":"no"}', Reported("Error", "no", None)),
        ('Error: {"exception_message":"no","position":"x"}', Reported("Error", "no", None)),
        *((text, None) for text in ("Binder Error: x", 'Error: {"position": "1"}', "Error: {}", "Error: {[", "{1}")),
    ],
)
def test_errors_in_json(text: str, expected: Reported | None) -> None:
    assert reported(text) == expected
