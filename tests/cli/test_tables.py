"""`lakeconf sql`, `tables`, `snapshots` and `verify`: text, JSON, refused statements and exit codes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_stores import in_bucket

import lakeconf
from lakeconf.errors import StorageError, UnsafeQueryError
from lakeconf.inspection.read_only_sql import query
from lakeconf.wording import byte_size

if TYPE_CHECKING:
    from servers import S3Server

    from lakeconf import Store


@pytest.mark.slow
def test_sizes_and_files_of_a_table_are_those_of_ducklake(events_folder: Path, shown: Any, called: Any) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
    native.execute("INSERT INTO raw.events VALUES (4, 'view'), (5, 'buy')")
    listed = native.sql(
        "SELECT data_file, data_file_size_bytes, delete_file FROM ducklake_list_files('dev', 'events', schema => 'raw')"
    ).fetchall()
    native.close()
    size = sum(Path(path).stat().st_size for path, *_ in listed)
    (found,) = json.loads(shown("tables", "--format", "json"))
    assert found == {
        "table": "raw.events",
        "rows": 4,
        "files": 2,
        "bytes": size,
        "delete_files": 1,
        "deleted_rows": 1,
        "inlined_rows": 2,
    }
    header, line = (re.split(r"  +", one) for one in shown("tables", "--store", "dev").splitlines())
    assert header == ["table", "rows", "files", "size", "delete files", "deleted rows", "inlined rows"]
    assert line == ["raw.events", "4", "2", byte_size(size), "1", "1", "2"]
    files = json.loads(shown("tables", "raw.events", "--format", "json"))
    assert sorted((file["path"], file["bytes"], file["delete_file"]) for file in files) == sorted(listed)
    assert called("tables", "raw.events")[2].endswith(" B, and 2 inlined rows in the catalog\n")


def test_lake_without_tables(project: Path, called: Any) -> None:
    lakeconf.init().get_store().open().close()
    assert called("tables", "--format", "json") == (0, "[]\n", "")
    code, out, err = called("tables")
    assert (code, out.count("\n"), err) == (0, 1, "")
    code, out, err = called("tables", "raw.nothing")
    assert (code, out, "raw.nothing" in err) == (1, "", True)


def test_table_of_files(events_folder: Path, shown: Any, called: Any) -> None:
    files = json.loads(shown("tables", "raw.events", "--format", "json"))
    assert [(one["rows"], one["begin_snapshot"], one["deleted_rows"]) for one in files] == [(2, 2, 1), (1, 4, 0)]
    assert [one["delete_file"] is None for one in files] == [False, True]
    code, out, err = called("tables", "raw.events")
    assert (code, err.startswith(f"2 files below {events_folder / 'data'}/: ")) == (0, True)
    header, first, second = (re.split(r"  +", line) for line in out.splitlines())
    assert header == ["file", "rows", "size", "snapshot", "deleted rows", "partition"]
    sizes = [byte_size(Path(one["path"]).stat().st_size) for one in files]
    assert (first[1:], second[1:]) == (["2", sizes[0], "2", "1"], ["1", sizes[1], "4", "0"])


def test_partitions_and_null_are_listed(project: Path, shown: Any) -> None:
    with lakeconf.init().get_store().open() as lake:
        rows = lake.sql("SELECT * FROM (VALUES ('a', 1), (NULL, 2)) AS t(kind, n)")
        lake.create_table("raw.t", rows, partitioned_by=["kind", "bucket(2, n)"]).append(rows)
    with lakeconf.init().get_store().connect() as connection:
        connection.execute("ALTER TABLE raw.t SET PARTITIONED BY (n)")
        connection.execute("INSERT INTO raw.t VALUES ('b', 3)")
        connection.execute("ALTER TABLE raw.t RENAME COLUMN kind TO sort")
    lines = shown("tables", "raw.t", "--store", "dev").splitlines()[1:]
    partitions = sorted(line.split("  ")[-1].strip() for line in lines)
    assert [re.sub("=[01]$", "=?", line) for line in partitions] == [
        "n=3",
        "sort=NULL, bucket(2, n)=?",
        "sort=a, bucket(2, n)=?",
    ]
    found = json.loads(shown("tables", "raw.t", "--format", "json"))
    assert [file["partition_keys"] for file in found if file["partition"] == ["3"]] == [["n"]]
    assert [file["partition"][0] for file in found if len(file["partition"]) == 2] == ["a", None]


def test_newest_snapshots_are_listed_newest_last(events_folder: Path, shown: Any, called: Any) -> None:
    lines = shown("snapshots", "--limit", "2").splitlines()
    assert [line.split()[0] for line in lines] == ["snapshot", "3", "4"]
    assert re.split(r"  +", lines[0]) == ["snapshot", "time (UTC)", "changes", "author", "message"]
    assert re.fullmatch(r" +4  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  insert raw\.events \+1 row  \S+@\S+", lines[-1])
    found = json.loads(shown("snapshots", "--format", "json"))
    assert [one["snapshot_id"] for one in found] == [0, 1, 2, 3, 4]
    assert [one["summary"] for one in found[1:]] == [
        "create schema raw, create raw.events",
        "insert raw.events +2 rows",
        "delete from raw.events",
        "insert raw.events +1 row",
    ]
    assert found[-1]["changes"] == "inserted_into_table:2"
    assert found[-1]["time"].endswith("+00:00")
    (last,) = json.loads(shown("snapshots", "--store", "dev", "--limit", "1", "--format", "json"))
    assert last == found[-1]
    for limit in ("0", "-1", "x"):
        code, out, err = called("snapshots", "--limit", limit)
        assert (code, out, "Invalid value for '--limit'" in err) == (2, "", True)


def test_twenty_snapshots_are_listed_by_default_with_their_author_and_message(project: Path, shown: Any) -> None:
    store = lakeconf.init().get_store()
    with store.connect() as connection:
        for number in range(20):
            connection.execute(f"CREATE SCHEMA s{number}")
    with store.open() as lake, lake.transaction("a first table", author="me") as transaction:
        transaction.create_table("s0.t", {"id": "BIGINT"})
    lines = shown("snapshots").splitlines()[1:]
    assert [line.split()[0] for line in lines] == [str(one) for one in range(2, 22)]
    assert re.split(r"  +", lines[-1])[-2:] == ["me", "a first table"]
    assert lines[0].startswith("       2  ")


@pytest.mark.slow
def test_equal_table_now_and_at_an_earlier_snapshot(events_folder: Path, spark: Any, called: Any) -> None:
    code, out, err = called("verify", "raw.events")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "raw.events at snapshot 4: equal"
    assert out.splitlines()[1].split() == ["rows:", "2"]
    code, out, err = called("verify", "raw.events", "--store", "dev", "--at", "1", "--format", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["equal"], found["snapshot_id"], found["spark_rows"], found["duckdb_rows"]) == (True, 1, 0, 0)
    assert [column["name"] for column in found["columns"]] == ["id", "kind"]


def test_errors_come_before_spark_starts(events_folder: Path, called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("lakeconf.cli.inspect_commands.spark_session")
    for *arguments, code, message in (
        ("raw.nope", 1, "raw.nope"),
        ("raw.events", "--at", "0", 1, "raw.events"),
        ("raw.events", "--at", "99", 1, "99 does not exist"),
        (2, "pass TABLE or --catalog"),
        ("raw.events", "--catalog", 2, "omit TABLE and --at"),
        ("--catalog", "--at", "1", 2, "omit TABLE and --at"),
        ("raw.events", "--at", "x", 2, "Invalid value for '--at'"),
    ):
        found, out, err = called("verify", *arguments)
        assert (found, out, str(message) in err) == (code, "", True)


@pytest.mark.slow
def test_the_catalog_is_verified(events_folder: Path, called: Any) -> None:
    assert called("verify", "--catalog") == (0, "dev: nothing is wrong\n", "")
    assert json.loads(called("verify", "--catalog", "--format", "json")[1]) == {
        "ok": True,
        "findings": [],
        "repaired": None,
    }
    file, *_ = sorted((events_folder / "data").rglob("ducklake-*.parquet"))
    file.unlink()
    code, out, _ = called("verify", "--catalog")
    last = "dev: 1 problem found, of which 0 can be repaired"
    assert (code, out.splitlines()[0], out.splitlines()[-1]) == (1, f"files: lost: {file}", last)
    assert "  hint: restore the files from a backup" in out
    findings = json.loads(called("verify", "--catalog", "--format", "json")[1])["findings"]
    assert [(finding["check"], finding["repairable"]) for finding in findings] == [("files", False)]


@pytest.mark.slow
def test_the_catalog_is_repaired_after_a_backup(events_folder: Path, called: Any) -> None:
    with lakeconf.init().get_store().connect() as connection:
        connection.execute("UPDATE __ducklake_metadata_dev.ducklake_snapshot SET next_file_id = 1")
    for arguments in (["--repair"], ["--backup-to", "b"], ["--catalog", "--repair"], ["--repair", "--backup-to", "b"]):
        assert called("verify", *arguments)[0] == 2
    repair = ("verify", "--catalog", "--repair", "--backup-to", "backups")
    code, out, err = called(*repair)
    assert (code, "of which 1 can be repaired" in out, "pass --yes" in err) == (2, True, True)
    assert not (events_folder / "backups").exists()
    code, out, _ = called(*repair, "--yes")
    assert (code, "repaired 1 problem in snapshot" in out, "is the backup" in out) == (0, True, True)
    assert called("verify", "--catalog")[1] == "dev: nothing is wrong\n"
    assert called(*repair, "--yes")[1] == "dev: nothing is wrong\n"
    assert len([*(events_folder / "backups").iterdir()]) == 1


def test_missing_lake_is_not_created(project: Path, called: Any) -> None:
    for command in (
        *(
            "verify raw.events",
            "snapshots",
            "tables",
            "tables raw.events",
            "report",
            "metrics",
            "restore t --version 1 --yes",
        ),
    ):
        code, out, err = called(*command.split())
        assert (code, out, "error: store 'dev' has no lake yet" in err) == (1, "", True)
        assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]


@pytest.mark.slow
def test_json_of_nan_and_infinities_is_valid(project: Path, shown: Any, called: Any) -> None:
    query = "SELECT 'nan'::DOUBLE a, 'inf'::FLOAT b, ['-inf'::DOUBLE] c"

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    out = shown("sql", query, "--format", "json")
    assert json.loads(out, parse_constant=refuse) == [{"a": "NaN", "b": "Infinity", "c": ["-Infinity"]}]
    assert shown("sql", query, "--format", "csv").splitlines()[1] == 'nan,inf,"[""-Infinity""]"'
    code, out, err = called("sql", "SELECT 1 AS a, 2 AS a", "--format", "json")
    assert (code, out) == (1, "")
    assert "error: the result has several columns named 'a', and a row in JSON can have only one" in err
    assert called("sql", "SELECT 1 AS a, 2 AS a", "--format", "csv")[:2] == (0, "a,a\n1,2\n")


@pytest.mark.slow
def test_values_of_every_kind_are_shown(project: Path, shown: Any) -> None:
    query = "SELECT DATE '2024-01-02' d, 1.50 n, 'ab'::BLOB b, [1, NULL] l, {'a': 1} s, NULL x, repeat('y', 70) t"
    (row,) = json.loads(shown("sql", query, "--format", "json"))
    assert row == {"d": "2024-01-02", "n": "1.50", "b": "6162", "l": [1, None], "s": {"a": 1}, "x": None, "t": "y" * 70}
    assert shown("sql", query, "--format", "csv").splitlines()[1] == (
        '2024-01-02,1.50,6162,"[1, null]","{""a"": 1}",,' + "y" * 70
    )
    assert shown("sql", query).splitlines()[1].split("  ")[-2:] == ["NULL", "y" * 59 + "…"]
    query = "SELECT repeat('x', 60) AS a, repeat('y', 61) AS b, 'l' || chr(10) || 'm' AS c"
    assert shown("sql", query).splitlines()[1].split() == ["x" * 60, "y" * 59 + "…", "l\\nm"]
    # Only rows that a code host would execute are quoted.
    out = shown("sql", "SELECT unnest(['::error::x', ' ::a', 'a::b', 'c']) AS a, 'd' AS b", "--format", "csv")
    assert out.splitlines() == ["a,b", '"::error::x","d"', '" ::a","d"', "a::b,d", "c,d"]


@pytest.mark.slow
def test_only_safe_queries_run(events_folder: Path, called: Any) -> None:
    (events_folder / "x.csv").write_text("n\n7\n")
    for statement, message in (
        ("DELETE FROM raw.events", "the statement is not a single query"),
        ("SELECT 1; DROP TABLE raw.events", "the statement is not a single query"),
        ("FROM duckdb_secrets()", "calls duckdb_secrets"),
        ("FROM raw.event", "Table with name event does not exist"),
        ("SELEC 1", "syntax error"),
        (f"FROM '{events_folder}/x.csv'", "Cannot access file"),
    ):
        code, out, err = called("sql", statement)
        assert (code, out, err.startswith("error: "), message in err) == (1, "", True, True), err
    for statement, answer in (("SHOW TABLES", "name"), ("FROM information_schema.columns", "ordinal_position")):
        assert answer in called("sql", statement)[1]
    with lakeconf.init().get_store().open() as after:
        assert after.snapshot_id == 4


CLEANUP = "FROM ducklake_cleanup_old_files('dev', cleanup_all => true)"


@pytest.mark.slow
def test_no_query_removes_files(events_folder: Path, called: Any) -> None:
    native = lakeconf.init().get_store().connect()
    native.execute("CREATE TABLE raw.gone AS FROM range(99); DROP TABLE raw.gone")
    native.execute("CALL ducklake_expire_snapshots('dev', older_than => now())")
    native.execute(f"CREATE VIEW removal AS {CLEANUP}; CREATE MACRO remove_files() AS TABLE {CLEANUP}")
    native.close()
    before = sorted(events_folder.rglob("*.parquet"))
    for statement in (
        CLEANUP,
        f"WITH gone AS ({CLEANUP}) SELECT (SELECT count(*) FROM gone), id FROM raw.events",
        f"""FROM query('{CLEANUP.replace("'", "''")}')""",
        "FROM removal",
        "FROM remove_files()",
        "FROM ducklake_delete_orphaned_files('dev', cleanup_all => true)",
    ):
        code, _, err = called("sql", statement)
        assert (code, "error: " in err) == (1, True)
        assert sorted(events_folder.rglob("*.parquet")) == before != []


@pytest.mark.slow
def test_limit_applies_to_the_table_only(events_folder: Path, called: Any) -> None:
    code, out, err = called("sql", "FROM range(3)", "--limit", "3")
    assert (code, out.split(), err) == (0, ["range", "0", "1", "2"], "")
    for form in ("csv", "json"):
        code, out, err = called("sql", "FROM range(200)", "--limit", "3", "--format", form)
        assert (code, out.count("\n"), err) == (0, 201 if form == "csv" else 602, "")
    assert called("sql", "FROM range(101)")[2] == "only the first 100 rows are shown; use --limit to show more\n"
    assert called("sql", "FROM range(9)", "--limit", "0")[0] == 2


@pytest.mark.slow
def test_query_from_a_file_or_the_standard_input(project: Path, shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "q.sql").write_bytes(b"\xef\xbb\xbfSELECT 1\n  AS one -- a comment\n")
    arguments: tuple[str, ...]
    for arguments in (("-f", "q.sql"), ("--file", "q.sql")):
        assert shown("sql", *arguments) == "one\n  1\n"
    for arguments in ((), ("-",), ("-f", "-")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 2 AS two")))
        assert shown("sql", *arguments) == "two\n  2\n"


def test_unreadable_query_is_refused(project: Path, called: Any) -> None:
    (project / "binary.sql").write_bytes(b"SELECT '\xff'")
    (project / "large.sql").write_bytes(b" " * ((1 << 20) + 1))
    for arguments, message in [
        (("-f", "missing.sql"), "'missing.sql': No such file or directory"),
        (("-f", "binary.sql"), "the query is not UTF-8"),
        (("-f", "large.sql"), "the query is larger than 1 MiB"),
        (("SELECT 1", "-f", "binary.sql"), "pass either QUERY or --file"),
    ]:
        code, out, err = called("sql", *arguments)
        assert (code, out, message in err) == (2, "", True)


def test_only_a_query_that_reads_nothing_needs_no_lake(project: Path, called: Any) -> None:
    assert called("sql", "SELECT 1 AS n", "--format", "json") == (0, '[\n  {\n    "n": 1\n  }\n]\n', "")
    for statement in ("FROM raw.t", "SHOW TABLES", "SELECT"):
        code, _, err = called("sql", statement)
        assert (code, "has no lake yet" in err) == (1, True)
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]


ROWS = pa.table({"i": pa.array(range(10), pa.int64())})


def make(folder: Path, storage: dict[str, Any], **options: Any) -> Store:
    metadata = {"type": "sqlite", "uri": str(folder / "catalog.sqlite")}
    backends = {"metadata_backend": metadata, "storage_backend": storage, "attach_options": options}
    store = lakeconf.init({"stores": {"dev": backends}}).get_store("dev")
    with store.open() as lake:
        table = lake.create_table("t", like=ROWS)
        table.append(ROWS)
        table.delete("i = 3")
    return store


def check(store: Store, rows: int = 9) -> None:
    assert query(store, "SELECT count(*) FROM t WHERE i >= 0")[1] == [(rows,)]
    # Before the delete.
    assert query(store, "SELECT count(*) FROM t AT (VERSION => 2)")[1] == [(10,)]


def check_neighbour(store: Store, path: str) -> None:
    """A file that is not part of the lake cannot be read, neither directly nor through a view of the lake."""
    with store.connect() as writer:
        assert writer.execute(f"SELECT count(*) FROM '{path}'").fetchall() == [(10,)]
        writer.execute(f"CREATE VIEW dev.stolen AS SELECT * FROM read_parquet('{path}')")
    for statement in (f"FROM '{path}'", f"FROM read_parquet('{path}')", "FROM stolen"):
        with pytest.raises((UnsafeQueryError, StorageError)):
            query(store, statement)


def neighbour(folder: Path) -> str:
    path = folder / "neighbour.parquet"
    pq.write_table(ROWS, path)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "encrypted"), [("data", False), ("{folder}/data", True)])
def test_lake_in_a_local_folder(path: str, encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = make(tmp_path, {"type": "local", "path": path.format(folder=tmp_path)}, encrypted=encrypted)
    check(store)
    check_neighbour(store, neighbour(tmp_path))


@pytest.mark.slow
def test_registered_files_outside_the_data_path(tmp_path: Path) -> None:
    store = make(tmp_path, {"type": "local", "path": str(tmp_path / "data")})
    outside = tmp_path / "landing" / "part.parquet"
    outside.parent.mkdir()
    pq.write_table(ROWS, outside)
    with store.connect() as writer:
        writer.execute(f"CALL ducklake_add_data_files('dev', 't', '{outside}')")
    check(store, 19)
    check_neighbour(store, neighbour(outside.parent))


def test_relative_data_path_stored_by_plain_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = make(tmp_path, {"type": "local", "path": str(tmp_path / "data")})
    with store.connect() as writer:
        writer.execute("UPDATE __ducklake_metadata_dev.ducklake_metadata SET value = 'data/' WHERE key = 'data_path'")
    backends = {"metadata_backend": {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")}}
    storage = {"type": "local", "path": "data"}
    options = {"override_data_path": True}
    found = {"stores": {"dev": {**backends, "storage_backend": storage, "attach_options": options}}}
    check(lakeconf.init(found).get_store("dev"))


@pytest.mark.slow
def test_lake_in_a_bucket(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.create_bucket()
    store = make(tmp_path, in_bucket(s3_server, bucket))
    check(store)
    with store.connect() as writer:
        writer.execute(f"COPY (FROM range(10)) TO 's3://{bucket}/lake-of-others/neighbour.parquet'")
    check_neighbour(store, f"s3://{bucket}/lake-of-others/neighbour.parquet")
