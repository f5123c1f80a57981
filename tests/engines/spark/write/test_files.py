"""Files written by Spark match those of DuckDB: partitions, statistics, fields by name, options of the writer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from lake_parts import data_path_of, session_of
from local_stores import config_of, store_of
from merge_cases import unknown_files
from plain_sql import run_plain
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import lakeconf
from lakeconf.catalog.tables import TableInfo
from lakeconf.engines.spark.write.parquet_options import parquet_options, uses_partition_folders
from lakeconf.engines.spark.write.written_values import in_order
from lakeconf.errors import SchemaError, UnsupportedError
from lakeconf.inspection.verify import verify
from lakeconf.sql import exact_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import AttachedLake
    from pyspark.sql import SparkSession

    from lakeconf import Lake
    from lakeconf.connection.connection import Connection

_SPARK_SQL = "org.apache.spark.sql.execution"


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    storage = {"type": "local", "path": str(tmp_path / "env=prod" / "data")}
    return dict(config_of(tmp_path, storage=storage)["stores"]["dev"])


@pytest.fixture
def lake(config: dict[str, Any], spark: SparkSession) -> Iterator[Lake]:
    with lakeconf.init({"stores": {"dev": config}}).get_store("dev").open(spark) as lake:
        yield lake


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    """The rows that plain DuckDB reads; NaN as text, because it does not equal itself."""
    native: Any = lake.sql(query).to_native()
    found = [tuple("nan" if value != value else value for value in row) for row in native.fetchall()]
    return sorted(found, key=repr)


def values(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """The partition values of a table's files, which DuckLake uses for pruning."""
    catalog = "__ducklake_metadata_dev.ducklake"
    return rows(
        lake,
        f"SELECT DISTINCT partition_key_index, partition_value FROM {catalog}_file_partition_value "
        f"JOIN {catalog}_table USING (table_id) WHERE table_name = '{table}'",
    )


@pytest.mark.slow
def test_folders_above_the_lake_do_not_become_columns(lake: Lake) -> None:
    lake.create_table("t", {"env": "VARCHAR"})
    lake.table("t").append(lake.sql("SELECT 'mine' AS env").collect("pyarrow"))
    lake.create_table("p", {"env": "VARCHAR", "n": "INTEGER"}, partitioned_by=["n"])
    lake.table("p").append(lake.sql("SELECT 'mine' AS env, 1 AS n").collect("pyarrow"))
    assert rows(lake, "FROM t") == [("mine",)]
    assert rows(lake, "FROM p") == [("mine", 1)]
    assert lake.table("p").scan().collect("pyarrow").rows() == [("mine", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("codec", "written"), [("uncompressed", "UNCOMPRESSED"), ("lz4", "LZ4"), (None, "ZSTD")])
def test_compression_follows_the_setting_of_the_lake(
    lake: Lake, tmp_path: Path, codec: str | None, written: str
) -> None:
    lake.create_table("s.t", {"id": "BIGINT"})
    if codec is not None:
        run_plain(lake, f"CALL dev.set_option('parquet_compression', '{codec}')")
    lake.table("s.t").append(lake.sql("SELECT range AS id FROM range(10)").collect("pyarrow"))
    (path,) = [path for path in tmp_path.rglob("part-*.parquet") if pq.read_metadata(path).num_rows][:1]
    assert pq.read_metadata(path).row_group(0).column(0).compression == written
    assert len(rows(lake, "FROM s.t")) == 10


@pytest.mark.slow
def test_reading_files_with_an_unsupported_codec_raises_an_error(
    lake: Lake, config: dict[str, Any], spark: SparkSession
) -> None:
    """Only DuckDB writes such files; verify and writes that read them fail with a hint."""
    lake.create_table("t", {"id": "BIGINT"})
    run_plain(lake, "CALL dev.set_option('parquet_compression', 'brotli')")
    run_plain(lake, "INSERT INTO dev.t SELECT range AS id FROM range(1000)")
    run_plain(lake, "CALL dev.set_option('parquet_compression', 'zstd')")
    lake.create_table("copy", {"id": "BIGINT"})
    with lakeconf.init({"stores": {"dev": config}}).get_store("dev").open(spark) as now:
        with pytest.raises(UnsupportedError, match=r"/t/\S+\.parquet: it is compressed with BROTLI"):
            verify(now, "t")
        with pytest.raises(UnsupportedError, match=r"/t/\S+\.parquet: it is compressed with BROTLI"):
            now.table("copy").append(now.table("t").scan())


@pytest.mark.slow
def test_encrypted_lake_is_not_written_unencrypted(config: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    store = lakeconf.init({"stores": {"dev": {**config, "attach_options": {"encrypted": True}}}}).get_store("dev")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(lake.sql("SELECT 1::BIGINT AS id"))
    before = sorted(tmp_path.rglob("*.parquet"))
    with store.open(spark) as lake:
        for write in (lambda frame: lake.table("t").append(frame), lambda frame: lake.table("t").merge(frame, on="id")):
            with pytest.raises(UnsupportedError, match="would write them unencrypted"):
                write(spark.range(3))
        assert sorted(lake.table("t").scan().collect("pyarrow").rows()) == [(1,)]
    assert sorted(tmp_path.rglob("*.parquet")) == before


@pytest.mark.slow
def test_column_statistics_match_the_data(lake: Lake) -> None:
    long = "lpad('', 300, 'é')"
    query = f"""SELECT i::BIGINT AS id, CASE WHEN i = 3 THEN NULL ELSE {long} || i END AS text,
        CASE WHEN i = 2 THEN 'nan'::DOUBLE ELSE i / 3 END AS f, i::DECIMAL(10, 2) AS d, {{'a': i::INTEGER}} AS s,
        [i::INTEGER] AS l, DATE '2024-01-01' + i::INTEGER AS day FROM range(5) r(i)"""
    frame = lake.sql(query).collect("pyarrow")
    lake.create_table("t", frame)
    lake.table("t").append(frame)
    for condition in (
        "f > 100",
        "f = 'nan'",
        "text IS NULL",
        f"text > {long}",
        "s.a = 4",
        "list_contains(l, 4)",
        "d = 2",
    ):
        assert rows(lake, f"FROM t WHERE {condition}") == rows(lake, f"FROM ({query}) WHERE {condition}"), condition
    for aggregate in ("count(text)", "min(id)", "max(id)", "min(day)", "max(text)", "max(f)", "count(*)"):
        assert rows(lake, f"SELECT {aggregate} FROM t") == rows(lake, f"SELECT {aggregate} FROM ({query})"), aggregate


def test_null_in_a_required_partition_column_is_rejected(lake: Lake) -> None:
    lake.create_table("t", {"id": "BIGINT", "kind": "VARCHAR NOT NULL"}, partitioned_by=["kind"])
    with pytest.raises(SchemaError, match="NOT NULL"):
        lake.table("t").append(lake.sql("SELECT 1::BIGINT AS id, NULL::VARCHAR AS kind").collect("pyarrow"))


@pytest.mark.slow
@pytest.mark.parametrize("has_rows", [False, True], ids=["empty", "with rows"])
def test_file_sizes_are_near_the_target_file_size(lake: Lake, spark: SparkSession, *, has_rows: bool) -> None:
    run_plain(lake, "CALL dev.set_option('target_file_size', '200KB')")
    # Texts that compress poorly, and are longer than Spark estimates.
    frame = spark.range(0, 8000, 1, 1).selectExpr("id", "sha2(CAST(id AS STRING), 512) AS text")
    table = lake.create_table("s.t", frame)
    if has_rows:
        table.append(frame.limit(2000))
    before = {file.path for file in table.files()}
    table.append(frame)
    files = sorted((file for file in table.files() if file.path not in before), key=lambda file: file.bytes)
    assert sum(file.rows for file in files) == 8000
    # A single task wrote all of them: no rows were shuffled.
    whole = [file.bytes for file in files[1:]]
    assert whole
    assert max(whole) < (1.1 if has_rows else 4) * 200_000
    assert min(whole) > 0.5 * 200_000


COMMITTERS = {
    "spark.sql.sources.commitProtocolClass": f"{_SPARK_SQL}.streaming.ManifestFileCommitProtocol",
    "spark.sql.streaming.commitProtocolClass": f"{_SPARK_SQL}.datasources.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
    "parquet.summary.metadata.level": "ALL",
}


def test_settings_of_other_committers_do_not_matter(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", {"id": "BIGINT"})
    try:
        for key, value in COMMITTERS.items():
            spark.conf.set(key, value)
        table.append(spark.range(0, 10, 1, 2))
    finally:
        for key in COMMITTERS:
            spark.conf.unset(key)
    assert rows(lake, "SELECT id FROM t") == [(number,) for number in range(10)]
    assert all(path.suffix == ".parquet" for path in Path(data_path_of(lake), "main").rglob("*.*"))


@pytest.mark.slow
def test_files_have_bounds_whatever_the_settings_are(lake: Lake, spark: SparkSession) -> None:
    """Without them, DuckDB would skip rows after the next insert."""
    name = "parquet.column.statistics.enabled"
    session = spark.newSession()
    for key in (name, f"{name}#id", f"spark.hadoop.{name}#s.n", f"{name}#l.list.element"):
        session.conf.set(key, "false")
    for key in ("parquet.bloom.filter.enabled", "parquet.bloom.filter.enabled#id"):
        session.conf.set(key, "true")
    table = lake.create_table("t", {"id": "BIGINT", "s": "STRUCT(n BIGINT)", "l": "BIGINT[]"})
    table.append(session.sql("SELECT id, named_struct('n', id) AS s, array(id) AS l FROM range(9)"), engine="spark")
    run_plain(lake, "INSERT INTO dev.t VALUES (100, {n: 100}, [100])")
    paths = map(str, Path(data_path_of(lake), "main").rglob("lakeconf-*/*.parquet"))
    where = "stats_min_value IS NULL OR bloom_filter_offset IS NOT NULL"
    unbounded = f"FROM parquet_metadata({exact_paths(paths)}) WHERE {where}"
    assert rows(lake, f"SELECT count(*) {unbounded}") == [(0,)]
    with session_of(lake).writer.cursor() as plain:
        assert plain.rows("SELECT count(*) FROM dev.t WHERE id = 3 AND s.n < 5") == [(1,)]


def test_no_file_without_rows_is_left(tmp_path: Path, spark: SparkSession) -> None:
    """Spark's first task writes a file even if it has no rows."""
    with store_of(tmp_path).open(spark) as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(spark.range(0, 10, 1, 2).where("id >= 5"))
        assert lake.table("t").count() == 5
        assert unknown_files(lake, tmp_path) == []
        assert len([*(tmp_path / "data").rglob("*.parquet")]) == 1


GIVEN = "named_struct('b', 1, 'a', 2)"
WANTED = "named_struct('a', 2, 'b', 1)"
VALUES = [
    *("{}", "named_struct('c', {}, 'd', 3)", "array({}, NULL)", "array(array({}))", "map({}, 1)"),
    *("map('k', {}, 'n', NULL)", "map({0}, array({0}))", "named_struct('l', array(map('k', {})))"),
]


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
def test_fields_get_the_wanted_order_at_any_depth(spark: SparkSession, value: str) -> None:
    wanted = spark.sql(f"SELECT {value.format(WANTED)} AS x UNION ALL SELECT NULL")
    given = spark.sql(f"SELECT {value.format(GIVEN)} AS x UNION ALL SELECT NULL")
    types = given.schema["x"].dataType, wanted.schema["x"].dataType
    found = given.select(in_order(F.col("x"), *types).alias("x"))
    assert found.schema["x"].dataType.simpleString() == types[1].simpleString()
    assert found.collect() == wanted.collect()


@pytest.mark.slow
@pytest.mark.parametrize("session", ["spark", "connect"])
def test_fields_are_written_by_name(request: pytest.FixtureRequest, store: lakeconf.Store, session: str) -> None:
    def frame(key: int) -> Any:
        return used.sql(f"SELECT {key}L AS id, {GIVEN} AS x, array({GIVEN}) AS l")

    used = request.getfixturevalue(session)
    with store.open(used) as lake:
        pair = "STRUCT(a INTEGER, b INTEGER)"
        table = lake.create_table("t", {"id": "BIGINT", "x": pair, "l": f"{pair}[]"})
        table.append(frame(1))
        table.append(frame(2).toArrow())
        table.merge(frame(2).unionAll(frame(3)), on="id")
        table.overwrite(frame(4), where="id = 4")
        found = lake.sql("SELECT x::VARCHAR AS x, l::VARCHAR AS l FROM t").collect("pyarrow")
    assert set(found.rows()) == {("{'a': 2, 'b': 1}", "[{'a': 2, 'b': 1}]")}
    assert len(found) == 4


USUAL = ("compression", "maxRecordsPerFile")
TABLE = TableInfo(2, "s", "t", (), "/data/s/t/")


@pytest.fixture
def writer(inlining_lake: AttachedLake) -> Iterator[Connection]:
    """A connection whose default database is the lake."""
    inlining_lake.run("CREATE SCHEMA lake.s", "CREATE TABLE lake.s.t (a INTEGER)", "CREATE TABLE lake.s.u (a INTEGER)")
    inlining_lake.run("CREATE SCHEMA lake.r", "CREATE TABLE lake.r.t (a INTEGER)")
    with inlining_lake.connection.cursor() as cursor:
        cursor.execute("USE lake")
        yield cursor


def set_option(writer: Connection, name: str, value: object, place: str = "") -> None:
    writer.execute(f"CALL lake.set_option('{name}', '{value}'{place})")


def codec(writer: Connection, table: TableInfo = TABLE) -> str:
    return parquet_options(writer, table, 8)["compression"]


def rows_per_file(writer: Connection, size: str, row_width: int = 1) -> int:
    set_option(writer, "target_file_size", size)
    return int(parquet_options(writer, TABLE, row_width)["maxRecordsPerFile"])


def test_option_of_a_table_overrides_that_of_its_schema_and_of_the_lake(writer: Connection) -> None:
    set_option(writer, "parquet_compression", "gzip", ", schema => 's', table_name => 't'")
    set_option(writer, "parquet_compression", "snappy", ", schema => 's'")
    set_option(writer, "parquet_compression", "uncompressed")
    places = {("s", "t"): "gzip", ("s", "u"): "snappy", ("r", "t"): "none"}
    found = {(schema, name): codec(writer, TableInfo(1, schema, name, (), "/d/")) for schema, name in places}
    assert found == places


def test_codec_that_spark_cannot_write_is_rejected(writer: Connection) -> None:
    set_option(writer, "parquet_compression", "brotli")
    with pytest.raises(UnsupportedError, match="parquet_compression is 'brotli', which Spark cannot write") as refused:
        parquet_options(writer, TABLE, 8)
    assert "gzip, lz4, lz4_raw, snappy, uncompressed, zstd" in str(refused.value.hint)


def test_levels_apply_to_codecs_with_levels_and_groups_have_their_size(writer: Connection) -> None:
    set_option(writer, "parquet_row_group_size_bytes", "1MB")
    set_option(writer, "parquet_compression_level", 7)
    names = {"zstd": "parquet.compression.codec.zstd.level", "gzip": "zlib.compress.level"}
    for name, option in names.items():
        set_option(writer, "parquet_compression", name)
        assert parquet_options(writer, TABLE, 512)[option] == "7"
    set_option(writer, "parquet_compression", "snappy")
    options = parquet_options(writer, TABLE, 512)
    assert set(options) == {*USUAL, "parquet.block.size"}
    assert options["parquet.block.size"] == "1000000"


def test_rows_per_file_follow_the_rows_of_the_table(writer: Connection) -> None:
    full = TableInfo(2, "s", "t", (), "/data/s/t/", bytes_per_row=2.5)
    assert parquet_options(writer, full, 1000)["maxRecordsPerFile"] == str(512_000_000 * 2 // 5)
    assert rows_per_file(writer, "1KB", row_width=300) == 3
    assert rows_per_file(writer, "1KB", row_width=3000) == 1


@pytest.mark.parametrize(
    ("text", "size"), [("700B", 700), ("3KB", 3000), ("2MB", 2_000_000), ("1GiB", 1 << 30), ("1TB", 10**12)]
)
def test_sizes_that_the_lake_has(writer: Connection, text: str, size: int) -> None:
    """The extension stores a size as bytes; other programs may have written it as text."""
    assert rows_per_file(writer, text) == size


def test_sizes_that_are_texts_in_the_catalog(inlining_lake: AttachedLake, writer: Connection) -> None:
    sizes = {"1.5 KiB": 1536, " 2 k ": 2000, "2kib": 2048, "3M": 3_000_000, "1MiB": 1 << 20}
    sizes |= {"1G": 10**9, "1TiB": 1 << 40, "10iB": 10}
    set_option(writer, "target_file_size", "1KB")
    for text, size in sizes.items():
        inlining_lake.metadata(f"UPDATE ducklake_metadata SET value = '{text}' WHERE key = 'target_file_size'")
        assert parquet_options(writer, TABLE, 1)["maxRecordsPerFile"] == str(size), text


@pytest.mark.parametrize("text", ["", "big", "10 PB", "-5", "5MB!"])
def test_text_that_is_no_size_is_rejected(inlining_lake: AttachedLake, writer: Connection, text: str) -> None:
    set_option(writer, "target_file_size", "1KB")
    inlining_lake.metadata(f"UPDATE ducklake_metadata SET value = '{text}' WHERE key = 'target_file_size'")
    with pytest.raises(UnsupportedError) as refused:
        parquet_options(writer, TABLE, 8)
    assert refused.value.message == f"the lake's option target_file_size is {text!r}, which is not a size"
    assert refused.value.hint == "use a value such as 512MB"


def test_partition_folders_follow_the_options_of_the_table(writer: Connection) -> None:
    other = TableInfo(3, "s", "u", (), "/data/s/u/")
    assert uses_partition_folders(writer, TABLE)
    set_option(writer, "hive_file_pattern", 0)
    assert not uses_partition_folders(writer, TABLE)
    set_option(writer, "hive_file_pattern", 1, ", schema => 's', table_name => 't'")
    assert uses_partition_folders(writer, TABLE)
    assert not uses_partition_folders(writer, other)


def test_option_of_a_table_with_a_dot_in_its_name(writer: Connection) -> None:
    writer.execute('CREATE SCHEMA lake."a.b"; CREATE TABLE lake."a.b"."c""d" (a INTEGER)')
    table = TableInfo(3, "a.b", 'c"d', (), "/data/x/y/")
    set_option(writer, "hive_file_pattern", 0, ", schema => 'a.b', table_name => 'c\"d'")
    assert not uses_partition_folders(writer, table)
