"""`lake.sql(…, lakes=[…])` joins tables of several lakes on both engines, each lake at one snapshot."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from local_stores import config_of, in_bucket
from promotions import stores

import lakeconf
from lakeconf.errors import (
    LakeconfError,
    QueryError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.lake.query_names import _is_exact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import S3Server

    from lakeconf import Lake

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
NESTED = "STRUCT(u UUID, l HUGEINT[], m MAP(VARCHAR, UUID))"


@pytest.fixture
def lakes(tmp_path: Path, engine: Any) -> Iterator[tuple[Lake, Lake]]:
    """`dev` and `staging`: `raw.t` has the ids 1 and 2, and in `staging` 2 and 3, but at snapshot 3 only 2."""
    found = stores(tmp_path, "dev", "staging")
    for name, ids in (("dev", (1, 2)), ("staging", (2, 3))):
        with found[name].connect() as connection:
            connection.execute("CREATE SCHEMA raw; CREATE TABLE raw.t (id INTEGER, name VARCHAR)")
            for number in ids:
                connection.execute(f"INSERT INTO raw.t VALUES ({number}, '{name} {number}')")
    with found["dev"].open(engine) as dev, found["staging"].open(engine) as staging:
        yield dev, staging


def rows(found: Any) -> list[Any]:
    return sorted(found.collect("pyarrow").rows(), key=repr)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id, k.name FROM raw.t JOIN staging.raw.t AS k USING (id)", [(2, "staging 2")]),
        ('SELECT k.id FROM dev.raw.t k, "STAGING"."raw"."T" AS "Odd" WHERE k.id = "Odd".id', [(2,)]),
        ("SELECT count(*) FROM staging.raw.t AS s AT (VERSION => 3) WHERE s.id < 9", [(1,)]),
        ("SELECT (SELECT max(id) FROM staging.raw.t) - (SELECT max(t.id) FROM raw.t AT (VERSION => 3)) AS d", [(2,)]),
        ("FROM staging.raw.t SELECT t.id UNION ALL SELECT id FROM raw.t", [(1,), (2,), (2,), (3,)]),
        ("WITH t AS (SELECT id FROM staging.raw.t) SELECT id FROM t", [(2,), (3,)]),
        ("WITH lakeconf_table_0 AS (SELECT 9 AS id) SELECT t.id FROM staging.raw.t", [(2,), (3,)]),
        ("SELECT 'staging.raw.t' AS text -- staging.raw.t", [("staging.raw.t",)]),
    ],
)
def test_tables_of_another_lake_have_its_name(query: str, expected: list[Any], lakes: tuple[Lake, Lake]) -> None:
    dev, staging = lakes
    assert rows(dev.sql(query, lakes=[staging])) == expected


def test_a_timestamp_names_a_snapshot_of_its_own_lake(lakes: tuple[Lake, Lake]) -> None:
    dev, staging = lakes
    time = staging.snapshots()[3].time.isoformat()
    query = f"SELECT id FROM staging.raw.t AT (TIMESTAMP => TIMESTAMPTZ '{time}')"
    assert rows(dev.sql(query, lakes=[staging])) == [(2,)]


def test_each_lake_stays_at_its_snapshot(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    dev, staging = lakes
    for store in stores(tmp_path, "dev", "staging").values():
        with store.connect() as connection:
            connection.execute("INSERT INTO raw.t VALUES (7, 'later')")
    query = "SELECT id FROM raw.t UNION ALL SELECT id FROM staging.raw.t"
    frame = dev.sql(query, lakes=[staging])
    assert rows(frame) == [(1,), (2,), (2,), (3,)]
    dev.refresh()
    assert rows(dev.sql(query, lakes=[staging.at(version=3)])) == [(1,), (2,), (2,), (7,)]
    with dev.transaction() as transaction:
        with stores(tmp_path, "dev")["dev"].connect() as connection:
            connection.execute("INSERT INTO raw.t VALUES (8, 'later')")
        assert rows(transaction.sql(query, lakes=[staging.at(version=3)])) == [(1,), (2,), (2,), (7,)]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("FROM prod.raw.t", UnsupportedError, "another database, 'prod'; its lakes are dev, staging"),
        ("FROM staging.raw.missing", TableNotFoundError, "missing"),
        ("FROM staging.raw.t AT (VERSION => 99)", SnapshotNotFoundError, "99"),
        ("FROM staging.raw.t AT (VERSION => 1 + 1)", UnsupportedError, "not a constant"),
        ("FROM staging.t", QueryError, "a table of two lakes"),
        ("FROM raw.t AS a JOIN staging.raw.t AS a USING (id)", QueryError, "uplicate alias"),
        ("SELECT 1; SELECT 2", QueryError, "not a single query"),
        ("DESCRIBE staging.raw.t", QueryError, "other forms, such as DESCRIBE, run in one lake"),
        ("SELECT raw.t.id FROM raw.t, staging.raw.t AS s", QueryError, "the column raw.t.id is named with the schema"),
        ("SELECT id FROM staging.raw.t WHERE staging.raw.t.id > 1", QueryError, "write t.id"),
    ],
)
def test_unclear_names_are_refused(query: str, error: type[Exception], message: str, lakes: tuple[Lake, Lake]) -> None:
    dev, staging = lakes
    with pytest.raises(error) as refused:
        dev.sql(query, lakes=[staging])
    assert message in str(refused.value)


def test_a_schema_with_the_name_of_another_lake_is_named_with_the_own_lake(lakes: tuple[Lake, Lake]) -> None:
    dev, staging = lakes
    dev.create_table("staging.t", {"id": "INTEGER"})
    with pytest.raises(QueryError, match="two lakes") as refused:
        dev.sql("FROM staging.t", lakes=[staging])
    assert refused.value.hint == "write dev.staging.t or staging.main.t"
    assert rows(dev.sql("FROM dev.staging.t", lakes=[staging])) == []


def test_field_of_a_column_looks_like_a_column_with_a_schema(tmp_path: Path) -> None:
    """Spark refuses fields."""
    found = stores(tmp_path, "dev", "staging")
    with found["dev"].open() as dev, found["staging"].open() as staging:
        staging.create_table("raw.t", {"id": "INTEGER"}).append([{"id": 1}])
        dev.create_table("raw.s", {"t": "STRUCT(id INTEGER)"}).append([{"t": {"id": 7}}])
        assert rows(dev.sql("SELECT raw.t.id FROM raw.s AS raw, staging.raw.t", lakes=[staging])) == [(7,)]


def test_views_are_refused(lakes: tuple[Lake, Lake]) -> None:
    """The snapshot at which DuckDB would read their tables is not that of the query."""
    dev, staging = lakes
    dev.create_view("raw.some", "SELECT 1 AS one")
    with pytest.raises(UnsupportedError, match="view"):
        dev.sql("FROM raw.some, staging.raw.t", lakes=[staging])


@pytest.mark.parametrize("source", ["query('FROM raw.t')", "QUERY_TABLE('raw.t')", "query_table(['raw.t'])"])
def test_functions_that_read_the_latest_snapshot_are_refused(source: str, tmp_path: Path) -> None:
    found = stores(tmp_path, "dev", "staging")
    with found["dev"].open() as dev, found["staging"].open() as staging:
        dev.create_table("raw.t", {"id": "INTEGER"})
        with pytest.raises(UnsupportedError, match="reads the latest snapshot"):
            dev.sql(f"FROM {source}", lakes=[staging])


def test_functions_that_change_a_lake_are_refused(tmp_path: Path) -> None:
    found = stores(tmp_path, "dev", "staging")
    with found["dev"].open() as dev, found["staging"].open() as staging:
        for _ in range(2):
            staging.create_table("raw.t", {"id": "INTEGER"}, if_not_exists=True)
            dev.create_table("raw.t", {"id": "INTEGER"}, if_not_exists=True).append([{"id": 1}])
        before = dev.snapshots()
        with pytest.raises(QueryError, match="changes the lake without its locks"):
            dev.sql("SELECT s.id FROM staging.raw.t AS s, ducklake_merge_adjacent_files('dev')", lakes=[staging])
        dev.refresh()
        assert dev.snapshots() == before


def test_the_same_lake_twice_is_refused(lakes: tuple[Lake, Lake]) -> None:
    dev, staging = lakes
    for others in ([dev], [dev.at(version=2)], [staging, staging]):
        with pytest.raises(LakeconfError, match="two lakes of the query have the name"):
            dev.sql("SELECT 1", lakes=others)


def test_a_closed_lake_is_refused(lakes: tuple[Lake, Lake]) -> None:
    dev, staging = lakes
    staging.close()
    with pytest.raises(LakeconfError, match="is closed"):
        dev.sql("FROM staging.raw.t", lakes=[staging])


def test_a_store_that_is_not_open_is_refused(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    store: Any = stores(tmp_path, "staging")["staging"]
    with pytest.raises(LakeconfError, match="not all `lakes` are open lakes"):
        lakes[0].sql("SELECT 1", lakes=[store])


def test_lakes_on_different_engines(tmp_path: Path, spark: SparkSession) -> None:
    found = stores(tmp_path, "dev", "staging")
    query = "SELECT s.id FROM staging.raw.t AS s LEFT JOIN raw.t AS o USING (id)"
    with found["dev"].open() as dev, found["staging"].open(spark) as staging:
        for lake in (dev, staging):
            lake.create_table("raw.t", {"id": "INTEGER"}).append([{"id": 4}])
        assert rows(dev.sql(query, lakes=[staging])) == [(4,)]
        with pytest.raises(UnsupportedError, match="'dev' was opened without Spark"):
            staging.sql("SELECT * FROM dev.raw.t", lakes=[dev], dialect="spark")
        assert rows(staging.sql("FROM dev.raw.t", lakes=[dev])) == [(4,)]


@pytest.fixture
def spark_lakes(tmp_path: Path, spark: SparkSession) -> Iterator[tuple[Lake, Lake]]:
    """The second lake is open on another session of the application."""
    found = stores(tmp_path, "dev", "staging")
    with found["dev"].open(spark) as dev, found["staging"].open(spark.newSession()) as staging:
        for lake, number in ((dev, 1), (staging, 2)):
            lake.create_table("raw.t", {"id": "INTEGER"}).append([{"id": number}])
        yield dev, staging


@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
def test_lakes_on_other_sessions_can_be_joined(dialect: Any, spark_lakes: tuple[Lake, Lake]) -> None:
    dev, staging = spark_lakes
    query = "SELECT s.id FROM raw.t AS o JOIN staging.raw.t AS s ON s.id = o.id + 1"
    assert rows(dev.sql(query, lakes=[staging], dialect=dialect)) == [(2,)]


def test_spark_reads_versions_of_another_lake_in_its_own_sql(spark_lakes: tuple[Lake, Lake]) -> None:
    dev, staging = spark_lakes
    query = "SELECT count(*) FROM staging.raw.t VERSION AS OF 1 s"
    assert rows(dev.sql(query, lakes=[staging], dialect="spark")) == [(0,)]


def test_copied_values_have_the_types_of_their_lake(tmp_path: Path) -> None:
    found = stores(tmp_path, "dev", "staging")
    columns = {"u": "UUID", "h": "HUGEINT", "j": "JSON", "z": "TIMESTAMPTZ", "i": "INTERVAL", "b": "BLOB", "n": NESTED}
    with found["dev"].open() as dev, found["staging"].open() as staging:
        staging.create_table("t", columns)
        with found["staging"].connect() as connection:
            connection.execute(
                f"INSERT INTO t VALUES ('{UUID}', 5, '[1]', '2024-05-17 10:00:00+02', INTERVAL 3 MONTH, '\\xFF', "
                f"{{u: '{UUID}', l: [{2**64}, NULL], m: MAP {{'a': '{UUID}'}}}}), "
                "(NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
            )
        staging.refresh()
        expected: Any = staging.sql("FROM t ORDER BY u").to_native()
        copied: Any = dev.sql("FROM staging.main.t ORDER BY u", lakes=[staging]).to_native()
        assert list(map(str, copied.types)) == list(map(str, expected.types))
        assert copied.fetchall() == expected.fetchall()
        staging.create_table("bad", {"t": "TIMETZ"})
        with pytest.raises(UnsupportedError, match=r"'t' of staging.main.bad cannot be copied"):
            dev.sql("FROM staging.main.bad", lakes=[staging])


@pytest.mark.parametrize(
    ("wanted", "got", "expected"),
    [
        ("UUID", "VARCHAR", True),
        ("TIMETZ", "TIME", False),
        ("BIT[]", "BLOB[]", False),
        ("UUID[]", "VARCHAR[]", True),
        ("STRUCT(a UUID)", "STRUCT(b VARCHAR)", False),
        ("STRUCT(a BIT)", "STRUCT(a BLOB)", False),
        ("INTEGER", "BIGINT", False),
    ],
)
def test_only_types_that_come_back_are_copied(wanted: str, got: str, *, expected: bool) -> None:
    assert _is_exact(duckdb.sqltype(wanted), duckdb.sqltype(got)) is expected


def test_errors_show_no_secret_of_the_other_lake(tmp_path: Path, s3_server: S3Server) -> None:
    """Here, the path of the files contains the secret, and DuckDB shows the path of a missing file."""
    storage = in_bucket(s3_server)
    other = {**storage, "prefix": f"x{s3_server.keys.secret}x"}
    config = config_of(tmp_path)
    catalog = {"type": "sqlite", "uri": str(tmp_path / "other")}
    config["stores"]["staging"] = {"metadata_backend": catalog, "storage_backend": other}
    store = lakeconf.init(config).get_store
    with store("staging").open() as staging:
        staging.create_table("t", {"id": "INTEGER"}).append([{"id": 1}])
        for key in s3_server.objects(storage["bucket"]):
            if key.endswith(".parquet"):
                s3_server.client().delete_object(Bucket=storage["bucket"], Key=key)
        with store("dev").open() as dev, pytest.raises(LakeconfError) as raised:
            dev.sql("FROM staging.main.t", lakes=[staging])
    shown = "".join(traceback.format_exception(raised.value))
    assert "***" in shown
    assert s3_server.keys.secret not in shown
