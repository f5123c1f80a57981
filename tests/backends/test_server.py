"""The server of a catalog: its description, endpoints of this machine, limits of maintenance."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pytest

from lakeconf.backends.server import is_loopback
from lakeconf.backends.store_options import MaintenanceLimits, option_fault


def test_address_of_this_machine() -> None:
    for endpoint in ("localhost", "localhost:9000", "LOCALHOST", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:5432"):
        assert is_loopback(endpoint), endpoint
    for endpoint in (
        *("", "example.com", "10.0.0.1", "192.0.2.1", "[::2]:1", "localhost.example.com", "127.0.0.1.example.com"),
        *("::1", "[::1", "127.0.0.1@example.com", "example.com/localhost", "1270.0.1"),
    ):
        assert not is_loopback(endpoint), endpoint


def maintenance_problem(key: str, value: object) -> str | None:
    found = option_fault("maintenance", key, value)
    return None if found is None else found.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45s", timedelta(seconds=45)),
        ("30m", timedelta(minutes=30)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("1d2h3m4s", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("90m", timedelta(minutes=90)),
    ],
)
def test_deadline_is_a_sum_of_units(text: str, expected: timedelta) -> None:
    assert maintenance_problem("deadline", text) is None
    assert MaintenanceLimits.of({"deadline": text}) == MaintenanceLimits(expected, None)


@pytest.mark.parametrize(
    "text", ["", "30", "m", "30 m", "-1m", "1.5h", "3m2h", "1h1h", "30min", "30M", "٣m", "9999999d"]
)
def test_other_texts_are_no_deadline(text: str) -> None:
    assert maintenance_problem("deadline", text) == "is not a duration"


@pytest.mark.parametrize("text", ["4GB", "4 GB", "1.5GiB", "512MB", "1000000B", "700kib", "2TB"])
def test_memory_limit_is_a_size_that_duckdb_accepts(text: str) -> None:
    assert maintenance_problem("memory_limit", text) is None
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = $limit", {"limit": text})
    assert MaintenanceLimits.of({"memory_limit": text}).memory_limit == text


@pytest.mark.parametrize("text", ["", "4", "GB", "-1GB", "4GX", "80%", "4GB; DROP", "1e3GB", "٤GB"])
def test_other_texts_are_no_memory_limit(text: str) -> None:
    assert maintenance_problem("memory_limit", text) == "is not a size"


def test_limits_must_be_more_than_zero() -> None:
    assert maintenance_problem("deadline", "0h0m") == "must be more than 0"
    assert maintenance_problem("memory_limit", "0.0GB") == "must be more than 0"


def test_values_must_be_text_and_keys_known() -> None:
    assert maintenance_problem("deadline", 30) == "must be a string"
    assert maintenance_problem("memory_limit", 4) == "must be a string"
    assert option_fault("maintenance", "dead_line", "30m") == ("key", "unknown key", 'did you mean "deadline"?')
