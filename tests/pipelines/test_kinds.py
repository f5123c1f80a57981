"""Kinds of models: their defaults, and the identity that enters the hash of a definition."""

from __future__ import annotations

import dataclasses
from datetime import date

import pytest
from pydantic import TypeAdapter, ValidationError

from lakeconf.pipelines.models.kinds import KINDS, Append, Full, Incremental, Kind, Merge, Seed, View


def test_kinds_are_found_by_the_name_that_a_configuration_writes() -> None:
    assert dict(KINDS) == {
        "full": Full,
        "append": Append,
        "incremental": Incremental,
        "merge": Merge,
        "view": View,
        "seed": Seed,
    }


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


@pytest.mark.parametrize("kind", [Full(), Append(), Incremental("day"), Merge("id"), View(), Seed("a.csv")])
def test_kind_cannot_change_after_a_run_has_read_it(kind: Kind) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind.name = "other"  # type: ignore[misc]


def test_defaults_of_an_incremental_model() -> None:
    kind = Incremental("day")
    assert (kind.interval, kind.start, kind.lookback, kind.batch) == ("day", None, 0, None)
    assert (kind.partial, kind.late) == (False, "warn")


def test_columns_of_two_kinds_are_not_the_same_object() -> None:
    assert Append().columns == Seed("a.csv").columns == {}
    assert Append().columns is not Append().columns
