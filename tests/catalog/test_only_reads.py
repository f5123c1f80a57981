"""SQL that does more than read, and hints for tables that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

import lakeconf
from lakeconf.catalog.stored_queries import READERS, WRITERS, check_functions, check_only_reads
from lakeconf.cli.app import run
from lakeconf.errors import QueryError, SnapshotNotFoundError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.mark.parametrize(
    "sql",
    [
        *("SELECT 'call ducklake_expire_snapshots(1)' AS \"set_option\"", "SELECT 1 -- merge_adjacent_files()"),
        *("SELECT expire_snapshots FROM t", "CALL pragma_version()", "CALL dev.table_info()"),
        *("PIVOT (FROM t) ON a USING count(*)", "DESCRIBE t"),
        *("WITH query(a) AS (SELECT 1) FROM query AS set_option(b)", "FROM ducklake_list_files('dev', 't')"),
    ],
)
def test_sql_that_reads_is_accepted(sql: str, two_tables: Lake) -> None:
    check_only_reads(two_tables._session.reader.connection, sql)


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
def test_sql_that_may_write_is_refused(sql: str, message: str, two_tables: Lake) -> None:
    with pytest.raises(QueryError, match=f"^{message.replace('(', r'[(]').replace(')', r'[)]')}"):
        check_only_reads(two_tables._session.reader.connection, sql)


def test_every_function_of_ducklake_is_known_to_read_or_to_write(two_tables: Lake) -> None:
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
    ("name", "hint"),
    [
        ("raw.event", 'did you mean "raw.Events"?'),
        ("evnts", 'did you mean "raw.Events"?'),
        ("rw.events", 'did you mean "raw.Events"?'),
        ("raw.sale", 'did you mean "raw.sales"?'),
    ],
)
def test_misspelt_table_has_the_name_of_the_most_similar_one(opened: lakeconf.Lake, name: str, hint: str) -> None:
    frame = [{"id": 1}]
    for call in (
        lambda: opened.sql(f"FROM {name}"),
        lambda: opened.query(f"FROM frame, {name}", {"frame": frame}),
        lambda: opened.execute(f"INSERT INTO raw.events FROM {name}"),
        lambda: opened.create_view("v", f"FROM {name}"),
    ):
        with pytest.raises(UnknownNameError) as refused:
            call()
        assert refused.value.hint == hint
        assert "id you mean" not in refused.value.message
        assert str(refused.value).endswith(hint)


def test_frame_that_was_not_passed_is_no_table(opened: lakeconf.Lake) -> None:
    df = [{"id": 1}]
    with pytest.raises(UnknownNameError) as refused:
        opened.sql("FROM df")
    assert refused.value.hint == (
        'pass a frame by its name, as in lake.query(…, {"name": frame}); '
        "or use one of the tables: raw.Events, raw.sales"
    )
    found: Any = opened.query("FROM df", {"df": df}).to_native()
    assert found.fetchall() == [(1,)]


def test_variables_of_python_are_no_tables(opened: lakeconf.Lake) -> None:
    for query in ("FROM self", "FROM sql", "SELECT * FROM self AS s"):
        with pytest.raises(UnknownNameError, match=r"Table with name (self|sql) does not exist"):
            opened.sql(query)
    with pytest.raises(UnknownNameError, match="Table with name self does not exist"):
        opened.execute("INSERT INTO raw.events FROM self")


def test_empty_lake_needs_a_table(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake, pytest.raises(UnknownNameError) as refused:
        lake.sql("FROM events")
    assert refused.value.hint == "create a table first: lake.create_table(…)"


def test_other_errors_stay_as_they_are(opened: lakeconf.Lake) -> None:
    with pytest.raises(UnknownNameError, match="Function with name nothing does not exist") as refused:
        opened.sql("SELECT nothing(1)")
    assert refused.value.hint is None
    with pytest.raises(QueryError, match="idd"):
        opened.sql("SELECT idd FROM raw.events")


def test_snapshot_that_does_not_exist_is_named(opened: lakeconf.Lake) -> None:
    for at in ("VERSION => 99", "TIMESTAMP => TIMESTAMPTZ '2001-01-01 00:00:00+00'"):
        with pytest.raises(SnapshotNotFoundError, match="No snapshot found at") as refused:
            opened.sql(f"FROM raw.events AT ({at})")
        assert refused.value.hint == "list the snapshots: lake.snapshots(), or lakeconf snapshots"


def test_command_line_names_the_most_similar_table(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lakeconf.init(project).get_store().open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"})
    assert run(["sql", "FROM raw.event"]) == 1
    assert 'hint: did you mean "raw.events"?' in capsys.readouterr().err
