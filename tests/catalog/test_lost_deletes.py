"""Detection of deletes that a concurrent rewrite by another tool undid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.backends.metadata.file_catalogs import DuckDBMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.catalog.health import lost_deletes
from lakeconf.cli.app import run
from lakeconf.store import Store

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
default_store = "dev"

[stores.dev.metadata_backend]
type = "duckdb"
uri = "catalog.duckdb"

[stores.dev.storage_backend]
type = "local"
path = "data"
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    (tmp_path / "lakeconf.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return Store("dev", DuckDBMetadata(uri=str(tmp_path / "catalog.duckdb")), LocalStorage(path=str(tmp_path / "data")))


def delete_beside_a_rewrite(store: Store, *, overlap: bool) -> None:
    """Deletes row 50 with plain DuckDB, and rewrites its file before or after that transaction commits."""
    with store.connect() as writer, writer.cursor() as rewriter:
        writer.execute("CREATE TABLE dev.t AS SELECT range AS i FROM range(100)")
        writer.execute("DELETE FROM dev.t WHERE i < 40")
        writer.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
        writer.execute("BEGIN; DELETE FROM dev.t WHERE i = 50")
        if not overlap:
            writer.execute("COMMIT")
        rewriter.execute("CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)")
        if overlap:
            writer.execute("COMMIT")


@pytest.mark.parametrize("overlap", [True, False])
def test_deletes_undone_by_a_rewrite_are_counted(
    store: Store, overlap: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    delete_beside_a_rewrite(store, overlap=overlap)
    with store.open() as lake:
        found = lake.sql("SELECT count(*) AS n FROM t WHERE i = 50").collect("pyarrow").to_native()["n"].to_pylist()
        # The result of `lost_deletes` matches the rows that DuckDB returns.
        assert found == [int(overlap)]
        reader = lake._session.reader
        assert lost_deletes(reader) == ({("main", "t"): 1} if overlap else {})
        assert lost_deletes(reader, lake.snapshot_id - 1) == {}
    assert run(["doctor"]) == 0
    assert ("deleted rows are visible again: 1 of main.t" in capsys.readouterr().out) == overlap


def test_dropped_table_has_no_lost_deletes(store: Store) -> None:
    delete_beside_a_rewrite(store, overlap=False)
    with store.connect() as writer:
        writer.execute("DELETE FROM dev.t WHERE i = 60; DROP TABLE dev.t")
        writer.execute("CREATE TABLE dev.t AS SELECT range AS i FROM range(100)")
        writer.execute("BEGIN; DELETE FROM dev.t WHERE i = 5; DELETE FROM dev.t WHERE i >= 0; COMMIT")
    with store.open() as lake:
        assert lost_deletes(lake._session.reader) == {}
