"""A path is not a pattern: DuckDB's functions that take patterns of files read exactly the given files."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from lake_parts import catalog_of
from local_stores import in_bucket
from source_tree import sources

import lakeconf
from lakeconf.inspection.doctor import diagnose
from lakeconf.sql import files_sql, listing_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import AzureServer, S3Server

    from lakeconf import Store

FUNCTIONS = re.compile(
    r"\b(glob|parquet_\w+|read_\w+|sniff_csv|ducklake_add_data_files)\((?!\))|(?:FROM|JOIN)\s+'[^']*\.(?:parquet|csv|json)'"
)
# The patterns of users, and files that a call registers.
OTHERS = {
    ("lakeconf.pipelines.new_files", "SELECT file FROM glob("),
    ("lakeconf.pipelines.new_files", "SELECT filename, size, epoch_us(last_modified) FROM read_blob("),
    ("lakeconf.transfer.file_copies", "SELECT content FROM read_blob("),
    ("lakeconf.commit.actions", "CALL ducklake_add_data_files("),
    ("lakeconf.write.operations.adopt", "CALL ducklake_add_data_files("),
    ("lakeconf.lake.adoption.folder", "SELECT file FROM glob("),
    ("lakeconf.lake.adoption.other_tables", "SELECT file FROM glob("),
    ("lakeconf.lake.adoption.parquet_folder", "read_parquet("),
    ("lakeconf.sql", "SELECT file FROM glob("),
}
ODD = ["[x]", "a*b", "a[!b]c", "a[b", "{a,b}", "100%", "**"]
PREFIX = "[x]*{a,b} 100%/lake"
ROWS = pa.table({"id": pa.array(range(40), pa.int64()), "kind": ["ab"[i % 2] for i in range(40)]})


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module without its docstrings, and the constant parts of its f-strings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docstrings:
            yield node.value


def test_every_call_with_files_comes_from_one_function() -> None:
    found = {
        (name, text)
        for name, path in sources().items()
        for text in texts(ast.parse(path.read_text()))
        if FUNCTIONS.search(text)
    }
    assert found == OTHERS


def test_no_method_of_duckdb_reads_files() -> None:
    """They take patterns, too. The method of `Lake` takes paths."""
    methods = {"from_csv_auto", "from_parquet", "read_csv", "read_json", "read_parquet"}
    found = {
        (name, ast.unparse(node))
        for name, path in sources().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in methods
    }
    assert found == {("lakeconf.pipelines.file_rows", "lake.read_parquet")}


@pytest.mark.parametrize("name", [*ODD, "what?", "a[?]b", "[[]"])
def test_only_the_file_itself_is_read(tmp_path: Path, name: str) -> None:
    folders = [tmp_path / one for one in (name, "x", "aXb", "axc", "what!")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        duckdb.sql(f"SELECT {number} AS i").write_parquet(str(folder / "f.parquet"))
    path = str(tmp_path / name / "f.parquet")
    assert duckdb.sql(f"SELECT i, filename FROM {files_sql('read_parquet', path)}").fetchall() == [(0, path)]
    listed = f"SELECT file_name FROM {files_sql('parquet_file_metadata', [path])}"
    assert duckdb.sql(listed).fetchall() == [(path,)]
    assert duckdb.sql(listing_sql(f"{tmp_path / name}/", "*")).fetchall() == [(path,)]


def changed_and_read(store: Store) -> list[tuple[int, str]]:
    """Writes to a table in every way, and returns its rows."""
    with store.open() as lake:
        table = lake.create_table("raw.t", like=ROWS, partitioned_by=["kind"])
        table.append(ROWS)
        table.delete("id IN (5, 6)")
        table.update({"kind": "c"}, where="id = 7")
        table.merge(pa.table({"id": pa.array([3, 100], pa.int64()), "kind": ["z", "z"]}), on="id")
        lake.maintenance.compact()
    with store.open() as lake:
        lake.table("raw.t").delete("id = 8")
        return sorted(lake.table("raw.t").scan().collect("pyarrow").rows())


EXPECTED = sorted({**{i: "ab"[i % 2] for i in range(40) if i not in (5, 6, 8)}, 7: "c", 3: "z", 100: "z"}.items())


def test_lake_below_a_prefix_that_looks_like_a_pattern(bucket_server: S3Server | AzureServer, tmp_path: Path) -> None:
    bucket = bucket_server.create_bucket()

    def store(prefix: str) -> Store:
        storage = {**in_bucket(bucket_server, bucket), "prefix": prefix}
        metadata = {"type": "sqlite", "uri": str(tmp_path / f"{prefix.replace('/', ' ')}.sqlite")}
        backends = {"metadata_backend": metadata, "storage_backend": storage}
        return lakeconf.init(
            {"stores": {"dev": {**backends, "attach_options": {"data_inlining_row_limit": 0}}}}
        ).get_store("dev")

    for prefix in ("x-more{a,b} 100%/lake", PREFIX, "a#b/lake"):
        assert changed_and_read(store(prefix)) == EXPECTED
        with store(prefix).open() as lake:
            lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
            assert lake.maintenance.cleanup(older_than=timedelta(0), force=True)
            found = catalog_of(lake).connection.rows(listing_sql(catalog_of(lake).data_path, "**"))
        assert len(found) == len(bucket_server.objects(bucket, prefix)) > 3
    assert [step for step in diagnose(store(PREFIX)) if step.status == "failed"] == []
