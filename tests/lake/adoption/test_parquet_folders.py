"""`Lake.adopt` registers folders of Parquet files: the rows, what a second run adds, and what it refuses."""

from __future__ import annotations

import math
import os
import shutil
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_stores import config_of, in_bucket, on_catalog, store_of
from refused_adoptions import contents, maintain_all, refused, rows

import lakeconf
from lakeconf.errors import (
    CommitConflictError,
    CommitError,
    FileMissingError,
    LakeconfError,
    SchemaError,
    StorageError,
    UnsupportedError,
)
from lakeconf.lake.adoption import adoption, trial
from lakeconf.lake.adoption.footers import Field, check_schemas

if TYPE_CHECKING:
    from servers import S3Server

    from lakeconf import Store

EVENTS = "SELECT i AS id, 'n' || i AS name, i % 3 AS kind, DATE '2026-01-01' + (i % 2)::INTEGER AS day, {'x': i} AS st"
PARTITIONED = "(FORMAT parquet, PARTITION_BY (kind, day))"


def written(folder: Path, query: str = f"{EVENTS} FROM range(10) AS t(i)", options: str = PARTITIONED) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY ({query}) TO '{folder}' {options}")
    return folder


def one_file(folder: Path, table: pa.Table, name: str = "a.parquet", **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, **options)
    return folder


def test_a_partitioned_folder_becomes_a_table_without_a_copy(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "src")
    before = contents(source)
    with store.open() as lake:
        plan = lake.plan_adopt(str(source), "raw.events")
        assert (plan.creates, len(plan.files), plan.rows, plan.known) == (True, 6, 10, 0)
        assert plan.columns == {
            "id": "BIGINT", "name": "VARCHAR", "st": "STRUCT(x BIGINT)", "day": "DATE", "kind": "BIGINT",
        }  # fmt: skip
        assert lake.tables() == []
        snapshot = lake.adopt(str(source), "raw.events", verify="full")
        assert snapshot == lake.snapshot_id == 1
        found = rows(lake, "SELECT id, name, kind, day, st FROM raw.events ORDER BY id")
        assert found == [(i, f"n{i}", i % 3, date(2026, 1, 1 + i % 2), {"x": i}) for i in range(10)]
        assert rows(lake, "SELECT count(*) FROM raw.events WHERE kind = 1 AND day = '2026-01-02'") == [(2,)]
        assert {file.path for file in lake.table("raw.events").files()} == before.keys()
        assert lake.adopt(str(source), "raw.events") == snapshot
    assert contents(source) == before
    assert list((tmp_path / "data").rglob("data_*")) == []


def test_a_second_run_adds_new_files_only(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "src")
    with store.open() as lake:
        lake.adopt(str(source), "raw.events")
        lake.table("raw.events").delete("kind = 0")  # the files of a partition have no rows left
        written(
            source / "kind=5" / "day=2026-01-09", "SELECT 99 AS id, 'new' AS name, {'x': 1} AS st", "(FORMAT parquet)"
        )
        os.rename(source / "kind=5" / "day=2026-01-09", tmp_path / "one")
        (source / "kind=5" / "day=2026-01-09").mkdir()
        os.rename(tmp_path / "one", source / "kind=5" / "day=2026-01-09" / "new.parquet")
        plan = lake.plan_adopt(str(source), "raw.events")
        assert (plan.creates, len(plan.files), plan.known) == (False, 1, 6)
        lake.adopt(str(source), "raw.events")
        assert rows(lake, "SELECT count(*), max(id), max(kind) FROM raw.events") == [(7, 99, 5)]


def test_expiry_does_not_make_a_file_new_again(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "src")
    with store.open() as lake:
        lake.adopt(str(source), "raw.events")
        lake.table("raw.events").delete("kind = 0")
        maintain_all(lake)
        assert not lake.plan_adopt(str(source), "raw.events").is_needed
        lake.rename_table("raw.events", "raw.renamed")
        assert not lake.plan_adopt(str(source), "raw.renamed").is_needed
        maintain_all(lake)
        assert not lake.plan_adopt(str(source), "raw.renamed").is_needed


def test_a_table_that_was_restored_does_not_get_its_rows_twice(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "src")
    with store.open() as lake:
        snapshot = lake.adopt(str(source), "raw.events")
        lake.drop_table("raw.events")
        assert lake.plan_adopt(str(source), "raw.events").creates
        lake.restore("raw.events", version=snapshot)
        assert not lake.plan_adopt(str(source), "raw.events").is_needed
        lake.adopt(str(source), "raw.events")
        assert lake.table("raw.events").count() == 10
        lake.drop_table("raw.events")
        lake.adopt(str(source), "raw.events")
        assert lake.table("raw.events").count() == 10


def test_an_existing_table_gets_the_rows(store: Store, tmp_path: Path) -> None:
    source = one_file(tmp_path / "src", pa.table({"b": pa.array([1, 2], pa.int32()), "a": ["x", "y"]}))
    with store.open() as lake:
        table = lake.create_table("t", {"a": "VARCHAR", "b": "BIGINT"})
        table.append([{"a": "own", "b": 0}])
        lake.adopt(str(source), "t", verify="full")
        assert rows(lake, "SELECT a, b FROM t ORDER BY b") == [("own", 0), ("x", 1), ("y", 2)]
        lake.create_table("u", {"a": "VARCHAR"})
        with refused(lake, SchemaError, "column 'b' that is not in main.u"):
            lake.adopt(str(source), "u")
        lake.create_table("v", {"a": "VARCHAR", "b": "SMALLINT"})
        with refused(lake, SchemaError, "SMALLINT"):
            lake.adopt(str(source), "v")


NAMES = pa.array(["a", "b"])
FAULTS: dict[str, tuple[pa.Table, dict[str, Any], type[LakeconfError], str]] = {
    "int96": (
        pa.table({"t": [datetime(2026, 1, 1)]}), {"use_deprecated_int96_timestamps": True}, UnsupportedError, "INT96",
    ),
    "nan": (pa.table({"f": [1.0, math.nan]}), {}, CommitError, "'f' of .* has NaN"),
    "nan in a struct": (pa.table({"s": [{"f": math.nan}]}), {}, CommitError, r"'s\.f' of .* has NaN"),
    "no bounds": (pa.table({"a": NAMES}), {"write_statistics": False}, CommitError, "no bounds in its footer"),
    "a hidden name": (pa.table({"filename": NAMES}), {}, UnsupportedError, "hides a column"),
    "a reserved name": (pa.table({"__lakeconf_x": NAMES}), {}, SchemaError, "is reserved"),
    "one name twice": (pa.table([NAMES, NAMES], ["a", "A"]), {}, SchemaError, "two columns of one name"),
    "row ids": (
        pa.table([NAMES], pa.schema([pa.field("a", pa.string(), metadata={b"PARQUET:field_id": b"2147483540"})])),
        {}, UnsupportedError, "hidden columns of another lake",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_files_that_ducklake_would_read_wrongly_are_refused(store: Store, tmp_path: Path, fault: str) -> None:
    table, options, error, match = FAULTS[fault]
    source = one_file(tmp_path / "src", table, **options)
    with store.open() as lake, refused(lake, error, match):
        lake.adopt(str(source), "raw.t")


def test_an_encrypted_lake_adopts_nothing(tmp_path: Path) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1]}))
    with store_of(tmp_path, encrypted=True).open() as lake:
        lake.create_table("raw.t", {"a": "BIGINT"}).append([{"a": 7}])
        for name in ("raw.t", "raw.new"):
            with refused(lake, UnsupportedError, "encrypts its files"):
                lake.adopt(str(source), name)
        assert rows(lake, "FROM raw.t") == [(7,)]


def field(
    name: str, *fields: Field, kind: str | None = None, rep: str = "OPTIONAL", meaning: str | None = None
) -> Field:
    return Field(name, kind, rep, meaning, None, fields)


def test_lists_and_maps_of_older_writers_are_refused() -> None:
    number = field("element", kind="INT64")
    for repeated in (
        field("array", kind="INT64", rep="REPEATED"),
        field("array", number, rep="REPEATED"),
        field("a_tuple", number, rep="REPEATED"),
        field("list", number, number, rep="REPEATED"),
        field("list", number),
    ):
        with pytest.raises(UnsupportedError, match="older writers"):
            check_schemas({"f": (field("s", field("a", repeated, meaning="LIST")),)})
    with pytest.raises(UnsupportedError, match="older writers"):
        check_schemas({"f": (field("m", field("key_value", number, rep="REPEATED"), meaning="MAP"),)})
    with pytest.raises(UnsupportedError, match="is repeated without being a list"):
        check_schemas({"f": (field("a", kind="INT64", rep="REPEATED"),)})
    check_schemas({"f": (field("a", field("list", number, rep="REPEATED"), meaning="LIST"),)})


def test_statistics_that_lie_are_refused(store: Store, tmp_path: Path) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1, 5]}), compression="none", use_dictionary=False)
    path = source / "a.parquet"
    content = path.read_bytes()
    one, three, five = (number.to_bytes(8, "little") for number in (1, 3, 5))
    before, values, after = content.partition(one + five)
    assert five in after
    path.write_bytes(before.replace(five, three) + values + after.replace(five, three))
    with store.open() as lake, refused(lake, CommitError, "outside of the bounds"):
        lake.adopt(str(source), "raw.t")


def test_folders_and_files_that_do_not_fit_each_other(store: Store, tmp_path: Path) -> None:
    a, b, typed = pa.table({"a": [1]}), pa.table({"b": [1]}), pa.table({"a": ["text"]})
    cases: list[tuple[list[tuple[str, pa.Table]], type[LakeconfError], str]] = [
        ([("x", a), ("y", b)], SchemaError, "do not have the same columns"),
        ([("x", a), ("y", typed)], SchemaError, "cannot register|has the type|cannot"),
        ([("k=1", a), ("j=1", a)], SchemaError, "folders for other columns"),
        ([("k=1", a), (".", a)], SchemaError, "folders for other columns"),
        ([("k=1/k=2", a)], SchemaError, "two folders"),
        ([("a=2", a)], SchemaError, "other values in the column 'a'"),
        ([("a=1/k=2", a)], SchemaError, "also in their paths"),
    ]
    with store.open() as lake:
        for number, (parts, error, match) in enumerate(cases):
            source = tmp_path / f"src{number}"
            for folder, table in parts:
                one_file(source / folder, table)
            with refused(lake, error, match):
                lake.adopt(str(source), "raw.t")
        for place in ("s3://u:planted@acme/x", "az://a.blob.core.windows.net/c/x?sig=planted"):
            with pytest.raises(LakeconfError, match="contains a user, a password or a token") as raised:
                lake.adopt(place, "raw.t")
            assert "planted" not in str(raised.value)
        one_file(tmp_path / "same" / "a=1", a)
        lake.adopt(str(tmp_path / "same"), "raw.same")
        assert rows(lake, "FROM raw.same") == [(1,)]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("INTEGER", "the value '' of the column 'k' in a path is not of the type INTEGER"),
        ("BOGUS", "the unknown type 'BOGUS'"),
        ("ENUM('a')", "cannot have the type"),
        ("STRUCT(a INTEGER)", "cannot have the type"),
        ("INTEGER}); DROP TABLE t --", "cannot have the type"),
    ],
)
def test_types_that_values_in_paths_do_not_have_are_refused(
    store: Store, tmp_path: Path, kind: str, message: str
) -> None:
    for value in ("", "1"):
        one_file(tmp_path / "src" / f"k={value}", pa.table({"a": [1]}))
    with store.open() as lake, refused(lake, SchemaError, message):
        lake.adopt(str(tmp_path / "src"), "raw.t", types={"k": kind})


def test_a_file_that_crosses_partitions_of_the_table_is_refused(store: Store, tmp_path: Path) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1, 2], "day": [date(2026, 1, 1), date(2026, 1, 2)]}))
    with store.open() as lake:
        lake.create_table("raw.t", {"a": "BIGINT", "day": "DATE"}, partitioned_by=["day"])
        with refused(lake, SchemaError, "DuckLake cannot register the files"):
            lake.adopt(str(source), "raw.t")


def test_a_folder_that_was_moved_is_refused(store: Store, tmp_path: Path) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1]}))
    one_file(tmp_path / "other", pa.table({"a": [7, 8, 9]}))
    with store.open() as lake:
        lake.adopt(str(source), "raw.t")
        source.rename(tmp_path / "moved")
        with refused(
            lake,
            StorageError,
            "which no longer exists or is behind a link, and .*moved/a.parquet has its name and size",
        ):
            lake.adopt(str(tmp_path / "moved"), "raw.t")
        lake.adopt(str(tmp_path / "other"), "raw.t")
        (tmp_path / "moved").rename(source)
        assert rows(lake, "SELECT count(*) FROM raw.t") == [(4,)]


def test_odd_partition_values_are_read_as_they_are_meant(store: Store, tmp_path: Path) -> None:
    texts = ["a b", "a/b", "ü=%", "x'y", "NULL", "", "08", None]
    values = ", ".join("NULL" if text is None else "'" + text.replace("'", "''") + "'" for text in texts)
    source = tmp_path / "src"
    duckdb.sql(
        f"COPY (SELECT unnest([{values}]) AS k, unnest(range({len(texts)})) AS id) TO '{source}' "
        "(FORMAT parquet, PARTITION_BY (k))"
    )
    expected = duckdb.sql(f"SELECT k, id FROM read_parquet('{source}/*/*', hive_partitioning = true)").fetchall()
    with store.open() as lake:
        try:
            lake.adopt(str(source), "raw.t", types={"k": "VARCHAR"}, verify="full")
        except LakeconfError as error:  # DuckLake reads the text NULL as NULL
            assert "other values in the column 'k'" in error.message  # noqa: PT017
            shutil.rmtree(next(path for path in source.iterdir() if path.name == "k=NULL"))
            lake.adopt(str(source), "raw.t", types={"k": "VARCHAR"}, verify="full")
            expected = [row for row in expected if row[1] != texts.index("NULL")]
        assert sorted(rows(lake, "SELECT k, id FROM raw.t"), key=lambda row: row[1]) == sorted(
            expected, key=lambda row: row[1]
        )


def test_links_hidden_files_and_other_files(store: Store, tmp_path: Path) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1]}))
    one_file(tmp_path / "secret", pa.table({"a": [2]}), "s.parquet")
    (source / "_SUCCESS").touch()
    one_file(source / "_temporary" / "0", pa.table({"z": [1]}))
    (source / ".a.parquet.crc").write_bytes(b"x")
    with store.open() as lake:
        for name, target in (("link.parquet", tmp_path / "secret" / "s.parquet"), ("folder", tmp_path / "secret")):
            (source / name).symlink_to(target)
            with refused(lake, StorageError, "is a link"):
                lake.adopt(str(source), "raw.t")
            (source / name).unlink()
        (source / "part-00000").write_bytes(b"x")
        with refused(lake, StorageError, "not named as Parquet files: part-00000"):
            lake.adopt(str(source), "raw.t")
        (source / "part-00000").unlink()
        lake.adopt(str(source), "raw.t")
        assert rows(lake, "FROM raw.t") == [(1,)]
        for path in (tmp_path, tmp_path / "data", tmp_path / "data" / "raw"):
            path.mkdir(exist_ok=True)
            with refused(lake, StorageError, "overlap"):
                lake.adopt(str(path), "raw.u")
        for text, error in (("http://host/x", UnsupportedError), ("nowhere", FileMissingError), ("", StorageError)):
            with refused(lake, error, "."):
                lake.adopt(text, "raw.u")
        (tmp_path / "empty").mkdir()
        with refused(lake, FileMissingError, "no Parquet files"):
            lake.adopt(str(tmp_path / "empty"), "raw.u")


def test_changed_and_missing_files_are_refused(store: Store, tmp_path: Path) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1]}))
    one_file(source, pa.table({"a": [2]}), "b.parquet")
    with store.open() as lake:
        lake.adopt(str(source), "raw.t")
        one_file(source, pa.table({"a": [7, 8, 9]}))
        with refused(lake, StorageError, "changed after raw.t had adopted it"):
            lake.adopt(str(source), "raw.t")
        (source / "a.parquet").unlink()
        with refused(lake, CommitConflictError, "has removed or rewritten 1 file"):
            lake.adopt(str(source), "raw.t")
    (source / "b.parquet").write_bytes(b"PAR1 no PAR1")
    with store.open() as lake, refused(lake, LakeconfError, "b.parquet"):
        lake.adopt(str(source), "raw.other")


def test_a_file_that_changes_before_the_commit_is_not_adopted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1]}))
    checked = trial.check_rows

    def check_and_change(*arguments: Any, **options: Any) -> int:
        count = checked(*arguments, **options)
        one_file(source, pa.table({"a": [2, 3]}))
        return count

    monkeypatch.setattr(adoption, "check_rows", check_and_change)
    with store.open() as lake, refused(lake, CommitConflictError, "has changed since its rows were read"):
        lake.adopt(str(source), "raw.t")


def test_two_adoptions_at_once_do_not_add_a_file_twice(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = one_file(tmp_path / "src", pa.table({"a": [1]}))
    checked = trial.check_rows
    with store.open() as lake, store.open() as other:
        lake.create_table("raw.t", {"a": "BIGINT"})
        other.refresh()

        def check_while_another_adopts(*arguments: Any, **options: Any) -> int:
            monkeypatch.setattr(adoption, "check_rows", checked)
            other.adopt(str(source), "raw.t")
            return checked(*arguments, **options)

        monkeypatch.setattr(adoption, "check_rows", check_while_another_adopts)
        with pytest.raises(CommitConflictError, match="another process adopted files into"):
            lake.adopt(str(source), "raw.t")
        lake.refresh()
        assert rows(lake, "FROM raw.t") == [(1,)]
        assert not lake.plan_adopt(str(source), "raw.t").is_needed


def test_maintenance_neither_removes_nor_rewrites_adopted_files(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "src")
    before = contents(source)
    with store.open() as lake:
        lake.adopt(str(source), "raw.events")
        table = lake.table("raw.events")
        for number in range(3):
            table.append(
                lake.sql(f"SELECT {number} AS id, 'own' AS name, {{'x': 1}} AS st, DATE '2026-01-01' AS day, 9 AS kind")
            )
        table.delete("name <> 'own' AND id < 9")
        maintain_all(lake)
        assert rows(lake, "SELECT count(*), sum(id) FROM raw.events") == [(4, 12)]
        assert contents(source) == before
        own = [file.path for file in lake.table("raw.events").files() if not file.path.startswith(str(source))]
        assert len(own) == 1  # only the lake's own files were merged
        lake.drop_table("raw.events")
        maintain_all(lake)
        assert contents(source) == before
        assert rows(lake, "SELECT count(*) FROM __ducklake_metadata_dev.ducklake_files_scheduled_for_deletion") == [
            (0,)
        ]


def test_maintenance_rewrites_and_removes_files_that_the_lake_owns_now(store: Store, tmp_path: Path) -> None:
    source, kept = written(tmp_path / "src"), written(tmp_path / "kept")
    before = contents(kept)
    owner = store.replace(maintenance={"owns": str(source)})
    with owner.open() as lake:
        lake.adopt(str(source), "raw.events")
        lake.adopt(str(kept), "raw.kept")
        lake.table("raw.events").delete("id < 9")
        lake.table("raw.kept").delete("id < 9")
        maintain_all(lake)
        assert len(contents(source)) == 1
        assert contents(kept) == before
        assert rows(lake, "SELECT id FROM raw.events UNION ALL SELECT id FROM raw.kept") == [(9,), (9,)]


def test_cleanup_keeps_a_file_of_the_lake_that_another_table_has_adopted_too(store: Store, tmp_path: Path) -> None:
    shared, source = tmp_path / "shared", tmp_path / "shared" / "src"
    for number in range(3):
        one_file(source, pa.table({"a": [number]}), f"{number}.parquet")
    one_file(shared / "alone", pa.table({"a": [7]}))
    with store.replace(maintenance={"owns": str(shared)}).open() as lake:

        def removed() -> set[str]:
            lake.maintenance.expire_snapshots(older_than=timedelta(), force=True)
            return {Path(path).name for path in lake.maintenance.cleanup(older_than=timedelta(), force=True)}

        for name in ("raw.t", "raw.u"):
            lake.adopt(str(source), name)
        for name in ("raw.alone", "raw.also"):
            lake.adopt(str(shared / "alone"), name)
            lake.drop_table(name)
        lake.table("raw.t").delete("a < 2")
        assert removed() == {"a.parquet"}
        assert not lake.maintenance.plan_cleanup(older_than=timedelta(), force=True).paths
        assert rows(lake, "SELECT count(*) FROM raw.u") == [(3,)]
        lake.drop_table("raw.u")
        assert removed() == {"0.parquet", "1.parquet"}
        assert rows(lake, "SELECT a FROM raw.t") == [(2,)]
        lake.drop_table("raw.t")
        assert removed() == {"2.parquet"}


@pytest.mark.slow
def test_spark_reads_adopted_tables_as_duckdb_does(store: Store, tmp_path: Path, classic_session: Any) -> None:
    source = written(tmp_path / "src")
    with store.open() as lake:
        lake.adopt(str(source), "raw.events")
    with store.open(classic_session) as lake:
        frame = lake.table("raw.events").scan().to_native()
        found = sorted((row.id, row.name, row.kind, row.day, row.st.x) for row in frame.collect())
        assert found == [(i, f"n{i}", i % 3, date(2026, 1, 1 + i % 2), i) for i in range(10)]
        assert lake.table("raw.events").scan(where="kind = 1").to_native().count() == 3


@pytest.mark.slow
@pytest.mark.parametrize("catalog", ["sqlite", "duckdb", "postgres"])
def test_adoption_from_a_bucket_on_each_catalog(
    request: pytest.FixtureRequest, tmp_path: Path, s3_server: S3Server, catalog: str
) -> None:
    storage = in_bucket(s3_server)
    config = config_of(tmp_path, on_catalog(request, tmp_path, catalog), storage)
    local = written(tmp_path / "src")
    store = lakeconf.init(config).get_store("dev")
    bucket = storage["bucket"]
    for path in local.rglob("*.parquet"):
        s3_server.client().put_object(Bucket=bucket, Key=f"old/{path.relative_to(local)}", Body=path.read_bytes())
    with store.open() as lake:
        lake.adopt(f"s3://{bucket}/old", "raw.events", verify="full")
        assert rows(lake, "SELECT count(*), sum(id), max(kind) FROM raw.events") == [(10, 45, 2)]
        for same in (f"s3://{bucket}/old/", f"s3a://{bucket}/old", f"s3n://{bucket}/old//"):
            assert not lake.plan_adopt(same, "raw.events").is_needed
        with refused(lake, StorageError, "overlap"):
            lake.adopt(f"s3a://{bucket}/lake", "raw.own")
        lake.table("raw.events").delete("kind = 0")
        lake.drop_table("raw.events")
        lake.restore("raw.events", version=lake.snapshot_id - 1)
        lake.rename_table("raw.events", "raw.renamed")
        assert not lake.plan_adopt(f"s3a://{bucket}/old", "raw.renamed").is_needed
        lake.rename_table("raw.renamed", "raw.events")
        lake.drop_table("raw.events")
        maintain_all(lake)
        keys = s3_server.client().list_objects_v2(Bucket=bucket, Prefix="old/")["KeyCount"]
        assert keys == len(list(local.rglob("*.parquet")))
