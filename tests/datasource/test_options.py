"""The options of the data source."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakeconf.datasource.planning import Options, options_of
from lakeconf.errors import LakeconfError


def test_options_are_converted_and_names_ignore_case() -> None:
    given = {"TABLE": "raw.events", "store": "prod", "columns": "a, b", "Timestamp": "2026-01-31T12:00:00+00:00"}
    options = options_of(given, "a read")
    assert options == Options("raw.events", "prod", columns="a, b", timestamp=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert options.names == ["a", "b"]
    stream = options_of({"table": "t", "since": "4", "changes": "TRUE", "snapshots_per_batch": "2"}, "a streaming read")
    assert stream == Options("t", since=4, changes=True, snapshots_per_batch=2)
    assert options_of({"table": "t", "idempotency_key": "k"}, "a write").idempotency_key == "k"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the option table is missing"),
        ({"table": "t", "version": "x7"}, "the option version is not a whole number"),
        ({"table": "t", "version": "1_0"}, "the option version is not a whole number"),
        ({"table": "t", "timestamp": "x7"}, "the option timestamp is not a time such as 2026-01-31T12:00:00+00:00"),
        ({"table": "t", "version": "1", "timestamp": "2026-01-31"}, "pass either the option version or"),
        ({"table": "t", "since": "1"}, "a read has no option 'since'"),
        ({"table": "t", "password": "x7"}, "the data source has no option 'password'"),
    ],
)
def test_wrong_options_are_refused_without_their_values(given: dict[str, str], message: str) -> None:
    with pytest.raises(LakeconfError) as refused:
        options_of(given, "a read")
    assert refused.value.message.startswith(message)
    assert "x7" not in str(refused.value)


def test_a_similar_option_is_suggested() -> None:
    with pytest.raises(LakeconfError, match='did you mean "version"'):
        options_of({"table": "t", "versionn": "1"}, "a read")


@pytest.mark.parametrize(("name", "value"), [("snapshots_per_batch", "0"), ("changes", "yes"), ("since", "-1")])
def test_wrong_options_of_a_stream_are_refused(name: str, value: str) -> None:
    with pytest.raises(LakeconfError, match=f"the option {name} is"):
        options_of({"table": "t", name: value}, "a streaming read")
