"""Random merges by MERGE INTO, the DuckDB engine, Spark, and DuckDB for Spark: rows, feeds and errors are equal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import hypothesis.strategies as st
import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given, settings
from local_stores import on_postgres, store_of
from merge_cases import Case, WriteOutcome, merged, random_case
from strength import PROVE

from lakeconf.write import strategy as rule
from lakeconf.write.operations.merge.clauses import Delete, Insert, Update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

SCHEMA = pa.schema([("k", pa.int64()), ("g", pa.string()), ("v", pa.int64())])
KEYS = st.tuples(st.none() | st.integers(0, 6), st.none() | st.sampled_from(["", "a", "b"]))
VALUES = st.none() | st.integers(-3, 3)


class Condition(NamedTuple):
    """A condition in SQL and as a narwhals expression."""

    sql: str
    expression: nw.Expr | None


ALWAYS = Condition("", None)


def conditions(*columns: str) -> st.SearchStrategy[Condition]:
    """No condition, or a lower bound for one of the columns."""

    def at_least(drawn: tuple[str, int]) -> Condition:
        (side, column), limit = drawn[0].split("."), drawn[1]
        return Condition(f" AND {side}.{column} >= {limit}", nw.col(f"{side}_{column}") >= limit)

    return st.just(ALWAYS) | st.tuples(st.sampled_from(columns), st.integers(-2, 2)).map(at_least)


class Merge(NamedTuple):
    """The rows, keys and clauses of a merge."""

    target: list[tuple[int | None, str | None, int | None]]
    source: list[tuple[int | None, str | None, int | None]]
    on: tuple[str, ...]
    matched: list[tuple[str, Condition]]
    inserted: Condition | None
    deleted: Condition | None


@st.composite
def merges(draw: st.DrawFn) -> Merge:
    on = draw(st.sampled_from([("k",), ("g",), ("k", "g")]))
    target = draw(
        st.lists(
            st.tuples(KEYS, VALUES).map(lambda row: (*row[0], row[1])),
            min_size=draw(st.sampled_from([0, 4])),
            max_size=12,
        )
    )
    # Most source rows use a key of the target; few random keys would match.
    keys = st.sampled_from([row[:2] for row in target]) | st.sampled_from([row[:2] for row in target]) | KEYS
    by = {"k": lambda row: row[0], "g": lambda row: row[1]}
    source = draw(
        st.lists(
            st.tuples(keys if target else KEYS, VALUES).map(lambda row: (*row[0], row[1])),
            max_size=8,
            # Two source rows for one target row are rejected; a separate test covers this.
            unique_by=lambda row: tuple(by[name](row) for name in on),
        )
    )
    both = conditions("source.v", "target.v")
    actions = st.tuples(st.sampled_from(["all", "sum", "all", "delete"]), both)
    matched = draw(st.lists(actions, min_size=draw(st.sampled_from([1, 1, 1, 0])), max_size=3))
    return Merge(
        target,
        source,
        on,
        matched,
        draw(st.none() | conditions("source.v") | st.just(ALWAYS)),
        draw(st.none() | conditions("target.v")),
    )


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table({field.name: pa.array(values, field.type) for field, values in zip(SCHEMA, columns, strict=True)})


def by_duckdb(merge: Merge) -> list[tuple[Any, ...]]:
    """The rows after MERGE INTO in DuckDB."""
    actions = {"all": "UPDATE SET k = source.k, g = source.g, v = source.v", "delete": "DELETE"}
    actions["sum"] = "UPDATE SET v = target.v + source.v"
    always = [index for index, (_, condition) in enumerate(merge.matched) if condition.expression is None]
    # DuckDB rejects clauses after one without a condition, because they are unreachable.
    reached = merge.matched[: always[0] + 1] if always else merge.matched
    clauses = [f"WHEN MATCHED{condition.sql} THEN {actions[kind]}" for kind, condition in reached]
    if merge.inserted is not None:
        clauses.append(f"WHEN NOT MATCHED{merge.inserted.sql} THEN INSERT VALUES (source.k, source.g, source.v)")
    if merge.deleted is not None:
        clauses.append(f"WHEN NOT MATCHED BY SOURCE{merge.deleted.sql} THEN DELETE")
    with duckdb.connect() as connection:
        for name, rows in (("target", merge.target), ("source", merge.source)):
            connection.register("given", table(rows))
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        if clauses:
            on = " AND ".join(f"target.{name} = source.{name}" for name in merge.on)
            connection.execute(f"MERGE INTO target USING source ON {on} {' '.join(clauses)}")
        return sorted(connection.execute("FROM target").fetchall(), key=repr)


def by_lakeconf(tx: Lake, merge: Merge, name: str) -> None:
    updates: dict[str, dict[str, Any] | None] = {"all": None, "sum": {"v": nw.col("target_v") + nw.col("source_v")}}
    matched = [
        Delete(when=when.expression) if kind == "delete" else Update(updates[kind], when=when.expression)
        for kind, when in merge.matched
    ]
    tx.table(name).merge(
        table(merge.source),
        on=merge.on,
        matched=matched,
        not_matched=None if merge.inserted is None else Insert(when=merge.inserted.expression),
        not_matched_by_source=None if merge.deleted is None else Delete(when=merge.deleted.expression),
    )


def by_row_id(lake: Lake, name: str) -> dict[int, tuple[Any, ...]]:
    native: Any = lake.sql(f"SELECT rowid, k, g, v FROM {name}").to_native()
    return {row_id: tuple(row) for row_id, *row in native.fetchall()}


def check_feed(
    lake: Lake, name: str, before: dict[int, tuple[Any, ...]], after: dict[int, tuple[Any, ...]]
) -> set[str]:
    """Checks that the last feed leads from `before` to `after`, and that updates keep row ids; returns the kinds."""
    version = lake.snapshot_id
    native: Any = lake.sql(
        f"SELECT change_type, rowid, k, g, v FROM dev.table_changes('{name}', {version}, {version})"
    ).to_native()
    feed: dict[str, dict[int, tuple[Any, ...]]] = {}
    for kind, row_id, *row in native.fetchall():
        feed.setdefault(kind, {})[row_id] = tuple(row)
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    assert feed.get("delete", {}) == {row_id: before[row_id] for row_id in gone}
    assert feed.get("insert", {}) == {row_id: after[row_id] for row_id in new}
    updated = feed.get("update_preimage", {})
    assert updated == {row_id: before[row_id] for row_id in updated}
    assert feed.get("update_postimage", {}) == {row_id: after[row_id] for row_id in updated}
    assert updated.keys() >= {row_id for row_id in before.keys() & after.keys() if before[row_id] != after[row_id]}
    return set(feed)


# A merge with every kind of change, whatever the random merges contain.
EACH = Merge(
    [(1, "a", 1), (2, "b", 2), (3, None, 3), (5, "e", 5)],
    [(1, "a", 5), (2, "b", -2), (4, "", 4), (5, "E", -1)],
    ("k",),
    [
        ("sum", Condition(" AND source.v >= 0", nw.col("source_v") >= 0)),
        ("all", Condition(" AND source.v >= -1", nw.col("source_v") >= -1)),
        ("delete", ALWAYS),
    ],
    ALWAYS,
    ALWAYS,
)


@pytest.mark.slow
def test_random_merges_match_duckdb(store: Store) -> None:
    """Several merges into separate tables share a transaction, because commits take most of the time."""
    together, rounds = 10, 3
    seen = Counter[str]()

    @settings(max_examples=150 if PROVE else rounds)
    @given(merged=st.lists(merges(), min_size=together, max_size=together))
    def check(merged: list[Merge]) -> None:
        cases = {f"t{lake.refresh()}_{number}": merge for number, merge in enumerate([EACH, *merged])}
        with lake.transaction() as tx:
            for name, merge in cases.items():
                tx.create_table(name, table([])).append(table(merge.target))
        before, version = {name: by_row_id(lake, name) for name in cases}, lake.snapshot_id
        with lake.transaction() as tx:
            for name, merge in cases.items():
                by_lakeconf(tx, merge, name)
        assert lake.snapshot_id == version + 1
        for name, merge in cases.items():
            after = by_row_id(lake, name)
            assert sorted(after.values(), key=repr) == by_duckdb(merge)
            kinds = check_feed(lake, name, before[name], after)
            seen.update(["merges", *kinds] if merge is not EACH else [])
            assert merge is not EACH or kinds == {"insert", "delete", "update_preimage", "update_postimage"}

    with store.open() as lake:
        check()
    # The random merges must contain enough changes of each kind.
    assert seen["merges"] >= together * rounds
    assert min(seen[kind] for kind in ("insert", "update_postimage", "delete")) >= seen["merges"] // 10, seen


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def twin_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgres":
        return store_of(tmp_path, on_postgres(request.getfixturevalue("postgres_server")))
    catalog = {"type": "duckdb", "uri": str(tmp_path / "catalog.ducklake")} if request.param == "duckdb" else None
    return store_of(tmp_path, catalog, data_inlining_row_limit=5)


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
def test_each_path_of_a_merge_has_the_same_outcome(
    twin_store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, number, limit = Counter[str](), iter(range(10**6)), rule.MOST_FRAME_BYTES

    def on_engine(engine: Any, names: dict[str, Case]) -> dict[str, WriteOutcome]:
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
