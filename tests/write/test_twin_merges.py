"""The same random merges by the DuckDB engine, by Spark, and by DuckDB for Spark: rows, feeds and errors are equal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import on_postgres, store_of
from merge_cases import Case, Outcome, merged, random_case
from strength import PROVE

from lakeconf.write import decision as rule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Store


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def twin_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgres":
        return store_of(tmp_path, on_postgres(request.getfixturevalue("postgres_server")))
    catalog = {"type": "duckdb", "uri": str(tmp_path / "catalog.ducklake")} if request.param == "duckdb" else None
    return store_of(tmp_path, catalog, data_inlining_row_limit=5)


def test_each_path_of_a_merge_has_the_same_outcome(
    twin_store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, number, limit = Counter[str](), iter(range(10**6)), rule.MOST_FRAME_BYTES

    def on_engine(engine: Any, names: dict[str, Case]) -> dict[str, Outcome]:
        outcomes = {}
        with twin_store.open(engine) as lake:
            for name, case in names.items():
                outcome, decision = merged(lake, name, case)
                outcomes[name.rpartition("_")[2]] = outcome
                seen.update(
                    [str(decision).partition(":")[0], *([outcome.error.partition(":")[0]] if outcome.error else [])]
                )
        return outcomes

    def check(random: Random) -> None:
        numbered = {str(next(number)): random_case(random) for _ in range(4)}
        prefixes = ("a", "b", "c")
        with twin_store.connect() as connection:
            for prefix in prefixes:
                for key, case in numbered.items():
                    for statement in case.setup:
                        connection.execute(statement.replace("§", f"{prefix}_{key}"))
        outcomes = []
        for prefix, engine, most in zip(prefixes, (None, spark, spark), (limit, limit, -1), strict=True):
            monkeypatch.setattr(rule, "MOST_FRAME_BYTES", most)
            outcomes.append(on_engine(engine, {f"{prefix}_{key}": case for key, case in numbered.items()}))
        for key in numbered:
            assert outcomes[1][key] == outcomes[0][key], numbered[key]
            assert outcomes[2][key] == outcomes[0][key], numbered[key]

    first = 1000 * ("sqlite", "duckdb", "postgres").index(twin_store.metadata_backend.type)
    for seed in range(first, first + (40 if PROVE else 1)):
        check(Random(seed))  # noqa: S311 - not for cryptography
    assert min(seen["duckdb"], seen["spark"]) > 0
