"""Options and plans of the data source; executors get files in groups and no secret, and return rows and changes."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from catalog_lake import AttachedLake
from hypothesis import given
from local_stores import config_of, in_bucket, store_of
from random_lakes import LAKES, built, examples
from spark_changes import KEY, keys_by_state

import lakeconf
from lakeconf.backends.access import Access
from lakeconf.catalog.changes_plan import changes_sql, plan_changes_with_inlined_rows
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan, plan_with_inlined_rows
from lakeconf.catalog.pruning.where import parse
from lakeconf.catalog.tables import Column, load_table
from lakeconf.datasource.planning import Options, options_of, parts_of, plan, resolve
from lakeconf.engines.spark.read.parts import ChangePart, FilePart, check_mapped, divided, read_part, stream_of
from lakeconf.engines.spark.spark_types import exact_cast, spark_schema
from lakeconf.engines.spark.versions import arrow_schema
from lakeconf.errors import (
    ConfigError,
    LakeconfError,
    QueryError,
    SchemaError,
    SnapshotNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servers import S3Server

MIB = 2**20


@pytest.fixture
def one_file(inlining_lake: AttachedLake) -> ScanPlan:
    """The plan of a table with one file."""
    inlining_lake.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(50)")
    return plan_scan(inlining_lake.reader, "t", inlining_lake.newest)


def test_small_files_are_read_together(one_file: ScanPlan) -> None:
    (file,) = one_file.files
    cases: list[tuple[list[int], list[int]]] = [
        ([], []),
        ([1], [1]),
        ([MIB] * 10, [10]),
        ([60 * MIB] * 3, [1, 1, 1]),
        ([500 * MIB, MIB, MIB], [1, 2]),
        ([1] * 401, [200, 200, 1]),
    ]
    for sizes, groups in cases:
        files = tuple(replace(file, file_size_bytes=size) for size in sizes)
        parts = list(divided(replace(one_file, files=files)))
        assert [len(part.files) for part in parts] == groups
        assert [file.file_size_bytes for part in parts for file in part.files] == sizes


def test_a_secret_from_a_variable_is_sent_as_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    """One in the configuration is read there, and no other text repeats one."""
    monkeypatch.chdir(tmp_path)
    storage = in_bucket(s3_server)

    def sent(**changed: str) -> bytes:
        store = lakeconf.init(config_of(tmp_path, storage=storage | changed)).get_store()
        return pickle.dumps(Access.of(store))

    monkeypatch.setenv("LAKE_SECRET", "planted-secret-value")
    assert b"planted-secret-value" not in sent(secret="${LAKE_SECRET}", prefix="a/planted-secret-value")
    monkeypatch.setenv("LAKE_SECRET", storage["secret"])
    access = sent(secret="${LAKE_SECRET}")
    assert storage["secret"].encode() not in access
    assert b"LAKE_SECRET" in access
    with pickle.loads(access).connect() as connection:  # noqa: S301 - its own pickle
        assert connection.rows("SELECT type FROM duckdb_secrets()") == [("s3",)]
    monkeypatch.delenv("LAKE_SECRET")
    with pytest.raises(StorageError, match="the variable LAKE_SECRET is not set"):
        pickle.loads(access).connect()  # noqa: S301
    access = sent()
    assert storage["secret"].encode() not in access
    with pytest.raises(ConfigError, match=r"lakeconf\.toml"):
        pickle.loads(access).connect()  # noqa: S301


def test_local_files_need_no_configuration(store: lakeconf.Store) -> None:
    access = pickle.loads(pickle.dumps(Access.of(store)))  # noqa: S301
    with access.connect() as connection:
        assert connection.rows("SELECT current_setting('threads')") == [(1,)]


def paths(options: Options) -> list[str]:
    """The files of a plan at the latest snapshot."""
    parts = plan(options, resolve(options)[1])
    return [file.path for part in parts if isinstance(part, FilePart) for file in part.plan.files]


@pytest.mark.slow
def test_options_choose_the_snapshot_the_columns_and_the_files(events_folder: Path) -> None:
    assert events_folder.exists()
    columns, latest = resolve(Options("raw.events"))
    assert [column.name for column in columns] == ["id", "kind"]
    with lakeconf.init().get_store().open() as lake:
        assert latest == lake.snapshot_id
        (first, *_) = lake.table("raw.events").history()
    assert resolve(Options("raw.events", version=2))[1] == 2
    assert resolve(Options("raw.events", timestamp=first.time))[1] == first.snapshot_id
    columns, _ = resolve(Options("raw.events", columns="kind, id"))
    assert [column.name for column in columns] == ["kind", "id"]
    with pytest.raises(SchemaError, match="has no column 'size'"):
        resolve(Options("raw.events", columns="size"))
    assert len(paths(Options("raw.events"))) == 2
    assert len(paths(Options("raw.events", where="id < 3"))) == 1
    assert paths(Options("raw.events", where="id > 3", columns="kind")) == []


@pytest.mark.slow
def test_missing_tables_and_expired_snapshots_are_reported(events_folder: Path) -> None:
    assert events_folder.exists()
    with pytest.raises(TableNotFoundError, match=r"no table 'raw\.event'"):
        resolve(Options("raw.event"))
    with pytest.raises(SnapshotNotFoundError, match="version 99 does not exist"):
        resolve(Options("raw.events", version=99))
    _, snapshot_id = resolve(Options("raw.events", version=2))
    with lakeconf.init().get_store().open() as lake:
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    with pytest.raises(SnapshotNotFoundError, match="version 2 has expired"):
        plan(Options("raw.events"), snapshot_id)


def test_planning_creates_no_lake_and_refuses_variants(project: Path) -> None:
    with pytest.raises(lakeconf.LakeconfError, match="has no lake yet"):
        resolve(Options("raw.events"))
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", {"id": "BIGINT", "v": "VARIANT"})
    with pytest.raises(UnsupportedError, match="the column 'v' holds VARIANT"):
        resolve(Options("t"))
    assert resolve(Options("t", columns="id"))


def test_options_are_converted_and_names_ignore_case() -> None:
    given = {"TABLE": "raw.events", "store": "prod", "columns": "a, b", "Timestamp": "2026-01-31T12:00:00+00:00"}
    options = options_of(given, "a read")
    assert options == Options("raw.events", "prod", columns="a, b", timestamp=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert options.names == ["a", "b"]
    stream = options_of({"table": "t", "since": "4", "changes": "TRUE", "snapshots_per_batch": "2"}, "a streaming read")
    assert stream == Options("t", since=4, changes=True, snapshots_per_batch=2)
    assert options_of({"table": "t", "idempotency_key": "k"}, "a write").idempotency_key == "k"


def test_wrong_options_are_refused_without_their_values() -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({}, "the option table is missing"),
        ({"version": "x7"}, "the option version is not a whole number"),
        ({"version": "1_0"}, "the option version is not a whole number"),
        ({"timestamp": "x7"}, "the option timestamp is not a time such as 2026-01-31T12:00:00+00:00"),
        ({"version": "1", "timestamp": "2026-01-31"}, "pass either the option version or"),
        ({"since": "1"}, "a read has no option 'since'"),
        ({"password": "x7"}, "the data source has no option 'password'"),
        ({"versionn": "x7"}, "the data source has no option 'versionn'"),
    ]
    for wrong, message in cases:
        with pytest.raises(LakeconfError) as refused:
            options_of({"table": "t", **wrong} if wrong else {}, "a read")
        assert refused.value.message.startswith(message)
        assert "x7" not in str(refused.value)
        assert ("versionn" in wrong) == ('did you mean "version"' in str(refused.value.hint))
    for name, value in (("snapshots_per_batch", "0"), ("changes", "yes"), ("since", "-1")):
        with pytest.raises(LakeconfError, match=f"the option {name} is"):
            options_of({"table": "t", name: value}, "a streaming read")


def rows(source: AttachedLake, version: int, columns: list[str] | None = None, where: str | None = None) -> pa.Table:
    """The rows of `t` as executors return them to Spark."""
    plan, inlined = plan_with_inlined_rows(source.reader, "t", version, columns)
    if where is not None:
        plan = replace(plan, predicate=parse(where, plan.table.columns))
    schema = arrow_schema(spark_schema(plan.columns))
    access = Access.of(store_of(source.folder))
    parts = parts_of(access, plan, inlined, plan.columns)
    return pa.Table.from_batches([batch for part in parts for batch in read_part(part, schema)], schema)


def as_text(source: AttachedLake, plan: ScanPlan, sql: str, *, cast: bool) -> Counter[tuple[object, ...]]:
    """Rows as text."""
    values = [exact_cast(identifier(c.name), c) if cast else identifier(c.name) for c in plan.columns]
    with source.reader.lake_cursor() as cursor:
        if not cast:
            cursor.register("returned", rows(source, plan.snapshot_id))
        return Counter(cursor.rows(f"SELECT {', '.join(f'CAST({value} AS VARCHAR)' for value in values)} FROM {sql}"))


@pytest.mark.slow
def test_random_lakes_are_read_like_duckdb() -> None:
    seen = Counter[str]()
    _compare_random_lakes(seen)
    assert seen["compared"] > 10, seen
    assert seen["refused"] < seen["compared"], seen


@examples(8, prove=300)
@given(**LAKES)
def _compare_random_lakes(
    seen: Counter[str], columns: dict[str, str], operations: list[tuple[object, ...]], inline: bool
) -> None:
    with built("duckdb", columns, operations, inline=inline) as (source, script):
        for version in source.versions():
            try:
                plan, _ = plan_with_inlined_rows(source.reader, "t", version)
                returned = as_text(source, plan, "returned", cast=False)
            except TableNotFoundError:
                continue
            except UnsupportedError:
                seen["refused"] += 1
                continue
            read = as_text(source, plan, f"lake.t AT (VERSION => {version})", cast=True)
            assert returned == read, f"version {version} of\n{script}"
            seen["compared"] += 1


def test_a_condition_selects_rows_in_files_and_in_the_catalog(inlining_lake: AttachedLake) -> None:
    inlining_lake.run("CREATE TABLE lake.t AS SELECT range AS id, 'x' AS kind FROM range(50)")
    inlining_lake.run("INSERT INTO lake.t VALUES (100, 'y'), (101, NULL)")
    assert rows(inlining_lake, inlining_lake.newest, where="id >= 49").to_pylist() == [
        {"id": 49, "kind": "x"},
        {"id": 100, "kind": "y"},
        {"id": 101, "kind": None},
    ]


def test_a_truncated_or_missing_file_is_an_error(inlining_lake: AttachedLake) -> None:
    inlining_lake.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(50)")
    (path,) = (inlining_lake.folder / "data").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LakeconfError):
        rows(inlining_lake, inlining_lake.newest)
    path.unlink()
    with pytest.raises(StorageError):
        rows(inlining_lake, inlining_lake.newest)


def test_rows_are_returned_while_duckdb_computes_the_next_ones(inlining_lake: AttachedLake) -> None:
    bad = "CASE WHEN range = 299999 THEN TIMESTAMP_NS '2026-01-01 00:00:00.000000001' END"
    inlining_lake.run(f"CREATE TABLE lake.t AS SELECT range AS id, {bad} AS at FROM range(300000)")
    plan, inlined = plan_with_inlined_rows(inlining_lake.reader, "t", inlining_lake.newest)
    (part,) = parts_of(Access.of(store_of(inlining_lake.folder)), plan, inlined, plan.columns)
    batches = read_part(part, arrow_schema(spark_schema(plan.columns)))
    assert next(batches).num_rows > 0
    with pytest.raises(QueryError, match="more digits than Spark's microseconds"):
        list(batches)


KEY_TYPES = [("snapshot_id", pa.int64()), ("rowid", pa.int64()), ("change_type", pa.string())]


def changed(
    source: AttachedLake, since: int, until: int, *, kinds: bool = True, columns: Sequence[Column] | None = None
) -> pa.Table:
    """The changes of `t` as executors return them to Spark."""
    plan, inlined = plan_changes_with_inlined_rows(source.reader, "t", since, until)
    wanted = plan.inserted.columns if columns is None else tuple(columns)
    schema = arrow_schema(spark_schema(wanted))
    if kinds:
        schema = pa.schema([*(pa.field(*one) for one in KEY_TYPES), *schema])
    part = ChangePart(Access.of(store_of(source.folder)), plan, stream_of(inlined), wanted, kinds)
    return pa.Table.from_batches(list(read_part(part, schema)), schema)


@pytest.mark.slow
def test_changes_of_random_lakes_are_those_of_duckdb() -> None:
    seen = Counter[str]()
    _compare_random_changes(seen)
    assert seen["compared"] > 5, seen
    assert min(seen["insert"], seen["delete"]) > 0, seen


@examples(12, prove=300)
@given(**LAKES, back=st.integers(0, 12))
def _compare_random_changes(
    seen: Counter[str], columns: dict[str, str], operations: list[tuple[object, ...]], inline: bool, back: int
) -> None:
    with built("duckdb", columns, operations, inline=inline) as (source, script):
        versions = source.versions()
        since = max(1, versions[-1] - back)
        if set(range(since - 1, versions[-1] + 1)) <= set(versions):
            wrong = _wrong(source, since, versions[-1], seen)
            assert not wrong, f"{wrong}: changes from {since} to {versions[-1]} of\n{script}"


def _wrong(source: AttachedLake, since: int, until: int, seen: Counter[str]) -> object:
    """The changes that differ, or what else is wrong."""
    try:
        plan, _ = plan_changes_with_inlined_rows(source.reader, "t", since, until)
        found, inserted = (changed(source, since, until, kinds=kinds) for kinds in (True, False))
    except UnsupportedError:
        return None
    with source.reader.lake_cursor() as cursor:
        cursor.register("found", found)
        cursor.register("inserted", inserted)
        names = [identifier(column.name) for column in plan.inserted.columns]
        texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
        keys = Counter(cursor.rows(f"SELECT {', '.join(KEY)} FROM found"))
        if Counter(cursor.rows(f"SELECT {texts} FROM found WHERE change_type = 'insert'")) != Counter(
            cursor.rows(f"SELECT {texts} FROM inserted")
        ):
            return "inserted rows alone are others than those of the feed"
        seen.update(kind for *_, kind in keys)
        seen["compared"] += 1
        try:
            query = changes_sql(source.reader, plan)
        except UnsupportedError:
            return _either(keys, keys_by_state(source, plan))
        casts = (exact_cast(name, column) for name, column in zip(names, plan.inserted.columns, strict=True))
        own = ", ".join(f"CAST({cast} AS VARCHAR)" for cast in casts)
        expected = Counter(cursor.rows(f"SELECT {', '.join(KEY)}, {own} FROM ({query})"))
        return _either(expected, Counter(cursor.rows(f"SELECT {', '.join(KEY)}, {texts} FROM found")))


def _either(one: Counter[Any], other: Counter[Any]) -> Counter[Any]:
    """What only one of the two contains."""
    return (one - other) + (other - one)


@pytest.fixture(params=[0, 10])
def table(request: pytest.FixtureRequest, inlining_lake: AttachedLake) -> AttachedLake:
    """A lake with `t`, whose rows are in files or in the catalog."""
    inlining_lake.run(f"CALL lake.set_option('data_inlining_row_limit', {request.param})")
    inlining_lake.run("CREATE TABLE lake.t (id BIGINT, kind VARCHAR)", "INSERT INTO lake.t VALUES (1, 'a'), (2, 'b')")
    return inlining_lake


def kinds(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["change_type"], row["id"], row["kind"]) for row in found.to_pylist())


def test_columns_of_another_snapshot_get_their_names_defaults_and_types(table: AttachedLake) -> None:
    last = table.newest
    table.run(
        "ALTER TABLE lake.t RENAME COLUMN kind TO label",
        "ALTER TABLE lake.t ADD COLUMN size INTEGER DEFAULT 7",
        "ALTER TABLE lake.t ADD COLUMN note VARCHAR",
    )
    later = load_table(table.reader, "t", table.newest).columns
    rows = changed(table, last, last, kinds=False, columns=later).to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "label": "a", "size": 7, "note": None},
        {"id": 2, "label": "b", "size": 7, "note": None},
    ]


def test_a_column_that_was_promoted_is_cast(inlining_lake: AttachedLake) -> None:
    inlining_lake.run("CREATE TABLE lake.t AS SELECT 1::INTEGER AS id", "ALTER TABLE lake.t ALTER id TYPE BIGINT")
    later = load_table(inlining_lake.reader, "t", inlining_lake.newest).columns
    assert changed(inlining_lake, 1, 1, kinds=False, columns=later).to_pylist() == [{"id": 1}]
    check_mapped(later, load_table(inlining_lake.reader, "t", 1).columns)


def test_other_changes_of_types_are_refused(inlining_lake: AttachedLake) -> None:
    inlining_lake.run(
        "CREATE TABLE lake.t (id INTEGER, s STRUCT(x INTEGER))", "ALTER TABLE lake.t ADD COLUMN s.y INTEGER"
    )
    before, after = (load_table(inlining_lake.reader, "t", version).columns for version in (1, 2))
    with pytest.raises(SchemaError, match="the fields of the column 's' have changed"):
        check_mapped(after, before)
    inlining_lake.run("ALTER TABLE lake.t ALTER id TYPE BIGINT")
    promoted = load_table(inlining_lake.reader, "t", inlining_lake.newest).columns
    with pytest.raises(SchemaError, match="the column 'id' has changed its type from int64 to int32"):
        check_mapped(after, promoted)


def test_columns_may_have_the_names_of_the_place_of_a_row(inlining_lake: AttachedLake) -> None:
    inlining_lake.run("CALL lake.set_option('data_inlining_row_limit', 0)")
    inlining_lake.run("CREATE TABLE lake.t AS SELECT 1 AS filename, 2 AS file_row_number, range AS id FROM range(9)")
    assert changed(inlining_lake, inlining_lake.newest, inlining_lake.newest).num_rows == 9
    inlining_lake.run("DELETE FROM lake.t WHERE id = 4")
    (row,) = changed(inlining_lake, inlining_lake.newest, inlining_lake.newest).to_pylist()
    assert (row["change_type"], row["rowid"], row["filename"], row["id"]) == ("delete", 4, 1, 4)
