"""SQL that others stored in a lake, SQL that does more than read, and hints for tables that do not exist."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from catalog_lake import METADATA, lake
from local_stores import store_of

import lakeconf
from lakeconf.catalog.queries.only_reads import READERS, WRITERS, check_functions, check_only_reads
from lakeconf.catalog.queries.sql_references import find_references
from lakeconf.catalog.queries.stored_queries import SYSTEM_VIEW, StoredQueries, StoredQuery, prepare_query, stored_sql
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import connect, load_extension
from lakeconf.errors import QueryError, SchemaError, SnapshotNotFoundError, UnknownNameError, UnsafeQueryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import AttachedLake
    from servers import PostgresServer


HINT = "replace it, or run it as your own query: SQL stored in a lake may only compute from its tables"


@pytest.fixture
def stored(file_lake: AttachedLake) -> AttachedLake:
    """A lake with the tables `t` and `raw.u`, a view, a scalar macro and a table macro, all of them safe."""
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "CREATE SCHEMA lake.raw", "CREATE TABLE lake.raw.u (a INTEGER)")
    file_lake.run("USE lake", "CREATE VIEW V AS SELECT a FROM t JOIN raw.u USING (a)", "CREATE MACRO f(x) AS x + 1")
    file_lake.run("CREATE MACRO rows_of(n) AS TABLE SELECT * FROM range(n), v", "USE memory")
    return file_lake


def plant(lake: AttachedLake, sql: str, name: str = "V") -> None:
    """Replaces the SQL of the view or of the macro, as an attacker with access to the catalog can."""
    text = sql.replace("'", "''")
    if name == "V":
        lake.run(f"UPDATE {METADATA}.ducklake_view SET sql = '{text}'")
    else:
        macro = f"macro_id = (SELECT macro_id FROM {METADATA}.ducklake_macro WHERE macro_name = '{name}')"
        lake.run(f"UPDATE {METADATA}.ducklake_macro_impl SET sql = '{text}' WHERE {macro}")


def check(lake: AttachedLake, sql: str, snapshot_id: int | None = None) -> None:
    query = find_references(sql)
    assert query is not None
    StoredQueries.load(lake.reader, snapshot_id).check(query)


def refusal(lake: AttachedLake, sql: str) -> str:
    with pytest.raises(UnsafeQueryError) as refused:
        check(lake, sql)
    assert refused.value.hint == HINT
    assert "could use it to read your files or steal your credentials" in refused.value.message
    return refused.value.message.split(": a writer")[0]


def test_stored_sql_is_loaded_without_binding_it(stored: AttachedLake) -> None:
    plant(stored, "FROM nothing_of_this_name")
    found = StoredQueries.load(stored.reader)
    assert {(query.kind, query.name) for query in found.queries} == {
        ("view", "v"),
        ("scalar macro", "f"),
        ("table macro", "rows_of"),
    }
    (view,) = (query for query in found.queries if query.kind == "view")
    assert view == StoredQuery("view", "v", "FROM nothing_of_this_name", 4, None)
    assert set(found.relations) == {("main", "t", 1, None), ("raw", "u", 3, None), ("main", "v", 4, None)}
    assert (found.snapshot_id, found.expressions) == (stored.newest, ())
    assert StoredQueries.load(stored.reader, 2).snapshot_id == 2


def test_safe_view_and_macros_may_be_used(stored: AttachedLake) -> None:
    for sql in (
        "FROM v",
        "SELECT f(1)",
        "FROM rows_of(3)",
        "SELECT f(a) FROM v, rows_of(2)",
        "SELECT 1",
        "SHOW TABLES",
    ):
        check(stored, sql)
    StoredQueries.load(stored.reader).check(None)
    for sql in SAFE:
        plant(stored, sql)
        check(stored, "FROM main.V")


UNSAFE = {
    "FROM read_csv('/etc/passwd')": "calls read_csv()",
    "FROM postgres_scan('host=x', 's', 't')": "calls postgres_scan()",
    "SELECT getenv('PGPASSWORD')": "calls getenv()",
    "SELECT current_setting('x')": "calls current_setting()",
    "SELECT json_serialize_plan('FROM read_csv(''/etc/passwd'')')": "calls json_serialize_plan()",
    "SELECT a FROM t WHERE nextval('s') > 0": "calls nextval()",
    "FROM ducklake_list_files('lake', 't')": "calls ducklake_list_files()",
    "FROM '/etc/passwd.csv'": "reads /etc/passwd.csv, which is not a table of the lake",
    'FROM "https://x/y.parquet"': "reads https://x/y.parquet, which is not a table of the lake",
    "FROM other.main.t": "reads other.main.t, which is not a table of the lake",
    "FROM raw.unknown": "reads raw.unknown, which is not a table of the lake",
    "FROM other.t": "reads other.t, which is not a table of the lake",
    "FROM __ducklake_metadata_lake.ducklake_data_file": "reads __ducklake_metadata_lake.ducklake_data_file, which",
    "FROM unknown": "reads unknown, which is not a table of the lake",
    "FROM pg_settings": "reads pg_settings, which is not a table of the lake",
    "WITH pg_settings AS (SELECT 1) FROM pg_settings": "reads pg_settings, which is not a table of the lake",
    "FROM pg_catalog.pg_settings": "reads pg_catalog.pg_settings, which is not a table of the lake",
    "FROM duckdb_databases": "reads duckdb_databases, which is not a table of the lake",
    "SELECT 1; SELECT 2": "is not a single query that can be checked",
    "SELEC": "is not a single query that can be checked",
    "PIVOT t ON a": "is not a single query that can be checked",
}
SAFE = [
    *("FROM lake.main.t", "FROM LAKE.RAW.U", "FROM raw.u", "FROM main.t", "FROM lake.t", "FROM t", "FROM range(3)"),
    *(
        "WITH w AS (FROM t) FROM w",
        "FROM generate_series(1, 2)",
        "SELECT unnest([1])",
        "FROM information_schema.tables",
    ),
    *("FROM lake.raw.u AT (VERSION => 3)", "FROM table_changes('t', 1, 2)"),
]


def test_all_system_views_are_known() -> None:
    """`information_schema` only describes tables."""
    internal = "SELECT lower(view_name) FROM duckdb_views() WHERE internal AND schema_name <> 'information_schema'"
    assert [name for (name,) in duckdb.sql(internal).fetchall() if not SYSTEM_VIEW.fullmatch(name)] == []


@pytest.mark.slow
def test_unsafe_view_is_refused(stored: AttachedLake) -> None:
    for sql, what in UNSAFE.items():
        plant(stored, sql)
        assert refusal(stored, "FROM v").startswith(f"the view 'v' of the lake {what}")
        check(stored, "FROM t")
    # Macros may use the view, too.
    assert refusal(stored, "SELECT (SELECT count(*) FROM rows_of(1))").startswith("the view 'v'")


def test_view_may_name_the_lake_under_any_alias(stored: AttachedLake) -> None:
    stored.run("CREATE VIEW lake.named AS SELECT a FROM lake.t JOIN lake.raw.u USING (a)")
    ((sql,),) = stored.metadata("SELECT sql FROM ducklake_view WHERE view_name = 'named'")
    assert "{DUCKLAKE_CATALOG}." in sql
    check(stored, "FROM named")
    plant(stored, "SELECT 1 FROM {DUCKLAKE_CATALOG}.unknown")
    assert refusal(stored, "FROM v").endswith("reads lake.unknown, which is not a table of the lake")
    plant(stored, "SELECT 1 FROM {DUCKLAKE_CATALOG}")
    assert refusal(stored, "FROM v").endswith("is not a single query that can be checked")
    plant(stored, "{DUCKLAKE_CATALOG}.f(1)", "f")
    assert refusal(stored, "SELECT f(1)").endswith("is not a single query that can be checked")


def test_word_for_the_lake_in_a_string_cannot_hide_a_function(stored: AttachedLake) -> None:
    for before, after in (("'", "'"), ('"', '"'), ("$$", "$$"), ("/* ", " */ 1")):
        plant(stored, f"SELECT {before}{{DUCKLAKE_CATALOG}}.{after}, getenv('X') FROM t")
        assert refusal(stored, "FROM v") == "the view 'v' of the lake calls getenv()"


def test_view_that_names_a_lake_with_an_odd_alias_is_refused(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path) as plain:
        plain.run("CREATE TABLE lake.t (a INTEGER)", "CREATE VIEW lake.v AS FROM lake.t")
    with connect() as connection:
        load_extension(connection, "ducklake")
        connection.execute(f"ATTACH 'ducklake:{tmp_path}/catalog.duckdb' AS \"odd 'name\"")
        found = StoredQueries.load(CatalogReader(connection, "odd 'name"))
        with pytest.raises(UnsafeQueryError, match="is not a single query that can be checked"):
            found.check(find_references("FROM v"))


def test_unsafe_macro_is_refused(stored: AttachedLake) -> None:
    plant(stored, "getenv('X')", "f")
    assert refusal(stored, "SELECT F(1) FROM t") == "the scalar macro 'f' of the lake calls getenv()"
    check(stored, "FROM v")
    # A query that can reach everything needs all of it safe.
    for sql in ("SHOW ALL TABLES", "FROM duckdb_columns()", "FROM query('FROM v')"):
        assert refusal(stored, sql) == "the scalar macro 'f' of the lake calls getenv()"
    with pytest.raises(UnsafeQueryError):
        StoredQueries.load(stored.reader).check(None)
    plant(stored, "FROM glob('*')", "rows_of")
    assert refusal(stored, "FROM Rows_Of(1)") == "the table macro 'rows_of' of the lake calls glob()"
    # A macro with the name of a function is always checked.
    stored.run(f"UPDATE {METADATA}.ducklake_macro SET macro_name = 'Count_Star' WHERE macro_name = 'f'")
    assert refusal(stored, "SELECT 1") == "the scalar macro 'count_star' of the lake calls getenv()"


def test_removed_view_matters_only_for_past_snapshots(stored: AttachedLake) -> None:
    plant(stored, "SELECT getenv('X')")
    with_view = stored.newest
    stored.run("DROP VIEW lake.v")
    check(stored, "FROM v")
    check(stored, "FROM v", 3)  # before the view
    with pytest.raises(UnsafeQueryError):
        check(stored, "FROM v", with_view)
    assert "'v'" in refusal(stored, "FROM v, t AT (VERSION => 4)")


def test_view_that_reads_the_past_may_reach_removed_views(stored: AttachedLake) -> None:
    plant(stored, "SELECT getenv('X')")
    stored.run("ALTER VIEW lake.v RENAME TO gone", "DROP VIEW lake.gone", "USE lake")
    stored.run("CREATE VIEW again AS SELECT 1 AS a", "USE memory")
    current = f"UPDATE {METADATA}.ducklake_view SET sql = 'FROM t AT (VERSION => 4), v' WHERE view_name = 'again'"
    stored.run(current)
    assert "'v'" in refusal(stored, "FROM again")


def test_views_of_the_snapshot_that_a_query_reads_are_checked(project: Path) -> None:
    """In lakes at an earlier snapshot, too."""
    store = lakeconf.init().get_store()
    with store.connect() as native:
        native.execute("CREATE VIEW v AS SELECT 'x' AS k; CREATE TABLE t (a INT); DROP VIEW v")
    with contextlib.closing(sqlite3.connect(project / "catalog.sqlite")) as catalog, catalog:
        catalog.execute("UPDATE ducklake_view SET sql = 'SELECT getenv(''HOME'') AS k'")
    with store.replace(attach_options={"snapshot_version": 1}).open() as old, store.open() as lake:
        for one in (old, lake.at(version=1)):
            with pytest.raises(UnsafeQueryError, match=r"the view 'v' of the lake calls getenv"):
                one.sql("FROM v")


def test_table_that_was_dropped_is_none_of_the_lake(stored: AttachedLake) -> None:
    stored.run("DROP TABLE lake.raw.u")
    assert refusal(stored, "FROM v") == "the view 'v' of the lake reads raw.u, which is not a table of the lake"
    check(stored, "FROM v", 5)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("ALTER TABLE lake.t SET SORTED BY (a)", "sort key"),
        ("ALTER TABLE lake.t ADD COLUMN n INTEGER DEFAULT 1", "default value"),
    ],
)
def test_expressions_that_writes_evaluate_are_checked(stored: AttachedLake, change: str, kind: str) -> None:
    stored.run(change)
    StoredQueries.load(stored.reader).check_expressions()
    if kind == "sort key":
        stored.run(f"UPDATE {METADATA}.ducklake_sort_expression SET expression = 'getenv(''X'')'")
    else:
        stored.run(
            f"UPDATE {METADATA}.ducklake_column SET default_value = 'getenv(''X'')', "
            "default_value_type = 'expression' WHERE column_name = 'n'"
        )
    with pytest.raises(UnsafeQueryError, match=rf"the {kind} of the table 't' of the lake calls getenv\(\)"):
        StoredQueries.load(stored.reader).check_expressions()
    stored.run("DROP TABLE lake.t")
    StoredQueries.load(stored.reader).check_expressions()


def test_expression_may_use_only_safe_macros(stored: AttachedLake) -> None:
    stored.run("ALTER TABLE lake.t SET SORTED BY (a)")
    stored.run(f"UPDATE {METADATA}.ducklake_sort_expression SET expression = 'f(a)'")
    StoredQueries.load(stored.reader).check_expressions()
    plant(stored, "getenv('X')", "f")
    with pytest.raises(UnsafeQueryError, match="the scalar macro 'f' of the lake calls getenv"):
        StoredQueries.load(stored.reader).check_expressions()


def test_table_without_a_schema_must_be_in_main(stored: AttachedLake) -> None:
    prepare_query(stored.reader, "SELECT * FROM T, raw.u, (WITH u AS (FROM t) FROM u)")
    with pytest.raises(UnknownNameError) as refused:
        prepare_query(stored.reader, "FROM U")
    assert refused.value.message == "the schema main has no table u"
    assert refused.value.hint == "did you mean raw.u?"
    prepare_query(stored.reader, "FROM u", frames=["U"])
    prepare_query(stored.reader, "FROM nowhere")  # DuckDB reports it, or it is a table of the user
    prepare_query(stored.reader, "SELEC")
    # Also a table of the open transaction.
    stored.run("BEGIN", "CREATE TABLE lake.u (a INTEGER)")
    prepare_query(stored.reader, "FROM u")
    stored.run("ROLLBACK")
    with pytest.raises(UnknownNameError):
        prepare_query(stored.reader, "FROM u")


def test_prepared_connection_finds_the_tables_of_every_schema(stored: AttachedLake) -> None:
    with stored.connection.cursor() as runner:
        prepare_query(stored.reader, "FROM raw.u", runner)
        assert runner.rows("SELECT count(*) FROM raw.u, main.t") == [(0,)]
    plant(stored, "SELECT getenv('X')")
    with pytest.raises(UnsafeQueryError):
        prepare_query(stored.reader, "FROM v")
    with pytest.raises(UnsafeQueryError):
        prepare_query(stored.reader, "PIVOT t ON a")


def test_lake_without_stored_sql_permits_every_query(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)")
    StoredQueries.load(file_lake.reader).check(find_references("FROM read_csv('x')"))
    StoredQueries.load(file_lake.reader).check(None)


# The kinds that are found after each statement.
STATEMENTS = {
    "INSERT INTO lake.t VALUES (1, now(), 1)": set[str](),
    "CREATE VIEW lake.v AS SELECT 1 AS a": {"view"},
    "CREATE MACRO lake.m(x) AS x + 1": {"scalar macro"},
    "CREATE MACRO lake.n(x) AS TABLE SELECT x AS a": {"table macro"},
    "ALTER TABLE lake.t SET SORTED BY (a + 1)": {"sort key of the table"},
    "CREATE TABLE lake.u (a TIMESTAMP DEFAULT now())": {"default value of the table"},
}


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_each_kind_of_sql_is_found(kind: str, tmp_path: Path, postgres_server: PostgresServer) -> None:
    expected: set[str] = set()
    with lake(kind, tmp_path, server=postgres_server) as source:
        source.run("CREATE TABLE lake.t (a INTEGER, b TIMESTAMP, c INTEGER DEFAULT 5)")
        for statement, kinds in STATEMENTS.items():
            source.run(statement)
            expected |= kinds
            with source.reader.transaction() as transaction:
                found = stored_sql(transaction, names=False)
                assert {row[0] for row in [*found.views, *found.expressions]} == expected
                assert bool(found.names) == bool(expected)
                named = stored_sql(transaction, names=True)
                assert ("main", "t", 1, None) in named.names
                assert named.newest == found.newest == source.newest


def test_sql_that_ended_is_still_found(tmp_path: Path) -> None:
    """A query may read an earlier snapshot."""
    with lake("sqlite", tmp_path) as source:
        source.run("CREATE VIEW lake.v AS SELECT 1 AS a", "DROP VIEW lake.v")
        with source.reader.transaction() as transaction:
            assert [row[:2] for row in stored_sql(transaction, names=False).views] == [("view", "v")]


def test_value_that_the_catalog_stores_as_another_type_is_not_overlooked(tmp_path: Path) -> None:
    """The bytes of a BLOB may be those of the text: whoever reads them may take it for the text."""
    with lake("sqlite", tmp_path, options=", META_JOURNAL_MODE 'WAL'") as source:
        source.run("CREATE TABLE lake.t (a INTEGER DEFAULT 5)")
        with contextlib.closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as catalog:
            catalog.execute("UPDATE ducklake_column SET default_value_type = CAST('expression' AS BLOB)")
            catalog.commit()
        with pytest.raises(SchemaError, match="default_value_type"), source.reader.transaction() as transaction:
            stored_sql(transaction, names=False)


def test_sql_that_reads_is_accepted() -> None:
    for sql in (
        *("SELECT 'call ducklake_expire_snapshots(1)' AS \"set_option\"", "SELECT 1 -- merge_adjacent_files()"),
        *("SELECT expire_snapshots FROM t", "CALL pragma_version()", "CALL dev.table_info()"),
        *("PIVOT (FROM t) ON a USING count(*)", "DESCRIBE t"),
        *("WITH query(a) AS (SELECT 1) FROM query AS set_option(b)", "FROM ducklake_list_files('dev', 't')"),
    ):
        check_only_reads(sql)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CALL dev.set_option('x', 1)", "CALL set_option() may do more than read"),
        ("/* x */ call ducklake_new('dev')", "CALL ducklake_new() may do more than read"),
        ("CALL enable_logging()", "CALL enable_logging() may do more than read"),
        ("CHECKPOINT", "the SQL is not a single query"),
        ("EXPLAIN SELECT 1", "the SQL is not a single query"),
        ("EXPLAIN ANALYZE FROM dev.set_option('x', 1)", "the SQL is not a single query"),
        ("FROM dev.\"Set_Option\"('x', 1)", "set_option() changes the lake"),
        ("FROM ducklake_new('dev')", "ducklake_new() changes the lake"),
        ("FROM enable_logging(storage = 'file', storage_path = 'x')", "enable_logging() changes the lake"),
        ("FROM postgres_configure_pool(max_connections = 1)", "postgres_configure_pool() changes the lake"),
        ("PIVOT (FROM dev.expire_snapshots()) ON a USING count(*)", "expire_snapshots() changes the lake"),
        ("SELECT (SELECT count(*) FROM sqlite_query('x', 'DELETE FROM t'))", "sqlite_query() changes the lake"),
        ("FROM query('FROM duck' || 'lake_expire_snapshots()')", "query() runs SQL that cannot be checked"),
    ],
)
def test_sql_that_may_write_is_refused(sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=f"^{message.replace('(', r'[(]').replace(')', r'[)]')}"):
        check_only_reads(sql)


def test_every_function_of_ducklake_is_known_to_read_or_to_write(two_tables: lakeconf.Lake) -> None:
    """A new version of the extension may add functions that write."""
    found = two_tables.sql("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name ^@ 'ducklake_'")
    names = {name for (name,) in found.to_native().fetchall()}
    refused = set()
    for name in names:
        try:
            check_functions([name])
        except QueryError:
            refused.add(name.removeprefix("ducklake_"))
    assert refused == WRITERS
    assert not WRITERS & READERS


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakeconf.Lake]:
    with store_of(tmp_path_factory.mktemp("unknown_tables")).open() as lake:
        lake.create_table("raw.Events", {"id": "BIGINT"})
        lake.create_view("raw.sales", "FROM raw.events")
        yield lake


@pytest.mark.parametrize(
    ("name", "meant"),
    [*((name, "raw.Events") for name in ("raw.event", "evnts", "rw.events")), ("raw.sale", "raw.sales")],
)
def test_misspelt_table_has_the_name_of_the_most_similar_one(opened: lakeconf.Lake, name: str, meant: str) -> None:
    frame, hint = [{"id": 1}], f'did you mean "{meant}"?'
    for call in (
        lambda: opened.sql(f"FROM {name}"),
        lambda: opened.sql(f"FROM frame, {name}", frame=frame),
        lambda: opened.execute(f"INSERT INTO raw.events FROM {name}"),
        lambda: opened.create_view("v", f"FROM {name}"),
    ):
        with pytest.raises(UnknownNameError) as refused:
            call()
        assert refused.value.hint == hint
        assert "id you mean" not in refused.value.message
        assert str(refused.value).endswith(hint)


def test_frame_that_was_not_passed_and_variable_of_python_are_no_tables(opened: lakeconf.Lake) -> None:
    df = [{"id": 1}]
    with pytest.raises(UnknownNameError) as refused:
        opened.sql("FROM df")
    assert refused.value.hint == (
        "pass a frame by its name, as in lake.sql(…, name=frame); or use one of the tables: raw.Events, raw.sales"
    )
    found: Any = opened.sql("FROM df", df=df).to_native()
    assert found.fetchall() == [(1,)]
    for query in ("FROM self", "FROM sql", "SELECT * FROM self AS s"):
        with pytest.raises(UnknownNameError, match=r"Table with name (self|sql) does not exist"):
            opened.sql(query)
    with pytest.raises(UnknownNameError, match="Table with name self does not exist"):
        opened.execute("INSERT INTO raw.events FROM self")


def test_empty_lake_needs_a_table(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake, pytest.raises(UnknownNameError) as refused:
        lake.sql("FROM events")
    assert refused.value.hint == "create a table first: lake.create_table(…)"


def test_other_errors_stay_as_they_are_and_a_missing_snapshot_is_named(opened: lakeconf.Lake) -> None:
    with pytest.raises(UnknownNameError, match="Function with name nothing does not exist") as refused:
        opened.sql("SELECT nothing(1)")
    assert refused.value.hint is None
    with pytest.raises(QueryError, match="idd"):
        opened.sql("SELECT idd FROM raw.events")
    for at in ("VERSION => 99", "TIMESTAMP => TIMESTAMPTZ '2001-01-01 00:00:00+00'"):
        with pytest.raises(SnapshotNotFoundError, match="No snapshot found at") as missing:
            opened.sql(f"FROM raw.events AT ({at})")
        assert missing.value.hint == "list the snapshots: lake.snapshots(), or lakeconf snapshots"
