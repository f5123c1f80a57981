"""Scan plans after random DuckDB operations: correct rows at every snapshot, and safe pruning."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
from catalog_lake import FILE_CATALOGS, duckdb_rows, lake, planned_rows
from hypothesis import given, settings
from narrow_lakes import COLUMNS, OPERATIONS, build, conditions

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.tables import load_table
from lakeconf.errors import TableNotFoundError

# Each example creates a lake and reads all its snapshots.
EXAMPLES = 200 if hypothesis.settings().max_examples > 200 else 12


@pytest.mark.parametrize("kind", FILE_CATALOGS)
@settings(max_examples=EXAMPLES)
@given(columns=COLUMNS, operations=st.lists(OPERATIONS, min_size=3, max_size=14))
def test_plan_returns_the_rows_of_every_snapshot(
    kind: str, columns: dict[str, str], operations: list[tuple[str, Any, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, lake(kind, Path(folder)) as source:
        build(source, columns, operations)
        for version in source.versions():
            try:
                plan = plan_scan(source.reader, "t", version)
            except TableNotFoundError:
                assert version < 1
                continue
            assert planned_rows(source, plan) == duckdb_rows(source, plan), version


@pytest.mark.parametrize("kind", FILE_CATALOGS)
@settings(max_examples=EXAMPLES)
@given(columns=COLUMNS, operations=st.lists(OPERATIONS, min_size=3, max_size=14), data=st.data())
def test_pruning_never_skips_a_matching_row(
    kind: str, columns: dict[str, str], operations: list[tuple[str, Any, int]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder, lake(kind, Path(folder)) as source:
        build(source, columns, operations)
        versions = [version for version in source.versions() if version >= 1]
        version = data.draw(st.sampled_from(versions))
        one = conditions(load_table(source.reader, "t", version).columns)
        for _ in range(6):
            joined = data.draw(st.sampled_from([" AND ", " OR "]))
            where = joined.join(f"({text})" for text in data.draw(st.lists(one, min_size=1, max_size=3)))
            plan = plan_scan(source.reader, "t", version, where=where)
            assert planned_rows(source, plan) == duckdb_rows(source, plan, where), where
