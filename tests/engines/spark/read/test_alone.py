"""One difficult feature per table: with several, a scan reads the footers, which hides errors."""

from __future__ import annotations

import contextlib
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from catalog_lake import AttachedLake
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from spark_rows import access_to, assert_alike, scan
from strength import PROVE, in_prove

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.connection.connection import connect, load_extension
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.engines.spark.read.column_places import ROW_INDEX, STORED_NAMES
from lakeconf.engines.spark.read.native_scan import read_files
from lakeconf.errors import QueryError, SchemaError, UnsupportedError
from lakeconf.sql import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(
    lake: AttachedLake, select: str, *, table: str = "t", options: str = "", path: str = "elsewhere.parquet"
) -> None:
    """Registers a file that DuckLake did not write; such files are read by name."""
    place = lake.folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    lake.run(f"COPY ({select}) TO '{place}' (FORMAT parquet)")
    lake.run(f"CALL ducklake_add_data_files('lake', '{table}', '{place}'{options})")


def filtered(spark: SparkSession, lake: AttachedLake, where: str, table: str = "t") -> int:
    """The number of rows that Spark finds; checks that DuckDB finds the same number."""
    engine = SparkEngine(spark, lake.reader, lake.reader.connection, {}, access_to(lake))
    count: int = engine.scan(table, lake.newest, None, where).to_native().count()
    ((expected,),) = lake.rows(f"SELECT count(*) FROM (SELECT * FROM lake.{table} LIMIT 100000000) WHERE {where}")
    assert count == expected, where
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["_metadata", "_METADATA", "_tmp_metadata_row_index", "__lakeconf_row", "__lakeconf_file", "__lakeconf_1_a"]
)
def test_column_names_that_spark_or_the_scan_reserves(spark: SparkSession, file_lake: AttachedLake, name: str) -> None:
    for table, by_name in (("written", False), ("registered", True)):
        file_lake.run(f'CREATE TABLE lake.{table} (a INTEGER, "{name}" STRUCT(row_index BIGINT, file_path VARCHAR))')
        rows = f"""SELECT i::INTEGER AS a, {{'row_index': 99 - i, 'file_path': 'x'}} AS "{name}" FROM range(100) r(i)"""
        if by_name:
            register(file_lake, rows, table=table, path=f"{table}.parquet")
        else:
            file_lake.run(f"INSERT INTO lake.{table} {rows}")
        file_lake.run(f"DELETE FROM lake.{table} WHERE a < 10")
        assert_alike(spark, file_lake, table, newest=1, row_ids=False)
        if hasattr(spark, "sparkContext"):  # scans over Spark Connect have no ids of rows
            with pytest.raises(UnsupportedError, match="ids of rows"):
                scan(spark, file_lake, table, row_ids=True)


@pytest.mark.slow
@pytest.mark.parametrize("names", [("\u0130", "\u0131"), ("K", "\u212a")])
def test_column_names_that_java_takes_for_the_same(
    spark: SparkSession, file_lake: AttachedLake, names: tuple[str, str]
) -> None:
    one, other = names
    file_lake.run(f'CREATE TABLE lake.t (a INTEGER, "{one}" VARCHAR, "{other}" VARCHAR)')
    file_lake.run("INSERT INTO lake.t SELECT i, 'one' || i, 'other' || i FROM range(100) r(i)")
    assert_alike(spark, file_lake, "t", newest=1, row_ids=False)
    file_lake.run("DELETE FROM lake.t WHERE a < 10")
    assert_alike(spark, file_lake, "t", newest=1, row_ids=False)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["drop all", "add to a nested struct"])
def test_structs_whose_file_has_none_of_the_selected_fields(
    spark: SparkSession, file_lake: AttachedLake, change: str
) -> None:
    if change == "drop all":
        file_lake.run("CREATE TABLE lake.t (s STRUCT(x INTEGER))")
        file_lake.run("INSERT INTO lake.t VALUES ({'x': 1}), (NULL), ({'x': NULL})")
        file_lake.run("ALTER TABLE lake.t ADD COLUMN s.y INTEGER", "ALTER TABLE lake.t DROP COLUMN s.x")
    else:
        file_lake.run("CREATE TABLE lake.t (s STRUCT(r STRUCT(x INTEGER)))")
        file_lake.run("INSERT INTO lake.t VALUES ({'r': {'x': 1}}), (NULL), ({'r': NULL}), ({'r': {'x': NULL}})")
        file_lake.run("ALTER TABLE lake.t ADD COLUMN s.r.y INTEGER")
    spark.conf.set("spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing", "true")
    try:
        assert_alike(spark, file_lake, "t", newest=1)
        field = "s.y" if change == "drop all" else "s.r.y"
        parent = field.rpartition(".")[0]
        found = scan(spark, file_lake, "t").where(f"{parent} IS NOT NULL").select(field).count()
        assert found == file_lake.rows(f"SELECT count(*) FROM lake.t WHERE {parent} IS NOT NULL")[0][0]
    finally:
        spark.conf.unset("spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing")


@pytest.mark.slow
def test_dates_before_the_gregorian_calendar_in_a_condition(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.d (d DATE)", "CREATE TABLE lake.m (m TIMESTAMPTZ)")
    file_lake.run("INSERT INTO lake.d SELECT DATE '1582-09-25' + i::INTEGER FROM range(40) r(i)")
    file_lake.run(
        "INSERT INTO lake.m SELECT TIMESTAMPTZ '1582-09-25 00:00:00+00' + to_days(i::INTEGER) FROM range(40) r(i)"
    )
    days = ("1582-10-04", "1582-10-05", "1582-10-10", "1582-10-14", "1582-10-15", "1582-10-20")
    for day, operator in list(product(days, ("=", "<", ">=", "!=")))[:: 1 if PROVE else 3]:
        filtered(spark, file_lake, f"d {operator} DATE '{day}'", "d")
        filtered(spark, file_lake, f"m {operator} TIMESTAMPTZ '{day} 00:00:00+00'", "m")
    assert filtered(spark, file_lake, "d IN (DATE '1582-10-10', DATE '1582-10-20')", "d") == 2
    assert filtered(spark, file_lake, "d BETWEEN DATE '0001-01-01' AND DATE '1582-10-10'", "d") == 16


@pytest.mark.slow
def test_timestamps_in_milliseconds_in_a_condition(spark: SparkSession, file_lake: AttachedLake) -> None:
    """Spark rounds the value of a filter down to milliseconds before it compares it with statistics."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
    try:
        moments = spark.sql("SELECT timestamp '2026-01-01 00:00:00.001Z' AS m FROM range(10)")
        moments.coalesce(1).write.parquet(str(file_lake.folder / "millis"))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    file_lake.run("CREATE TABLE lake.t (m TIMESTAMPTZ)")
    file_lake.run(f"CALL ducklake_add_data_files('lake', 't', '{file_lake.folder}/millis/*.parquet')")
    assert_alike(spark, file_lake, "t", newest=1)
    assert filtered(spark, file_lake, "m < TIMESTAMPTZ '2026-01-01 00:00:00.001001+00'") == 10
    assert filtered(spark, file_lake, "m = TIMESTAMPTZ '2026-01-01 00:00:00.001+00'") == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_name", "by_name"), [("FLOAT", False), ("DOUBLE", True), *in_prove([("FLOAT", True), ("DOUBLE", False)])]
)
def test_condition_treats_negative_zero_as_zero(
    spark: SparkSession, file_lake: AttachedLake, type_name: str, by_name: bool
) -> None:
    file_lake.run(f"CREATE TABLE lake.t (f {type_name}, s STRUCT(f {type_name}))")
    rows = f"SELECT '-0.0'::{type_name} AS f, {{'f': '-0.0'::{type_name}}} AS s FROM range(500)"
    if by_name:
        register(file_lake, rows)
    else:
        file_lake.run(f"INSERT INTO lake.t {rows}")
    for where in ("f = 0", "f >= 0", "f IN (0, 1)"):
        assert filtered(spark, file_lake, where) == 500
    frame = scan(spark, file_lake, "t")
    for name in ("f", "s.f"):
        for condition in (F.col(name) == 0.0, F.col(name).isin(0.0, 1.0), F.col(name) >= 0.0):
            assert frame.where(condition).count() == 500
    assert_alike(spark, file_lake, "t", newest=1)


@pytest.mark.slow
def test_condition_on_a_decimal_promoted_to_double(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (d DECIMAL(38, 10))")
    file_lake.run("INSERT INTO lake.t VALUES (1234567890123456789.5432109876), (9007199254740993.0000000001), (0.1)")
    file_lake.run("ALTER TABLE lake.t ALTER d TYPE DOUBLE")
    values = [value for (value,) in file_lake.rows("SELECT d FROM lake.t")]
    for value in values:
        assert filtered(spark, file_lake, f"d = {value:.20e}") >= 1
    for number in range(40):
        file_lake.run(f"CREATE OR REPLACE TABLE lake.u (d DECIMAL(28, {number % 11}))")
        text = f"{(number * 7919 + 1) * 9007199254740993 % 10**17}.{number * 104729 % 10 ** (number % 11):d}"
        file_lake.run(f"INSERT INTO lake.u VALUES ({text})", "ALTER TABLE lake.u ALTER d TYPE DOUBLE")
        ((value,),) = file_lake.rows("SELECT d FROM lake.u")
        plan = plan_scan(file_lake.reader, "u", file_lake.newest, None, f"d = {value:.20e}")
        assert len(plan.files) == 1, text


DEFAULTS = {
    "BLOB": "'\\xAA\\x00b'",
    "DECIMAL(38,10)": "'-1234567890123456789.5'",
    "UBIGINT": "18446744073709551615",
    "VARCHAR": "'it''s \\\"\\\\n ü'",
    "DATE": "'0044-03-15 (BC)'",
    "TIMESTAMP": "'0044-03-15 (BC) 12:34:56.123456'",
    "TIMESTAMPTZ": "'0044-03-15 (BC) 12:34:56.123456+00'",
}
ENDLESS = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")


@pytest.mark.slow
def test_initial_default_of_each_difficult_type(spark: SparkSession, file_lake: AttachedLake) -> None:
    cases = [*DEFAULTS.items(), *((kind, "'-infinity'") for kind in ENDLESS)]
    expected = "SELECT c::VARCHAR FROM lake.t"
    for number, (type_name, default) in enumerate(cases):
        file_lake.run(f"CREATE TABLE lake.t{number} (i INTEGER)", f"INSERT INTO lake.t{number} VALUES (1)")
        file_lake.run(f"ALTER TABLE lake.t{number} ADD COLUMN c {type_name} DEFAULT {default}")
        assert texts(spark, file_lake, f"t{number}") == file_lake.rows(f"{expected}{number}"), type_name


def texts(spark: SparkSession, lake: AttachedLake, table: str) -> list[tuple[str | None]]:
    """The values of column `c` that Spark reads, converted to text by DuckDB."""
    with lake.reader.lake_cursor() as cursor:
        cursor.native.register("by_spark", scan(spark, lake, table, columns=["c"]).toArrow())
        return sorted(cursor.rows("SELECT c::VARCHAR FROM by_spark"), key=str)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["file_lake", "inlining_lake"])
def test_infinity_in_files_and_in_the_catalog(spark: SparkSession, place: str, request: pytest.FixtureRequest) -> None:
    lake: AttachedLake = request.getfixturevalue(place)
    for type_name in ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        other = "1969-12-31" if type_name == "TIMESTAMP_NS" else "0044-03-15 (BC)"
        lake.run(f"CREATE TABLE lake.{type_name} (c {type_name})")
        lake.run(f"INSERT INTO lake.{type_name} VALUES ('infinity'), ('-infinity'), ('{other}'), (NULL)")
        assert texts(spark, lake, type_name) == sorted(lake.rows(f"SELECT c::VARCHAR FROM lake.{type_name}"), key=str)


@pytest.mark.slow
def test_hive_partition_values_in_paths(spark: SparkSession, file_lake: AttachedLake) -> None:
    folders = [
        *("p=NULL", "p=null", "p=", "p=1", "p=1/p=2", "p=1/P=2", "P=1/p=2", "p=%4EULL", "p=a%2Fb", "p=%20"),
        "p=3/p=a=b",
    ]
    folders.append("p=2026-01-01 12%3A34%3A56")
    for type_name in ("VARCHAR", "JSON", "INTEGER", "TIMESTAMP", "DATE"):
        file_lake.run(f"CREATE TABLE lake.{type_name} (a INTEGER, p {type_name})")
        for number, folder in enumerate(folders):
            place = file_lake.folder / type_name / str(number) / folder
            place.mkdir(parents=True)
            file_lake.run(f"COPY (SELECT {number} AS a) TO '{place}/f.parquet' (FORMAT parquet)")
            added = f"'lake', '{type_name}', '{place}/f.parquet', hive_partitioning => true"
            # Not every text is a valid value of the type.
            with contextlib.suppress(QueryError):
                file_lake.run(f"CALL ducklake_add_data_files({added})")
        assert_alike(spark, file_lake, type_name, newest=1)


@pytest.mark.slow
def test_file_without_field_ids_is_rejected(spark: SparkSession, file_lake: AttachedLake) -> None:
    """Lakes from before DuckLake 0.2 have such files. After a promotion, all values of the column were NULL."""
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    ((path,),) = file_lake.rows("SELECT data_file FROM ducklake_list_files('lake', 't')")
    file_lake.run(f"CREATE TEMP TABLE rows AS FROM '{path}'", f"COPY rows TO '{path}' (FORMAT parquet)")
    size = Path(path).stat().st_size
    file_lake.run(
        f"UPDATE __ducklake_metadata_lake.ducklake_data_file SET file_size_bytes = {size}, footer_size = NULL"
    )
    with pytest.raises(Exception, match="field Ids"):
        scan(spark, file_lake, "t").collect()
    file_lake.run("ALTER TABLE lake.t ALTER a TYPE BIGINT")
    with pytest.raises(UnsupportedError, match="has no field ids"):
        scan(spark, file_lake, "t")


@pytest.mark.slow
def test_registered_file_without_its_name_mapping_is_rejected(spark: SparkSession, file_lake: AttachedLake) -> None:
    """DuckLake's test `delete_legacy_missing_mapping_after_rename_add_files`: DuckDB reads such files by position."""
    file_lake.run("CREATE TABLE lake.t (old INTEGER, v VARCHAR)", "INSERT INTO lake.t VALUES (1, 'a')")
    register(file_lake, "SELECT 42 AS old, 'x' AS v")
    for change in ("SELECT 1", "ALTER TABLE lake.t RENAME old TO id"):
        file_lake.run(change)
        file_lake.run("UPDATE __ducklake_metadata_lake.ducklake_data_file SET mapping_id = NULL")
        with pytest.raises(UnsupportedError, match=r"elsewhere\.parquet has no field ids"):
            scan(spark, file_lake, "t")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*STORED_NAMES, STORED_NAMES[0].upper(), ROW_INDEX])
def test_column_with_the_name_of_one_that_files_have_besides(
    name: str, spark: SparkSession, file_lake: AttachedLake
) -> None:
    """DuckLake writes the ids of updated rows to a column of the same name."""
    file_lake.run(f'CREATE TABLE lake.t (id INTEGER, "{name}" INTEGER)')
    file_lake.run(
        "INSERT INTO lake.t SELECT i, 10 * i FROM range(20) AS r(i)", "UPDATE lake.t SET id = -id WHERE id < 10"
    )
    file_lake.run("DELETE FROM lake.t WHERE id = 15", "CALL ducklake_merge_adjacent_files('lake')")
    expected = sorted(file_lake.rows("SELECT * FROM lake.t"))
    assert sorted(map(tuple, scan(spark, file_lake, "t").collect())) == expected
    assert sorted(row[0] for row in scan(spark, file_lake, "t", columns=["id"]).collect()) == [
        row[0] for row in expected
    ]
    with pytest.raises(UnsupportedError, match="has a name that lakeconf reserves"):
        scan(spark, file_lake, "t", row_ids=True)


@pytest.mark.slow
def test_names_that_differ_only_in_the_case_of_non_ascii_letters(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run('CREATE TABLE lake.t ("Ä" INTEGER, "ä" INTEGER, A INTEGER)', "INSERT INTO lake.t VALUES (1, 2, 3)")
    file_lake.run('CREATE TABLE lake."Ü" AS SELECT 1 AS a', 'CREATE TABLE lake."ü" AS SELECT 2 AS a')
    for columns, row in ((["Ä"], (1,)), (["ä"], (2,)), (["a", "ä", "Ä"], (3, 2, 1))):
        assert [tuple(found) for found in scan(spark, file_lake, "t", columns=columns).collect()] == [row]
    assert [scan(spark, file_lake, name).collect()[0][0] for name in ("Ü", "ü")] == [1, 2]
    assert filtered(spark, file_lake, '"ä" = 2 AND "Ä" = 1') == 1
    checked = SparkEngine(spark, file_lake.reader, file_lake.reader.connection, {}, access_to(file_lake)).check(
        "t", file_lake.newest
    )
    assert all(column.equal for column in checked.columns)
    register(file_lake, 'SELECT 4 AS "Ä", 5 AS "ä", 6 AS "A"')
    assert_alike(spark, file_lake, "t", newest=1)
    with pytest.raises(SchemaError, match="selected twice"):
        scan(spark, file_lake, "t", columns=["a", "A"])


@pytest.mark.slow
def test_large_numbers_in_a_condition(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (u UBIGINT, h HUGEINT, d DECIMAL(38, 0))")
    file_lake.run(f"INSERT INTO lake.t VALUES (18446744073709551615, 1{'0' * 30}, {'9' * 38}), (1, 1, 1)")
    assert filtered(spark, file_lake, "u = 18446744073709551615") == 1
    assert filtered(spark, file_lake, "u IN (18446744073709551614, 18446744073709551615)") == 1
    assert filtered(spark, file_lake, f"d = {'9' * 38}") == 1
    assert filtered(spark, file_lake, "h > 9223372036854775808") == 1
    with pytest.raises(UnsupportedError, match="38 digits"):
        filtered(spark, file_lake, f"h < 1{'0' * 38}")


@pytest.mark.slow
def test_column_named_like_the_row_number_of_duckdb(spark: SparkSession, file_lake: AttachedLake) -> None:
    """DuckDB reads files with a column `_metadata`; here a column has the name of its row numbers."""
    for table, name in (("small", "file_row_number"), ("large", "FILE_ROW_NUMBER")):
        file_lake.run(f"CREATE TABLE lake.{table} (_metadata INTEGER, {name} INTEGER)")
        rows = f"SELECT i::INTEGER AS _metadata, (99 - i)::INTEGER AS {name} FROM range(100) r(i)"
        register(file_lake, rows, table=table, path=f"{table}.parquet")
        file_lake.run(f"DELETE FROM lake.{table} WHERE _metadata < 10")
        assert_alike(spark, file_lake, table, newest=1, row_ids=False)


def test_map_keys_that_become_equal_after_a_promotion(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (m MAP(BIGINT, INTEGER))")
    file_lake.run("INSERT INTO lake.t VALUES (MAP {9007199254740993: 1, 9007199254740992: 2}), (NULL), (MAP {})")
    file_lake.run("ALTER TABLE lake.t ALTER m TYPE MAP(DOUBLE, INTEGER)")
    rows = scan(spark, file_lake, "t").selectExpr("map_keys(m)", "map_values(m)").collect()
    both = [9007199254740992.0, 9007199254740992.0]
    assert file_lake.rows("SELECT map_keys(m) FROM lake.t") == [(both,), (None,), ([],)]
    assert sorted(map(tuple, rows), key=str) == sorted([(both, [1, 2]), (None, None), ([], [])], key=str)


@pytest.mark.slow
@pytest.mark.parametrize("detour", ["//", "/./", "/sub/../", "/link/../"])
def test_redundant_components_in_local_paths(spark: SparkSession, tmp_path: Path, detour: str) -> None:
    """`link/..` is the parent of the link's target, which Hadoop would resolve differently."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    (tmp_path / "elsewhere" / "data" / "main" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "inner")
    with connect() as connection:
        load_extension(connection, "ducklake")
        place = literal(f"{tmp_path}{detour}data")
        catalog = literal(f"ducklake:{tmp_path}/catalog.duckdb")
        connection.execute(f"ATTACH {catalog} AS lake (DATA_PATH {place}, DATA_INLINING_ROW_LIMIT 0)")
        found = AttachedLake("duckdb", connection, tmp_path)
        found.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(10) r(i)", "DELETE FROM lake.t WHERE a < 3")
        assert_alike(spark, found, "t", newest=1)


def test_inlined_rows_whose_ids_are_hidden_by_a_column(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    inlining_lake.run("CREATE TABLE lake.t (rowid INTEGER)", "INSERT INTO lake.t VALUES (7)")
    assert_alike(spark, inlining_lake, "t", newest=1, row_ids=False)
    if hasattr(spark, "sparkContext"):  # scans over Spark Connect have no ids of rows
        with pytest.raises(UnsupportedError, match="hides their ids"):
            scan(spark, inlining_lake, "t", row_ids=True)


def test_files_with_incompatible_types_are_not_read_together(spark: SparkSession, file_lake: AttachedLake) -> None:
    paths = [str(file_lake.folder / f"{number}.parquet") for number in range(2)]
    for path, value in zip(paths, ("1", "'x'"), strict=True):
        file_lake.run(f"COPY (SELECT {value} AS a) TO '{path}' (FORMAT parquet)")
    assert read_files(spark, paths, {"a": "VARCHAR"}) is None


@pytest.mark.slow
def test_no_file_is_left_out(spark: SparkSession, file_lake: AttachedLake) -> None:
    paths = [str(file_lake.folder / f"{number}.parquet") for number in range(2)]
    for path in paths:
        file_lake.run(f"COPY (SELECT 1 AS a) TO '{path}' (FORMAT parquet)")
    session, types = spark.newSession(), {"a": "INTEGER"}
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    found = read_files(session, paths, types)
    assert found is not None
    assert found.collect() == [(1,), (1,)]
    assert read_files(session, [*paths, paths[0]], types) is None
    Path(paths[1]).unlink()
    with pytest.raises(Exception, match=r"1\.parquet does not exist"):
        found.collect()
