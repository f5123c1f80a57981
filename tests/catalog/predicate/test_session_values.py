"""A condition must not depend on the time zone or the clock of a session."""

from __future__ import annotations

import pytest

from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.pruning.where import parse
from lakeconf.errors import PredicateError

COLUMNS = columns_of(
    {
        "id": "INTEGER",
        "t": "TIMESTAMPTZ",
        "u": "TIMESTAMPTZ",
        "n": "TIMESTAMP",
        "d": "DATE",
        "v": "VARCHAR",
        "h": "TIMETZ",
        "l": "DOUBLE[]",
        "s": "STRUCT(t TIMESTAMPTZ)",
    }
)


@pytest.mark.parametrize(
    "condition",
    [
        "t::DATE = d",
        "t > n",
        "t > d",
        "t::VARCHAR = v",
        "[t]::DATE[] = [d]",
        "v::TIMESTAMPTZ = t",
        "TRY_CAST(v AS TIMESTAMPTZ) = t",
        "coalesce(t, '2026-01-01') = u",
        "t < greatest(u, TIMESTAMPTZ '2026-01-01 00:00:00')",
        "h::TIME = TIME '10:00'",
        "hour(t) = 1",
        "extract(day FROM t) = 1",
        "date_trunc('day', s.t) = u",
        "t - INTERVAL 1 DAY > u",
        "t - u > INTERVAL 1 DAY",
        "strftime(t, '%H') = v",
        "to_json(t)::VARCHAR = v",
        "make_timestamptz(2026, 1, 1, 0, 0, 0) = t",
        "strptime(v, '%Y %z') = t",
        "concat(t) = v",
    ],
)
def test_a_condition_that_uses_the_time_zone_of_the_session_is_refused(condition: str) -> None:
    with pytest.raises(PredicateError, match="the time zone of the session") as refused:
        parse(condition, COLUMNS)
    assert "AT TIME ZONE" in str(refused.value)


@pytest.mark.parametrize(
    "condition",
    ["age(n) > INTERVAL 1 DAY", "age(t) > INTERVAL 1 DAY", "list_aggregate(l, 'reservoir_quantile', 0.5) = 1"],
)
def test_overloads_whose_value_changes_are_refused(condition: str) -> None:
    with pytest.raises(PredicateError, match="does not depend on the row only"):
        parse(condition, COLUMNS)


@pytest.mark.parametrize(
    "condition",
    [
        "t < u",
        "t IS DISTINCT FROM u",
        "t BETWEEN u AND '2026-01-01 00:00:00+00'",
        "coalesce(t, '2026-01-01 00:00:00+00', NULL) = u",
        "CASE WHEN id = 1 THEN s.t END = u",
        "hour(t AT TIME ZONE 'UTC') = 1",
        "n AT TIME ZONE 'Europe/Paris' = t",
        "epoch(t) > 1",
        "to_timestamp(id) < t",
        "[t, u][1] = u",
        "age(n, n) > INTERVAL 1 DAY",
        "list_aggregate(l, 'sum') > 1",
        "n::DATE = d",
    ],
)
def test_a_condition_that_names_its_time_zone_is_accepted(condition: str) -> None:
    parse(condition, COLUMNS)
