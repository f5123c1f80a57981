"""Conditions as users write them."""

from __future__ import annotations

from lakeconf.catalog.pruning.predicates import Comparison
from lakeconf.catalog.pruning.where import predicate_of
from lakeconf.catalog.tables import Column


def test_a_condition_is_parsed_and_a_predicate_is_unchanged() -> None:
    columns = [Column(1, "id", "int64", nullable=True, initial_default=None)]
    parsed = predicate_of("id = 1", columns)
    assert parsed == Comparison(columns[0], "=", 1)
    assert predicate_of(parsed, []) is parsed
