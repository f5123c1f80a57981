"""Kinds of models: their defaults, and the identity that enters the hash of a definition."""

from __future__ import annotations

from datetime import date

import pytest
from pydantic import TypeAdapter, ValidationError

from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Kind, Merge, Seed, View


@pytest.mark.parametrize(
    ("kind", "identity"),
    [
        (Full(), "full"),
        (Append(), "append None {}"),
        (Append(new_rows_of="events", columns={"id": "BIGINT"}), "append events {'id': 'BIGINT'}"),
        (Incremental("day"), "incremental day day"),
        (Incremental("at", "hour"), "incremental at hour"),
        (Merge("id"), "merge ['id'] None None True"),
        (Merge(["a", "b"], "events", "gone", update=False), "merge ['a', 'b'] events gone False"),
        (View(), "view"),
        (Seed("prices.csv"), "seed {}"),
        (Seed("prices.csv", {"price": "DECIMAL(8,2)"}), "seed {'price': 'DECIMAL(8,2)'}"),
    ],
    ids=repr,
)
def test_identity_is_the_same_in_every_version(kind: Kind, identity: str) -> None:
    """Another identity makes every lake compute its models again."""
    assert kind.identity() == identity


def test_options_that_only_select_what_a_run_processes_are_not_part_of_the_identity() -> None:
    chosen = Incremental("day", start=date(2024, 1, 1), lookback=2, batch=3, partial=True, late="redo")
    assert chosen.identity() == Incremental("day").identity()
    assert Append(files="new/*.csv").identity() == Append(files="old/*.csv").identity()
    assert Seed("a.csv").identity() == Seed("b.csv").identity()


@pytest.mark.parametrize("interval", ["hour", "day", "month", "year"])
def test_intervals_that_a_configuration_can_write(interval: str) -> None:
    made = TypeAdapter(Incremental).validate_python({"time_column": "at", "interval": interval})
    assert made.interval == interval
    with pytest.raises(ValidationError):
        TypeAdapter(Incremental).validate_python({"time_column": "at", "interval": f"{interval}s"})
