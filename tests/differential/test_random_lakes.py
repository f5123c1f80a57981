"""Random DuckDB operations: Spark reads the same rows and the same changes as DuckDB at every snapshot."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from comparisons import count, way_of
from hypothesis import given
from local_stores import config_of
from pyspark.errors import PySparkException
from random_lakes import LAKES, built, examples
from source_project import source_of
from spark_changes import wrong_changes
from spark_rows import compared, differences, exists

from lakeconf import init
from lakeconf.catalog.tables import load_table
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame, SparkSession

# Of the reasons to reject a scan, those that can occur in these lakes.
REFUSALS = ("TIMETZ", "VARIANT", "a value that Spark cannot hold")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_spark_reads_random_lakes_like_duckdb(spark: SparkSession, request: pytest.FixtureRequest, kind: str) -> None:
    seen = Counter[str]()
    _compare_random_lakes(spark, request, kind, seen)
    # A run that compares nothing, or rejects almost everything, proves nothing.
    assert seen["compared"] >= 5, seen
    assert seen["rejected"] <= seen["compared"], seen


@pytest.mark.slow
def test_spark_connect_reads_random_lakes_like_duckdb(connect: SparkSession, request: pytest.FixtureRequest) -> None:
    """The page about Spark Connect has the number of refusals in a longer run."""
    seen = Counter[str]()
    _compare_random_lakes(connect, request, "duckdb", seen)
    assert seen["compared"] >= 5, seen
    assert seen["rejected"] <= seen["compared"] // 20, seen


@pytest.mark.slow
def test_the_data_source_and_sql_read_random_lakes_like_duckdb(spark: SparkSession) -> None:
    seen = Counter[str]()
    _compare_through_the_data_source(spark, seen)
    assert seen["compared"] >= 5, seen
    assert seen["rejected"] <= seen["compared"], seen


@examples(2, prove=50)
@given(**LAKES)
def _compare_through_the_data_source(
    spark: SparkSession, seen: Counter[str], columns: dict[str, str], operations: list[tuple[object, ...]], inline: bool
) -> None:
    with built("sqlite", columns, operations, inline=inline) as (source, script):
        config = config_of(source.folder, {"type": "sqlite", "uri": str(source.folder / "catalog.sqlite")})
        (source.folder / "lakeconf.toml").write_text(f"stores = {toml_value(config['stores'])}\n", "utf-8")
        own = spark.newSession()
        init(config).get_store("dev").attach(own)
        for version in source.versions():
            if exists(source, "t", version):
                by_source = source_of(spark, source.folder, "t", version=version).load
                by_name = partial(own.sql, f"SELECT * FROM t VERSION AS OF {version}")
                for read in (by_source, by_name):
                    wrong = _wrong_in_frame(read, source, version, seen)
                    assert not wrong, f"{wrong}: version {version} of\n{script}"


def _wrong_in_frame(read: Callable[[], DataFrame], source: AttachedLake, version: int, seen: Counter[str]) -> object:
    """The differences in the rows of a frame; falsy if Spark rejects the table for a documented reason."""
    columns = load_table(source.reader, "t", version).columns
    try:
        wrong = compared(source, columns, read(), f"lake.t AT (VERSION => {version})", {}, "data source")
    except PySparkException as error:
        seen["rejected"] += 1
        count("data source", "rejected")
        is_documented = "UnsupportedError" in str(error) and any(reason in str(error) for reason in REFUSALS)
        return not is_documented and error
    seen["compared"] += 1
    return wrong


@examples(3, prove=250)
@given(**LAKES, start=st.integers(0, 12))
def _compare_random_lakes(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    kind: str,
    seen: Counter[str],
    columns: dict[str, str],
    operations: list[tuple[object, ...]],
    inline: bool,
    start: int,
) -> None:
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    database = server.create_database() if server else None
    with built(kind, columns, operations, inline=inline, server=server, database=database) as (source, script):
        for version in source.versions():
            if exists(source, "t", version):
                assert not _wrong(spark, source, version, seen), f"version {version} of\n{script}"
        for since, until in _ranges(source.versions(), start):
            wrong = _wrong_in_range(spark, source, since, until)
            assert not wrong, f"{wrong}: changes from {since} to {until} of\n{script}"


def _ranges(versions: list[int], start: int) -> list[tuple[int, int]]:
    """A range of existing snapshots whose predecessor also exists; empty if some of them have expired."""
    last = versions[-1]
    since = max(1, last - start)
    return [(since, last)] if set(range(since - 1, last + 1)) <= set(versions) else []


def _wrong_in_range(spark: SparkSession, source: AttachedLake, since: int, until: int) -> object:
    """The differences in Spark's changes; falsy if they are rejected for a documented reason."""
    try:
        return wrong_changes(spark, source, since, until)
    except UnsupportedError as error:
        count(way_of(spark), "rejected")
        return not any(reason in error.message for reason in REFUSALS) and error


def _wrong(spark: SparkSession, source: AttachedLake, version: int, seen: Counter[str]) -> object:
    """The differences in Spark's rows; falsy if the scan is rejected for a documented reason."""
    try:
        wrong = differences(spark, source, "t", version)
    except UnsupportedError as error:
        seen["rejected"] += 1
        count(way_of(spark), "rejected")
        return not any(reason in error.message for reason in REFUSALS) and error
    seen["compared"] += 1
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("session", ["spark", "connect"], ids=["spark", "spark-connect"])
def test_files_with_dropped_types_that_spark_4_0_does_not_know(
    file_lake: AttachedLake, session: str, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue(session)
    file_lake.run(
        "CREATE TABLE lake.t (i INTEGER, v VARIANT, g GEOMETRY, s STRUCT(a INTEGER, g GEOMETRY))",
        "INSERT INTO lake.t SELECT i, i::VARIANT, 'POINT(1 2)', {a: i, g: 'POINT(3 4)'} FROM range(5) AS r (i)",
        *(f"ALTER TABLE lake.t DROP COLUMN {name}" for name in ("v", "g", "s.g")),
        "INSERT INTO lake.t VALUES (5, {a: 5})",
        "DELETE FROM lake.t WHERE i = 2",
    )
    seen = Counter[str]()
    first, last = file_lake.newest - 2, file_lake.newest
    for version in range(first, last + 1):
        assert not _wrong(spark, file_lake, version, seen)
    assert not _wrong_in_range(spark, file_lake, first, last)
    assert seen == {"compared": 3}


@pytest.mark.slow
@pytest.mark.parametrize("session", ["spark", "connect"], ids=["spark", "spark-connect"])
def test_structs_that_have_lost_all_fields_of_a_file(
    file_lake: AttachedLake, session: str, request: pytest.FixtureRequest
) -> None:
    """DuckDB reads a struct inside of another value as not NULL then, and a column as it is."""
    file_lake.run(
        "CREATE TABLE lake.t (i INTEGER, z STRUCT(q INT), o STRUCT(z STRUCT(q INT), k INT), l STRUCT(q INT)[])",
        "INSERT INTO lake.t VALUES (1, NULL, NULL, NULL), (2, {q: 1}, {z: {q: 1}, k: 1}, [{q: 1}, NULL]), "
        "(3, {q: NULL}, {z: NULL, k: 1}, []), (4, NULL, {z: {q: NULL}, k: NULL}, [NULL])",
        *(f"ALTER TABLE lake.t ADD COLUMN {name}.w INT" for name in ("z", "o.z", "l.element")),
        *(f"ALTER TABLE lake.t DROP COLUMN {name}.q" for name in ("z", "o.z", "l.element")),
        "INSERT INTO lake.t VALUES (5, {w: 1}, {z: {w: 1}, k: 1}, [{w: 1}])",
    )
    seen = Counter[str]()
    for version in range(file_lake.newest - 7, file_lake.newest + 1):
        assert not _wrong(request.getfixturevalue(session), file_lake, version, seen)
    assert seen == {"compared": 8}
