"""Conditions as users write them."""

from __future__ import annotations

import subprocess
import sys

from lakeconf.catalog.predicates import Comparison
from lakeconf.catalog.table import Column
from lakeconf.catalog.where import predicate_of


def test_a_condition_is_parsed_and_a_predicate_is_unchanged() -> None:
    columns = [Column(1, "id", "int64", nullable=True, initial_default=None)]
    parsed = predicate_of("id = 1", columns)
    assert parsed == Comparison(columns[0], "=", 1)
    assert predicate_of(parsed, []) is parsed


def test_the_parser_is_loaded_with_the_first_condition() -> None:
    code = (
        "import sys; from lakeconf.catalog.where import predicate_of; first = 'sqlglot' in sys.modules;"
        "from lakeconf.catalog.table import Column;"
        "column = Column(1, 'id', 'int64', nullable=True, initial_default=None);"
        "predicate_of('id = 1', [column]);"
        "print(first, 'sqlglot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
