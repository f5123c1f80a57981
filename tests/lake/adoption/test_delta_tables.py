"""`Lake.adopt` registers Delta tables: `deltalake` writes them and judges the rows; hostile logs lead nowhere."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from local_stores import config_of, in_bucket
from refused_adoptions import contents, maintain_all, refused, rows

import lakeconf
from lakeconf.errors import CommitConflictError, CommitError, LakeconfError, QueryError, SchemaError

if TYPE_CHECKING:
    from servers import S3Server

    from lakeconf import Store

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "kind": ["x", "y z/ü", None],
        "at": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
        "price": pa.array([1, 2, None], pa.decimal128(10, 2)),
        "tags": [["a"], [], None],
        "place": [{"x": 1.5}, {"x": None}, None],
    }
)


def written(folder: Path, table: pa.Table = ROWS, **options: Any) -> Path:
    write_deltalake(folder, table, **options)
    return folder


def judged(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of a Delta table as deltalake reads them."""
    table = DeltaTable(folder).to_pyarrow_table()
    return sorted((tuple(row[name] for name in table.column_names) for row in table.to_pylist()), key=repr)


def change_log(folder: Path, change: Any) -> None:
    """Changes each action of the first commit."""
    path = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        change(action)
    path.write_text("\n".join(map(json.dumps, actions)))


def test_a_delta_table_becomes_a_table_and_new_commits_add_files(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "d", partition_by=["kind"])
    before = contents(source)
    with store.open() as lake:
        plan = lake.plan_adopt(str(source), "raw.d")
        assert (plan.kind, plan.version, len(plan.files), plan.rows, plan.partitions) == (
            "Delta table",
            0,
            3,
            3,
            ("kind",),
        )
        lake.adopt(str(source), "raw.d", verify="full")
        assert contents(source) == before
        written(source, mode="append")
        lake.adopt(str(source), "raw.d", verify="full")
        assert not lake.plan_adopt(str(source), "raw.d").is_needed
        found = rows(lake, "SELECT id, kind, price, tags, place FROM raw.d")
        assert sorted(found, key=repr) == sorted([(*row[:2], *row[3:]) for row in judged(source)], key=repr)
        maintain_all(lake)
        DeltaTable(source).optimize.compact()
        with refused(lake, CommitConflictError, "has removed or rewritten 6 files"):
            lake.adopt(str(source), "raw.d")
        with pytest.raises(SchemaError, match="keep their types"):
            lake.adopt(str(source), "raw.e", types={"id": "INTEGER"})


def test_files_that_the_log_does_not_list_are_not_adopted(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "d")
    written(source, mode="overwrite")
    with store.open() as lake:
        lake.adopt(str(source), "raw.d", verify="full")
        assert lake.table("raw.d").count() == 3


@pytest.mark.parametrize(
    ("feature", "match"),
    [("deletionVectors", "deletion vectors"), ("columnMapping", "column mapping"), ("fromTheFuture", "fromTheFuture")],
)
def test_features_that_change_rows_are_refused(store: Store, tmp_path: Path, feature: str, match: str) -> None:
    source = written(tmp_path / "d", pa.table({"id": [1]}))

    def change(action: dict[str, Any]) -> None:
        if "protocol" in action:
            features = {"readerFeatures": [feature], "writerFeatures": [feature]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "metaData" in action and feature == "columnMapping":
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"]):
                mapped = {"id": number + 1, "physicalName": f"col-{number}"}
                field["metadata"] = {f"delta.columnMapping.{key}": value for key, value in mapped.items()}
            action["metaData"]["schemaString"] = json.dumps(schema)

    change_log(source, change)
    with store.open() as lake, refused(lake, LakeconfError, match):
        lake.adopt(str(source), "raw.d")


@pytest.mark.parametrize(
    "path",
    [
        *("../secret/s.parquet", "%2e%2e/secret/s.parquet", "_delta_log/../../secret/s.parquet", "/etc/passwd"),
        *("file:///etc/passwd", "http://127.0.0.1:1/x.parquet", "s3://other/x.parquet"),
        *("nothing.parquet", "link.parquet", "linked/s.parquet"),
    ],
)
def test_a_hostile_log_leads_nowhere(store: Store, tmp_path: Path, path: str) -> None:
    source = written(tmp_path / "d")
    secret = written(tmp_path / "secret")
    target = next(secret.glob("*.parquet")).rename(secret / "s.parquet")
    (source / "link.parquet").symlink_to(target)
    (source / "linked").symlink_to(secret)

    def change(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"]["path"] = path

    change_log(source, change)
    with store.open() as lake, refused(lake, LakeconfError, "."):
        lake.adopt(str(source), "raw.d")


def test_a_log_that_contradicts_the_paths_or_the_files(store: Store, tmp_path: Path) -> None:
    source = written(tmp_path / "d", partition_by=["kind"])

    def change(action: dict[str, Any]) -> None:
        if "add" in action and action["add"]["partitionValues"]["kind"] == "x":
            action["add"]["partitionValues"]["kind"] = "other"

    change_log(source, change)
    evolved = written(tmp_path / "e", pa.table({"a": [1]}))
    written(evolved, pa.table({"a": [1], "b": [2]}), mode="append", schema_mode="merge")
    damaged = written(tmp_path / "damaged")
    (damaged / "_delta_log" / f"{0:020}.json").write_text("{")
    with store.open() as lake:
        with refused(lake, CommitError, "do not read the same rows"):
            lake.adopt(str(source), "raw.d")
        with refused(lake, SchemaError, "do not have the same columns"):
            lake.adopt(str(evolved), "raw.d")
        with refused(lake, QueryError, "cannot be read"):
            lake.adopt(str(damaged), "raw.d")


@pytest.mark.slow
def test_random_delta_tables_have_the_rows_that_deltalake_reads(store: Store, tmp_path: Path) -> None:
    chosen = random.Random(50)  # noqa: S311 - test data
    with store.open() as lake:
        for number in range(6):
            source = tmp_path / f"d{number}"
            for step in range(chosen.randint(1, 4)):
                ids = pa.array([chosen.randint(0, 9) for _ in range(8)], pa.int64())
                kinds = pa.array([chosen.choice(["a b", "ü", None, "1"]) for _ in range(8)])
                floats = pa.array([chosen.choice([0.0, -0.0, 1.5, None]) for _ in range(8)])
                table = pa.table({"id": ids, "kind": kinds, "f": floats})
                partition = ["kind"] if number % 2 else None
                written(source, table, mode="append" if step else "error", partition_by=partition)
                if chosen.random() < 0.5:
                    DeltaTable(source).delete(f"id = {chosen.randint(0, 9)}")
            name = f"raw.t{number}"
            lake.adopt(str(source), name, verify="full")
            found = sorted(rows(lake, f"SELECT id, kind, f FROM {name}"), key=repr)
            table = DeltaTable(source).to_pyarrow_table().select(["id", "kind", "f"])
            assert found == sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.mark.slow
def test_a_delta_table_in_a_bucket_is_read_with_the_secret_of_the_lake_only(
    tmp_path: Path, s3_server: S3Server
) -> None:
    storage = in_bucket(s3_server)
    local, bucket = written(tmp_path / "d", partition_by=["kind"]), storage["bucket"]
    for path in local.rglob("*"):
        if path.is_file():
            key = f"old/{path.relative_to(local)}"
            s3_server.client().put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    with lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev").open() as lake:
        lake.adopt(f"s3://{bucket}/old", "raw.d", verify="full")
        assert sorted(rows(lake, "SELECT id, kind FROM raw.d"), key=repr) == sorted(
            [(row[0], row[1]) for row in judged(local)], key=repr
        )
