"""The same merges by statements and by a staged commit have the same rows, row ids, feed and history."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from commit_hooks import at_staged_commit
from lake_parts import session_of
from local_stores import on_catalog, store_of
from merge_cases import OTHERS, Case, WriteOutcome, commit_info, committer, fetched, merged, random_case, shown
from plain_sql import run_plain
from strength import PROVE
from twin_checks import check_partitions, filtered

from lakeconf.errors import CommitConflictError
from lakeconf.lake.compaction_step import RowsChangedError
from lakeconf.lake.rewriting import flush_table
from lakeconf.lake.staged_rewriting import newest
from lakeconf.write import capabilities
from lakeconf.write import strategy as rule
from lakeconf.write.operations.merge.clauses import Delete, Update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

# The types whose files a staged commit takes, and some that it leaves to DuckDB.
TYPES = [name for name in OTHERS if name not in ("UUID", "UBIGINT", "JSON")]
KNOWN = "SELECT path FROM __ducklake_metadata_dev.ducklake_{}_file"
KNOWN = f"{KNOWN.format('data')} UNION ALL {KNOWN.format('delete')}"
# What other writers do later. Ids of inserted rows differ between the twins, so no statement uses them.
LATER = (
    "UPDATE {0} SET n = n + 1 WHERE n >= 0",
    "INSERT INTO {0} SELECT * FROM {0} WHERE n IS NULL",
    "DELETE FROM {0} WHERE s = 'a' OR k IS NULL",
    "UPDATE {0} SET s = 'later' WHERE n = 3",
    "CALL ducklake_merge_adjacent_files('dev', '{0}')",
)
# Later still: it loses the bounds of a column if a file contains only NULLs, so that filters after it prove nothing.
REWRITE = (
    "CALL ducklake_rewrite_data_files('dev', '{0}', delete_threshold => 0.0)",
    "SELECT COLUMNS(*)::VARCHAR FROM {0}",
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_catalog(request, tmp_path), data_inlining_row_limit=5)


def decision(lake: Lake, name: str) -> str | None:
    found: str | None = commit_info(lake).get("written_by", {}).get(f"main.{name}")
    return found


def contents(lake: Lake, name: str, newest: int, version: int) -> list[str]:
    """The rows at a snapshot, with their ids up to `newest`."""
    table = f"dev.{name} AT (VERSION => {version})"
    found = fetched(lake, f"SELECT CASE WHEN rowid <= {newest} THEN rowid END, COLUMNS(*)::VARCHAR FROM {table}")
    return sorted(shown(list(row)) for row in found)


def without_ids(outcome: WriteOutcome) -> WriteOutcome:
    """An outcome after maintenance: DuckLake loses ids of updated rows, and does not pair the images of updates."""
    feed = [row.replace("update_preimage", "delete").replace("update_postimage", "insert") for row in outcome.feed]
    feed = sorted(row.partition(", ")[2] for row in feed)
    return WriteOutcome({}, sorted([*outcome.kept.values(), *outcome.new]), feed, outcome.error)


def flushed(lake: Lake, name: str) -> bool:
    """Flushes a table; false if DuckLake would restore deleted rows."""
    try:
        flush_table(session_of(lake), newest(session_of(lake), name))
    except RowsChangedError:
        return False
    return True


def changed(lake: Lake, twin: str, key: str, case: Case, seen: Counter[str]) -> tuple[list[object], list[int]]:
    """Merges into a twin between changes of other writers; returns the outcomes with row ids, and the snapshots."""
    session_of(lake).committer = twin
    name, versions = f"{twin}_{key}", [lake.snapshot_id]
    ((newest,),) = fetched(lake, f"SELECT coalesce(max(rowid), -1) FROM {name}")
    found: list[object] = []
    for again in range(2):
        before = lake.snapshot_id
        keyed = case._replace(arguments=case.arguments | ({"idempotency_key": "once"} if again else {}))
        outcome = merged(lake, name, keyed)[0]
        found.append(without_ids(outcome) if again else outcome)
        if lake.snapshot_id > before:
            seen[committer(lake) if twin == "staged" else "public"] += 1
            seen["keys"] += again and committer(lake) == "staged"
            assert not again or merged(lake, name, keyed)[0].feed == []
        versions.append(lake.refresh())
        for statement in [statement for statement in LATER if not again or "CALL" not in statement]:
            if "CALL" in statement:
                flushed(lake, name)
            run_plain(lake, statement.format(name))
            versions.append(lake.refresh())
            if not again and "CALL" not in statement:
                found.append(contents(lake, name, newest, versions[-1]))
    return found, versions


def check(store: Store, spark: SparkSession, cases: dict[str, Case], seen: Counter[str]) -> None:
    with store.connect() as connection:
        for key, case in cases.items():
            for statement in case.setup:
                for twin in ("public", "staged"):
                    connection.execute(statement.replace("§", f"{twin}_{key}"))
    with store.open(spark) as lake:
        for key, case in cases.items():
            # The first key makes the table of keys, which a staged commit cannot do.
            lake.table(f"public_{key}").delete("n = 1000", idempotency_key="first")
            found = {twin: changed(lake, twin, key, case, seen) for twin in ("public", "staged")}
            assert found["staged"][0] == found["public"][0], case
            states = ([contents(lake, f"{twin}_{key}", -1, version) for version in found[twin][1]] for twin in found)
            for at, pair in enumerate(zip(*states, strict=True)):
                assert pair[0] == pair[1], (at, set(pair[0]) ^ set(pair[1]), case)
            seen["partitioned"] += check_partitions(lake, f"staged_{key}")
        # DuckLake cannot rewrite a table with floats and rows in a catalog on SQLite or PostgreSQL.
        rewritable = {key for key in cases if all(flushed(lake, f"{twin}_{key}") for twin in ("public", "staged"))}
    with store.connect() as connection:
        for key, case in cases.items():
            names = (f"public_{key}", f"staged_{key}")
            public, staged = (filtered(connection, name, case.columns) for name in names)
            assert public == staged, case
            if key not in rewritable:
                continue
            for statement in REWRITE:
                rows = [connection.execute(statement.format(name)).fetchall() for name in names]
            assert sorted(map(shown, map(list, rows[0]))) == sorted(map(shown, map(list, rows[1]))), case


@pytest.mark.slow
@pytest.mark.prove("sqlite", "postgres")
def test_twins_stay_equal(store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random tables with partitions, rows in the catalog, deletes, evolved columns; others change them too."""
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    seen, number = Counter[str](), iter(range(10**6))
    first = 1000 * ("sqlite", "duckdb", "postgres").index(store.metadata_backend.type)
    for seed in range(first, first + (10 if PROVE else 3)):
        if seen["staged"] and not PROVE:
            break
        random = Random(seed)  # noqa: S311 - not for cryptography
        cases = {
            str(next(number)): random_case(random, TYPES, partitioned=0.5, evolved=0.4)
            for _ in range(3 if PROVE else 1)
        }
        check(store, spark, cases, seen)
    assert seen["staged"] > 0


# Tables whose rows were written before their first keys, with other keys, or with keys that they no longer have.
KEY_CHANGES = {
    # The frame lacks a key, which has a default, and another column.
    "subset": [
        *("ALTER TABLE § SET PARTITIONED BY (n)", "INSERT", "ALTER TABLE § ALTER COLUMN s SET DEFAULT 'b'"),
        "ALTER TABLE § SET PARTITIONED BY (s, year(d))",
    ],
    "other": ["ALTER TABLE § SET PARTITIONED BY (s)", "INSERT", "ALTER TABLE § SET PARTITIONED BY (year(d), n)"],
    "first": ["INSERT", "ALTER TABLE § SET PARTITIONED BY (s)"],
    "none": ["ALTER TABLE § SET PARTITIONED BY (n)", "INSERT", "ALTER TABLE § RESET PARTITIONED BY"],
}


@pytest.mark.slow
def test_twins_with_changed_keys_stay_equal(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of several partitionings; updated rows move to folders of the newest one."""
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    columns = {"k": "BIGINT", "n": "INTEGER", "s": "VARCHAR", "d": "DATE"}
    create = f"CREATE TABLE § ({', '.join(f'{name} {found}' for name, found in columns.items())})"
    rows = "SELECT {0} AS k, ({0} % 3 - 1)::INTEGER AS n, 'a' || {0} % 2 AS s, DATE '2024-12-30' + {0}::INTEGER AS d"
    insert = f"INSERT INTO § {rows.format('i')} FROM range({{}}, {{}}) AS r(i)"
    frame = f"{rows.format('(i * 2)')} FROM range(5, 13) AS r(i)"
    cases = {}
    for key, changes in list(KEY_CHANGES.items())[: None if PROVE else 1]:
        setup = [create, *(insert.format(0, 12) if change == "INSERT" else change for change in changes)]
        setup += [insert.format(12, 20), "DELETE FROM § WHERE k % 7 = 0"]
        given = f"SELECT k, n FROM ({frame})" if key == "subset" else frame
        cases[key] = Case(setup, columns, given, {"on": ["k"]})
    seen = Counter[str]()
    check(store_of(tmp_path, data_inlining_row_limit=5), spark, cases, seen)
    assert seen["staged"] == 2 * len(cases)
    assert seen["partitioned"]


# Each with the table, how a merge into it is called, and why a staged commit cannot carry it.
OTHERWISE: dict[str, tuple[str, dict[str, Any], str]] = {
    "key": ("CREATE TABLE § (k BIGINT, v VARCHAR)", {"idempotency_key": "first"}, "the lake does not have the table"),
    "list": ("CREATE TABLE § (k BIGINT, v VARCHAR, l INTEGER[])", {}, "the type of the column 'l'"),
    "value": (
        "CREATE TABLE § (k BIGINT, v VARCHAR, p VARCHAR); ALTER TABLE § SET PARTITIONED BY (p)",
        {},
        "no files of Spark contain all rows",
    ),
}


@pytest.mark.slow
def test_other_merges_are_rewritten_by_duckdb(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    store = store_of(tmp_path)
    frame = pa.table({"k": pa.array([2], pa.int64()), "v": ["new"]})
    with replace(store, committer="staged").open(spark) as lake:
        for name, (definition, arguments, reason) in OTHERWISE.items():
            definitions = definition.replace("§", name).split("; ")
            run_plain(lake, *definitions, f"INSERT INTO {name} (k, v) VALUES (1, 'old'), (2, 'old')")
            if name == "value":
                run_plain(lake, "UPDATE value SET p = 'NULL'")  # in a path, DuckLake reads this text as NULL
            lake.refresh()
            files = {*(tmp_path / "data" / "main" / name).rglob("*.parquet")}
            lake.table(name).merge(
                frame, on="k", matched=[Update({"v": nw.col("source_v")})], not_matched=None, **arguments
            )
            assert committer(lake) == "public", name
            assert f"; not staged: {reason}" in (decision(lake, name) or ""), name
            assert sorted(fetched(lake, f"SELECT k, v FROM {name}")) == [(1, "old"), (2, "new")], name
            left = {*(tmp_path / "data" / "main" / name).rglob("lakeconf-*")} - files
            assert not left, name


@pytest.mark.slow
def test_auto_stages_a_merge_that_spark_joins_if_the_catalog_allows(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    store = store_of(tmp_path)
    with store.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS id, 'old' AS s FROM range(20) AS r(i)")
    frame = spark.sql("SELECT id, 'new' AS s FROM range(2, 4)")
    with store.open(spark) as lake, monkeypatch.context() as unproven:
        unproven.setattr(capabilities, "PROVEN_STAGED_COMMITS", frozenset())
        lake.table("t").merge(frame, on="id")
        assert committer(lake) == "public"
        assert "; not staged: the committer auto waits for proof: " in str(decision(lake, "t"))
    with store.open(spark) as lake:
        assert lake.table("t").explain().writes["merge"].endswith("; spark, if the frame has more than -1 B")
        lake.table("t").merge(frame, on="id")
        assert committer(lake) == "staged"
        assert "not staged" not in str(decision(lake, "t"))
        lake.table("t").merge(frame, on="id", matched=[Delete(nw.col("source_id") == 2)])
        assert committer(lake) == "staged"
        wanted = [(number, "new" if number == 3 else "old") for number in range(20) if number != 2]
        assert sorted(fetched(lake, "SELECT id, s FROM t")) == wanted


@pytest.mark.parametrize("way", ["append", "staged"])
def test_texts_of_every_kind_hide_no_rows_from_duckdb(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A file without bounds makes DuckLake forget those of the table; it then takes the bounds of the next insert."""
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    store = store_of(tmp_path)
    with store.connect() as connection:
        connection.execute("CREATE TABLE t (id BIGINT, s VARCHAR, u VARCHAR)")
        connection.execute("INSERT INTO t SELECT i, 'v' || i, 'v' || i FROM range(20) AS r(i)")
    frame = spark.sql(r"SELECT 4L AS id, repeat('l', 9000) AS s, 'C:\\xy' AS u UNION ALL SELECT 99L, 'x', 'y'")
    with store.open(spark) as lake:
        if way == "append":
            lake.table("t").append(frame)
        else:
            session_of(lake).committer = way
            lake.table("t").merge(frame, on="id")
            assert committer(lake) == "staged"
    with store.connect() as connection:
        connection.execute("INSERT INTO t VALUES (200, 'm', 'm')")
        query = "SELECT (SELECT count(*) FROM t WHERE s = 'v7'), (SELECT count(*) FROM t WHERE u < 'D')"
        assert connection.execute(query).fetchall() == [(1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "a conflict"])
def test_files_of_a_keyed_merge_into_partitions(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    """All files of a committed merge are known to the catalog; a conflict leaves none."""
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", -1)
    store = store_of(tmp_path, data_inlining_row_limit=0)
    with store.open() as lake:
        columns = {"id": "BIGINT", "day": "DATE", "s": "VARCHAR"}
        lake.create_table("t", columns, partitioned_by=["year(day)", "s"])
        run_plain(lake, "INSERT INTO t SELECT i, DATE '2024-01-01' + i::INT * 100, 'a b' FROM range(9) AS r(i)")
    frame = spark.sql("SELECT id, DATE '2025-06-01' AS day, concat('c/', id) AS s FROM range(3, 12)")
    with replace(store, committer="staged").open(spark) as lake:
        lake.table("t").delete("id = 0", idempotency_key="first")
        before, first = {*(tmp_path / "data").rglob("*.parquet")}, lake.snapshot_id
        if not committed:
            at_staged_commit(monkeypatch, before=lambda: run_plain(lake, "DELETE FROM t WHERE id = 1"))
            with pytest.raises(CommitConflictError):
                lake.table("t").merge(frame, on="id", idempotency_key="k")
            new = {path.name for path in {*(tmp_path / "data").rglob("*.parquet")} - before}
            assert [name for name in new if not name.startswith("ducklake-")] == []
            assert lake.table("t").idempotency_keys() == ["first"]
            return
        made = lake.table("t").merge(frame, on="id", idempotency_key="k")
        assert committer(lake) == "staged"
        assert made == lake.table("t").merge(frame, on="id", idempotency_key="k") == first + 1
        assert lake.table("t").idempotency_keys() == ["first", "k"]
        assert sorted(fetched(lake, "SELECT id, s FROM t")) == [
            (1, "a b"),
            (2, "a b"),
            *((i, f"c/{i}") for i in range(3, 12)),
        ]
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        known = {Path(path).name for (path,) in fetched(lake, KNOWN)}
        assert {path.name for path in (tmp_path / "data").rglob("*.parquet")} == known
        assert check_partitions(lake, "t") > 3
