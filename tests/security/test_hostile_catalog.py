"""Attacks of a catalog on its readers and writers: each text in it may come from an attacker."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import socket
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import duckdb
import pyarrow as pa
import pytest
from lake_parts import data_path_of, session_of
from local_stores import config_of, in_bucket, store_of
from strength import PROVE, in_prove

import lakeconf
from lakeconf import Store
from lakeconf.catalog.admission import SPLICED, check_folder
from lakeconf.cli.app import commands, run
from lakeconf.errors import CatalogError, LakeconfError
from lakeconf.guard.marker import LakeMarker
from lakeconf.inspection.read_only_sql import query
from lakeconf.inspection.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import S3Server

    from lakeconf.lake.lake import Lake

ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "name": ["a", "b"] * 10})
# What users do with a lake.
USES: dict[str, Callable[[Lake], Any]] = {
    "scan": lambda lake: lake.table("t").to_arrow(),
    "sql": lambda lake: lake.sql("SELECT count(*), max(name) FROM t").collect(),
    "polars": lambda lake: lake.table("t").to_polars(),
    "changes": lambda lake: lake.table("t").changes(since=0).collect(),
    "append": lambda lake: lake.table("t").append(ROWS),
    "overwrite": lambda lake: lake.table("t").overwrite(ROWS),
    "merge": lambda lake: lake.table("t").merge(ROWS, on=["id"]),
    "update": lambda lake: lake.table("t").update({"name": "'c'"}, where="id = 1"),
    "execute": lambda lake: lake.execute("INSERT INTO t SELECT * FROM t"),
    "create": lambda lake: lake.create_table("made", like=ROWS).append(ROWS),
    "maintain": lambda lake: lake.maintenance.compact(),
    "cleanup": lambda lake: lake.maintenance.cleanup(older_than=timedelta(days=1)),
    "verify": lambda lake: verify(lake, "t"),
}


class Listener:
    """A server of the attacker: it only counts connections."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(0)
        self.port = self.socket.getsockname()[1]

    def connections(self) -> int:
        found = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.accept()[0].close()
                found += 1
        return found


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener()
    with contextlib.closing(server.socket):
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A lake in a folder, with one data file."""
    made = store_of(tmp_path)
    with made.open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS)
    return made


@pytest.fixture
def remote(tmp_path: Path, s3_server: S3Server) -> Store:
    """A lake in a bucket, with a data file and a delete file."""
    made = lakeconf.init(config_of(tmp_path, storage=in_bucket(s3_server))).get_store()
    with made.open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS)
        lake.table("t").delete("id = 3")
    return made


def write_catalog(tmp_path: Path, sql: str, *values: object) -> int:
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog")) as catalog, catalog:
        return catalog.execute(sql, values).rowcount


# A lake that is open notices a change of the catalog in the next snapshot.
NEXT_SNAPSHOT = (
    "INSERT INTO ducklake_snapshot SELECT snapshot_id + 1, snapshot_time, schema_version, "
    "next_catalog_id, next_file_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["data_file", "delete_file", "table", "schema"])
def test_paths_that_lead_to_another_server_are_not_opened(
    table: str, remote: Store, tmp_path: Path, listener: Listener
) -> None:
    (original,) = _column(tmp_path, f"SELECT DISTINCT path FROM ducklake_{table}")[:1]
    host = f"127.0.0.1:{listener.port}"
    parameters = f"?s3_endpoint={host}&s3_use_ssl=false&s3_url_style=path"
    scheduled = "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (99, ?, true, '2020-01-01 00:00:00+00')"
    changed = f"UPDATE ducklake_{table} SET path = ?, path_is_relative = ?"
    with remote.open() as lake:
        write_catalog(tmp_path, scheduled, f"main/t/x.parquet{parameters}")
        with pytest.raises(CatalogError, match="could lead elsewhere"):
            lake.maintenance.cleanup(older_than=timedelta(days=1))
        write_catalog(tmp_path, "DELETE FROM ducklake_files_scheduled_for_deletion")
        bucket = data_path_of(lake)
        hostile: list[tuple[str, bool]] = [
            (f"{original}{parameters}", True),
            (f"{bucket}{original}{parameters}", False),
            (f"{bucket}{original}#", False),
            (f"http://{host}/x.parquet", False),
            (f"s3://{host}#/x.parquet", False),
            (f"s3://user@{host}/x.parquet", False),
            (f"../{original}", True),
            (f"main\\..\\{original}", True),
            (f"{original}\n", True),
            (f"//{host}/share/x.parquet", False),
        ]
        for path, is_relative in hostile:
            assert write_catalog(tmp_path, changed, path, is_relative) >= 1
            with pytest.raises(CatalogError, match="could lead elsewhere: nothing was read or written"):
                remote.open()
            with pytest.raises(CatalogError, match="could lead elsewhere"):
                query(remote, "FROM t")
        write_catalog(tmp_path, NEXT_SNAPSHOT)
        write_catalog(tmp_path, changed, *hostile[0])
        if table in ("data_file", "delete_file"):
            newest = "(SELECT max(snapshot_id) FROM ducklake_snapshot)"
            write_catalog(tmp_path, f"UPDATE ducklake_{table} SET begin_snapshot = {newest}")
        for use in USES.values():
            with pytest.raises(CatalogError, match="could lead elsewhere"):
                use(lake)
    assert listener.connections() == 0


def test_index_with_other_values_than_its_table_is_refused(store: Store, tmp_path: Path) -> None:
    """A check of paths would read the index, and DuckLake the table."""
    write_catalog(tmp_path, "CREATE INDEX i ON ducklake_data_file (path, path_is_relative, begin_snapshot)")
    index = "FROM sqlite_master WHERE name = 'i'"
    (entry,) = _rows(tmp_path, f"SELECT * {index}")
    for sql, values in (
        (f"DELETE {index}", ()),
        ("UPDATE ducklake_data_file SET path = '../x.parquet'", ()),
        ("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", entry),
    ):
        with contextlib.closing(sqlite3.connect(tmp_path / "catalog")) as catalog, catalog:
            catalog.execute("PRAGMA writable_schema = ON")
            catalog.execute(sql, values)
    assert _column(tmp_path, "SELECT path FROM ducklake_data_file") != ["../x.parquet"]
    assert _rows(tmp_path, "SELECT path, record_count FROM ducklake_data_file") == [("../x.parquet", 20)]
    for use in (Store.open, lambda lake: query(lake, "FROM t")):
        with pytest.raises(CatalogError, match="the catalog's 'i' is not a plain table"):
            use(store)


def test_missing_text_is_an_error(store: Store, tmp_path: Path) -> None:
    with store.connect() as native:
        native.execute("CREATE VIEW v AS FROM t")
    for table, column, what in (
        ("table", "table_name", "the catalog names the table_name NULL"),
        ("view", "view_name", "the catalog names the view_name NULL"),
        ("view", "sql", "the catalog names the sql NULL"),
        ("data_file", "path", "the catalog names the data file NULL"),
        ("snapshot", "snapshot_time", "the catalog has no time of snapshot"),
    ):
        shutil.copy(tmp_path / "catalog", tmp_path / "kept")
        write_catalog(tmp_path, f"UPDATE ducklake_{table} SET {column} = NULL")
        with pytest.raises(CatalogError, match=what):
            store.open().snapshots()
        shutil.copy(tmp_path / "kept", tmp_path / "catalog")


def test_numbers_that_are_strings_do_not_become_sql(store: Store, tmp_path: Path) -> None:
    scheduled, written = "ducklake_files_scheduled_for_deletion", tmp_path / "written.csv"
    write_catalog(tmp_path, f"ALTER TABLE {scheduled} RENAME COLUMN data_file_id TO old")
    write_catalog(tmp_path, f"ALTER TABLE {scheduled} ADD COLUMN data_file_id VARCHAR")
    row = f"INSERT INTO {scheduled} (path, path_is_relative, schedule_start, data_file_id) VALUES (?, 1, ?, ?)"
    text = f"'x'); COPY (SELECT 1 AS x) TO '{written}'; SELECT (1"
    write_catalog(tmp_path, row, "old.parquet", "2020-01-01 00:00:00+00", text)
    for use in (Store.open, lambda one: query(one, "FROM t")):
        with pytest.raises(CatalogError, match="the catalog's column 'data_file_id' has the type VARCHAR"):
            use(store)
    assert not written.exists()


def test_only_the_scheduled_files_that_were_checked_are_removed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes to the catalog can change the list after the check."""
    victim, honest = tmp_path / "thesis.parquet", tmp_path / "data" / "old.parquet"
    scheduled = "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (?, ?, ?, '2020-01-01 00:00:00+00')"
    record = LakeMarker.record

    def recorded(marker: LakeMarker, **options: bool) -> None:
        record(marker, **options)
        write_catalog(tmp_path, scheduled, 99, str(victim), 0)

    with store.open() as lake:
        victim.touch()
        honest.touch()
        write_catalog(tmp_path, scheduled, 98, "old.parquet", 1)
        monkeypatch.setattr(LakeMarker, "record", recorded)
        assert lake.maintenance.cleanup(older_than=timedelta(days=1)) == [str(honest)]
    assert (victim.exists(), honest.exists()) == (True, False)
    assert _column(tmp_path, "SELECT data_file_id FROM ducklake_files_scheduled_for_deletion") == [99]


# SQL that runs where DuckLake writes the text into a statement, with the rows that it reads.
INJECTED = {
    "table_name": "{0} inlined_data; COPY (SELECT 1 AS x) TO '{1}'; "
    'SELECT row_id, id FROM "__ducklake_metadata_dev"."main".{0}',
    "table_uuid": "{0}', 1, NULL, 0, 'a', 'b', true); COPY (SELECT 1 AS x) TO '{1}'; --",
}
RENAME: dict[str, Callable[[Lake], Any]] = {"rename": lambda lake: lake.rename_table("t", "u")}


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), SPLICED)
def test_text_that_ducklake_writes_into_sql_does_not_run(table: str, column: str, store: Store, tmp_path: Path) -> None:
    with store.connect() as native:
        native.execute("CALL dev.set_option('data_inlining_row_limit', 10); INSERT INTO t VALUES (77, 'c')")
        native.execute("CREATE VIEW v AS FROM t")
    (original,) = _column(tmp_path, f"SELECT {column} FROM {table} LIMIT 1")
    written = tmp_path / "written.csv"
    text = INJECTED.get(column, "{0}'").format(original, written)
    with store.open() as lake:
        write_catalog(tmp_path, f"UPDATE {table} SET {column} = ? WHERE {column} = ?", text, original)
        with pytest.raises(CatalogError, match=f"names the {column} .*, which could run as SQL: nothing was read"):
            store.open()
        with pytest.raises(CatalogError, match="which could run as SQL"):
            query(store, "FROM t")
        write_catalog(tmp_path, NEXT_SNAPSHOT)
        for use in (USES | RENAME).values():
            with pytest.raises(CatalogError, match="which could run as SQL"):
                use(lake)
    assert not written.exists()


def test_link_that_replaces_a_folder_during_a_cleanup_is_not_followed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, folder = tmp_path / "home" / "id_rsa", tmp_path / "data" / "x"
    victim.parent.mkdir()
    victim.touch()
    folder.mkdir()
    record = LakeMarker.record

    def recorded(marker: LakeMarker, **options: bool) -> None:
        record(marker, **options)
        folder.rmdir()
        folder.symlink_to(victim.parent)

    scheduled = "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (98, 'x/id_rsa', 1, '2020-01-01 00:00:00+00')"
    with store.open() as lake:
        write_catalog(tmp_path, scheduled)
        monkeypatch.setattr(LakeMarker, "record", recorded)
        with pytest.raises(CatalogError, match="lists files for removal that are not below"):
            lake.maintenance.cleanup(older_than=timedelta(days=1))
    assert victim.exists()


def test_registered_files_of_other_buckets_are_read(remote: Store, s3_server: S3Server) -> None:
    other = s3_server.create_bucket()
    with remote.open() as lake:
        writer = session_of(lake).writer
        writer.execute(
            "CREATE SECRET elsewhere (TYPE s3, KEY_ID 'a', SECRET 'b', ENDPOINT "
            f"'{s3_server.endpoint}', URL_STYLE 'path', USE_SSL false, SCOPE 's3://{other}/')"
        )
        writer.execute(f"COPY (SELECT 50::BIGINT AS id, 'c' AS name) TO 's3://{other}/a b/x=1.parquet'")
        writer.execute(f"CALL ducklake_add_data_files('dev', 't', 's3://{other}/a b/x=1.parquet')")
        lake.refresh()
        assert lake.table("t").to_arrow().num_rows == 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["absolute", "above", "link"])
@pytest.mark.parametrize("table", ["table", "schema"])
def test_writes_stay_below_the_data_path(table: str, kind: str, store: Store, tmp_path: Path) -> None:
    outside, data = tmp_path / "outside", tmp_path / "data"
    outside.mkdir()
    if kind == "link":
        folder = data / "main" if table == "schema" else data / "main" / "t"
        shutil.copytree(folder, outside, dirs_exist_ok=True)
        shutil.rmtree(folder)
        folder.symlink_to(outside)
    else:
        path = f"{outside}/" if kind == "absolute" else "../outside/"
        changed = f"UPDATE ducklake_{table} SET path = ?, path_is_relative = ?"
        write_catalog(tmp_path, changed, path, kind == "above")
    before = sorted(outside.rglob("*"))
    writes = ["append", "overwrite", "merge", "update", "execute", "maintain"] + ["create"] * (table == "schema")
    for name in writes:
        with pytest.raises(CatalogError, match="nothing was"), store.open() as lake:
            USES[name](lake)
    assert sorted(outside.rglob("*")) == before


def test_folder_behind_a_link_is_not_below_the_data_path(tmp_path: Path) -> None:
    (tmp_path / "data" / "plain").mkdir(parents=True)
    (tmp_path / "data" / "link").symlink_to(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "data")
    root = f"{tmp_path}/other/"
    check_folder(root, f"{tmp_path}/data/plain/")
    check_folder("s3://lake/", "s3://lake/main/t/")
    for folder in (f"{root}link/", f"{tmp_path}/database/"):
        with pytest.raises(CatalogError, match="which is not below the data path"):
            check_folder(root, folder)


def test_link_at_the_folder_of_a_partition_is_followed(tmp_path: Path) -> None:
    """docs/security.md warns about this."""
    store = store_of(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    with store.open() as lake:
        table = lake.create_table("t", like=ROWS, partitioned_by=["name"])
        table.append(ROWS)
        folder = tmp_path / "data" / "main" / "t" / "name=a"
        shutil.rmtree(folder)
        folder.symlink_to(outside)
        table.append(ROWS)
    assert list(outside.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("table", ["table", "schema"])
def test_writes_stay_below_the_data_path_in_a_bucket(
    table: str, remote: Store, tmp_path: Path, s3_server: S3Server
) -> None:
    other = s3_server.create_bucket()
    changed = f"UPDATE ducklake_{table} SET path = ?, path_is_relative = 0"
    write_catalog(tmp_path, changed, f"s3://{other}/x/")
    for name in ("append", "overwrite", "merge", "update", "execute", "maintain"):
        with pytest.raises(CatalogError, match="not below the data path"), remote.open() as lake:
            USES[name](lake)
    assert s3_server.objects(other) == []


@pytest.mark.slow
def test_types_are_no_sql(store: Store, tmp_path: Path) -> None:
    changed = "UPDATE ducklake_column SET column_type = ? WHERE column_name = 'name'"
    for text in ("decimal(10,2/*(*/) x --)", "decimal(", "int64)", "int64\n", "", None, "DROP TABLE t"):
        assert write_catalog(tmp_path, changed, text) == 1
        for name in ("scan", "polars", "changes", "append", "overwrite", "merge", "update", "execute", "verify"):
            with pytest.raises(LakeconfError), store.open() as lake:
                USES[name](lake)


def _rows(tmp_path: Path, sql: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog")) as catalog:
        return catalog.execute(sql).fetchall()


def _column(tmp_path: Path, sql: str) -> list[Any]:
    return [value for (value,) in _rows(tmp_path, sql)]


# What DuckLake does with a lake, in an order in which each statement has something to do.
STATEMENTS = """
FROM t
SELECT count(*) FROM t WHERE a = 'x5' AND b = 1
FROM t AT (VERSION => 8)
FROM v
SELECT m(1)
FROM dev.table_changes('t', 1, 9)
INSERT INTO t SELECT 'i' || i, i % 2, i FROM range(40) AS r(i)
INSERT INTO t VALUES ('k', 0, 1)
UPDATE t SET f = 2 WHERE b = 1
DELETE FROM t WHERE a = 'y5'
ALTER TABLE t ADD COLUMN g INTEGER DEFAULT 3
ALTER TABLE t RENAME COLUMN f TO h
ALTER TABLE t RENAME TO t9
ALTER TABLE t9 RENAME TO t
ALTER VIEW v RENAME TO v9
COMMENT ON TABLE t IS 'new'
ALTER TABLE t SET PARTITIONED BY (a)
ALTER TABLE t RESET SORTED BY
CALL ducklake_flush_inlined_data('dev')
CALL ducklake_merge_adjacent_files('dev')
CALL ducklake_rewrite_data_files('dev', delete_threshold => 0)
CALL ducklake_expire_snapshots('dev', older_than => now())
DROP MACRO m
DROP VIEW v9
DROP SCHEMA s CASCADE
""".strip().splitlines()
# These are SQL, which DuckDB parses: lakeconf checks a view before a query reads it, and a sort key before a write.
IS_SQL = {("ducklake_view", "sql"), ("ducklake_sort_expression", "expression")}


@pytest.mark.slow
def test_ducklake_writes_no_other_text_into_sql(tmp_path: Path) -> None:
    """A quotation mark in it would end a statement, and the rest of the text would be the next one."""
    store = store_of(tmp_path)
    with store.connect() as native:
        native.execute("CALL dev.set_option('data_inlining_row_limit', 5)")
        native.execute(
            "CREATE SCHEMA s; CREATE TABLE s.u (a INT); CREATE TABLE t (a VARCHAR DEFAULT 'd', b INT, f INT)"
        )
        native.execute("ALTER TABLE t SET PARTITIONED BY (b); ALTER TABLE t SET SORTED BY (a ASC)")
        for letter in "xy":
            native.execute(f"INSERT INTO t SELECT '{letter}' || i, i % 2, i FROM range(50) AS r(i)")
        native.execute("INSERT INTO t VALUES ('z', 1, NULL)")
        native.execute("DELETE FROM t WHERE a = 'x1'; COMMENT ON TABLE t IS 'tc'; COMMENT ON COLUMN t.a IS 'cc'")
        native.execute("CREATE VIEW v AS SELECT a FROM t; CREATE MACRO m(p := 1) AS p + 1")
    shutil.copytree(tmp_path, tmp_path.with_name("kept"))
    tables = _column(tmp_path, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%data_1%'")
    columns = [
        (table, column)
        for table in tables
        for column, kind in _rows(tmp_path, f"SELECT name, type FROM pragma_table_info('{table}')")
        if kind == "VARCHAR" and (table, column) not in SPLICED.keys() | IS_SQL
    ]
    assert len(columns) > 40
    messages = []
    for table, column in columns[:: 1 if PROVE else 4]:
        shutil.rmtree(tmp_path)
        shutil.copytree(tmp_path.with_name("kept"), tmp_path)
        write_catalog(tmp_path, f"UPDATE {table} SET {column} = {column} || ''' zq zq('")
        with contextlib.suppress(LakeconfError), store.connect() as native:
            for statement in STATEMENTS:
                try:
                    native.execute(statement).fetchall()
                except duckdb.Error as error:
                    messages.append(f"{table}.{column}: {statement}: {error}")
    assert [one for one in messages if "syntax error" in one or "unterminated" in one] == []


# What users run, each with a lake; the others read only the configuration.
_COMMANDS = (
    "doctor, tables, tables t, snapshots, history t, sql FROM t, sql FROM v, sql SELECT m(1), report -o report.html, "
    "graph, plan, diff dev dev t, copy dev other --yes, move dev third --yes, "
    "restore t --version 3 --yes, undo t --yes, run --yes, "
    "load more.csv t --yes, adopt old --table fresh --yes, test, metrics, "
    "grants --role reader, maintain --dry-run, maintain --yes, "
    "backup --to saved, backups --in saved, branch dev"
)
COMMANDS = _COMMANDS.split(", ")
WITHOUT_LAKE = {"init", "validate", "stores", "preview-sql", "export"}
TEXTS: dict[str, str | None] = {
    "URL": "{old}?s3_endpoint={host}&s3_use_ssl=false&s3_url_style=path",
    "SQL": "{old}'); COPY (SELECT 1 AS x) TO '{written}'; --",
    "terminal": "\x1b[2J<script>alert(1)</script>\u202e\r\n::error::x",
    "nothing": None,
}
PARTS = 60


def fill(store: Store, bucket: str) -> None:
    """Gives a lake something in each table of the catalog."""
    with store.connect() as native:
        native.execute("CALL dev.set_option('data_inlining_row_limit', 5); INSERT INTO t VALUES (77, 'c')")
        native.execute("CREATE VIEW v AS FROM t; CREATE MACRO m(p := 1) AS p + 1; ALTER TABLE t SET SORTED BY (id ASC)")
        native.execute(
            "COMMENT ON TABLE t IS 'a'; COMMENT ON COLUMN t.id IS 'b'; ALTER TABLE t ADD COLUMN d INT DEFAULT 3"
        )
        native.execute(f"COPY (SELECT 5::BIGINT AS id, 'b' AS name, 1 AS d) TO 's3://{bucket}/lake/x.parquet'")
        native.execute(f"CALL ducklake_add_data_files('dev', 't', 's3://{bucket}/lake/x.parquet')")
        native.execute("ALTER TABLE t SET PARTITIONED BY (name); INSERT INTO t SELECT i, 'd', i FROM range(30) r(i)")


def test_every_command_is_tried() -> None:
    names = set(commands.list_commands(click.Context(commands)))
    # USES has `verify`. Maintenance stops after a restore: tests/transfer has its hostile backups.
    assert names - WITHOUT_LAKE - {"verify", "restore-lake"} == {command.split()[0] for command in COMMANDS}


def commanded(tmp_path: Path, server: S3Server) -> tuple[Store, dict[str, Any]]:
    """A lake in a bucket with something in each table of the catalog, which commands find; and its storage."""
    storage = in_bucket(server)
    text = "[pipeline.models.'a.m']\nkind = 'full'\nsql = 'm.sql'\n"
    for name in ("dev", "other"):
        text += f"[stores.{name}.metadata_backend]\ntype = 'sqlite'\nuri = '{name.replace('dev', 'catalog')}'\n"
        values = storage | {"prefix": name.replace("dev", "lake")}
        text += f"[stores.{name}.storage_backend]\n" + "".join(f"{key} = {json.dumps(values[key])}\n" for key in values)
    text += "[stores.third]\nmetadata_backend = { type = 'sqlite', uri = 'third' }\n"
    text += "storage_backend = { type = 'local', path = 'third files' }\n"
    (tmp_path / "lakeconf.toml").write_text(f"default_store = 'dev'\n{text}")
    (tmp_path / "m.sql").write_text("SELECT id FROM main.t")
    (tmp_path / "more.csv").write_text("id,name,d\n78,z,1\n")
    (tmp_path / "old").mkdir()
    duckdb.sql(f"COPY (SELECT 1 AS id) TO '{tmp_path}/old/a.parquet'")
    store = lakeconf.init(tmp_path / "lakeconf.toml").get_store()
    with store.open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS, idempotency_key="k")
        lake.table("t").delete("id = 3")
    fill(store, str(storage["bucket"]))
    return store, storage


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *in_prove(range(1, PARTS))])
def test_hostile_text_in_every_column(
    part: int,
    tmp_path: Path,
    s3_server: S3Server,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (store, storage), written = commanded(tmp_path, s3_server), tmp_path / "written"
    columns = [
        (table, column)
        for table in _column(tmp_path, "SELECT name FROM sqlite_master WHERE type = 'table'")
        for column, kind in _rows(tmp_path, f"SELECT name, type FROM pragma_table_info('{table}')")
        if kind == "VARCHAR" and _column(tmp_path, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
    ]
    assert len(columns) > 40
    shutil.copy("catalog", "kept")
    for (table, column), (kind, hostile) in itertools.product(columns[part::PARTS], TEXTS.items()):
        for use in [*COMMANDS, *USES]:
            shutil.copy("kept", "catalog")
            for name in ("other", "report.html", "third"):
                Path(name).unlink(missing_ok=True)
            for folder in ("third files", "saved"):
                shutil.rmtree(folder, ignore_errors=True)
            for old in set(_column(tmp_path, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")):
                new = hostile and hostile.format(old=old, host=f"127.0.0.1:{listener.port}", written=written)
                with contextlib.suppress(sqlite3.IntegrityError):
                    write_catalog(tmp_path, f"UPDATE {table} SET {column} = ? WHERE {column} = ?", new, old)
            if use in USES:
                with contextlib.suppress(LakeconfError), store.open() as lake:
                    USES[use](lake)
            else:
                run(use.split(maxsplit=1) if use.startswith("sql") else use.split())
            place, (out, err) = (table, column, kind, use), capsys.readouterr()
            page = Path("report.html").read_text() if Path("report.html").exists() else ""
            assert listener.connections() == 0, place
            assert not written.exists(), place
            assert [
                one for one in ("\x1b[2J", "\u202e", "\n::error", str(storage["secret"])) if one in out + err
            ] == [], place
            assert "<script>alert" not in page, place


ENDS = "?s3_endpoint=127.0.0.1:{port}&s3_use_ssl=false&s3_url_style=path&s3_region=x"
NAME = "ducklake-0190f1f2-aaaa-7bbb-8ccc-1234567890ab.parquet"


@pytest.mark.slow
def test_keys_in_the_bucket_name_no_other_server_and_no_other_file(
    tmp_path: Path, s3_server: S3Server, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB takes what follows `?` in a key for settings, and removes the object before it."""
    monkeypatch.chdir(tmp_path)
    store, storage = commanded(tmp_path, s3_server)
    bucket, ends = str(storage["bucket"]), ENDS.format(port=listener.port)
    put, live = s3_server.client().put_object, s3_server.objects(bucket)
    folders = {key.rpartition("/")[0] + "/" for key in live} | {"lake/main/t/lakeconf-0123456789abcdef/"}
    hostile = [
        f"{key}{end}{rest}" for key in live for end in (ends, "?s3_region=us-east-1") for rest in ("", f"/{NAME}")
    ]
    hostile += [
        f"{folder}x{ends}/{name}"
        for folder in folders
        for name in (NAME, "_lakeconf.json", "lakeconf-0123456789/a.parquet")
    ]
    for key in (*hostile, f"in/a.csv{ends}&x=.csv"):
        put(Bucket=bucket, Key=key, Body=b"id,name,d\n1,a,1\n")
    for use in [*COMMANDS, "maintain --cleanup-days 0 --force --yes", *USES]:
        if use in USES:
            with contextlib.suppress(LakeconfError), store.open() as lake:
                USES[use](lake)
        else:
            run(use.split(maxsplit=1) if use.startswith("sql") else use.split())
        assert listener.connections() == 0, use
    with store.open() as lake:
        lake.table("t").to_arrow()
        for version in range(1, lake.snapshot_id):
            lake.at(version=version).table("t").to_arrow()
    assert set(hostile) <= set(s3_server.objects(bucket))
    with Path("lakeconf.toml").open("a") as file:
        file.write(f"[pipeline.models.'a.n']\nkind = 'append'\nfiles = 's3://{bucket}/in/*.csv'\n")
    assert (run(["run", "a.n", "--yes"]), listener.connections()) == (1, 0)
