"""Why a staged commit cannot carry the outcome of a merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import on_postgres, store_of
from plain_sql import run_plain

from lakeconf import ducklake
from lakeconf.write import staged_refusal, writes
from lakeconf.write.staged_refusal import committer_of_merges, table_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with store_of(tmp_path, data_inlining_row_limit=0).open() as lake:
        yield lake


def refusal_of(lake: Lake, table: str = "t") -> str | None:
    lake.refresh()
    info = writes.target(lake._scope.begin(), table).info
    return table_refusal(lake._session, info, lake.snapshot_id)


# The columns and keys of a table, and the reason.
TABLES = {
    "types": ("id BIGINT, a STRUCT(b DATE, c DECIMAL(9, 2)), d BLOB, e TIMESTAMPTZ", None, None),
    "list": ("id BIGINT, a STRUCT(b INTEGER[])", None, "the type of the column 'a'"),
    "unsigned": ("id UBIGINT", None, "the type of the column 'id'"),
    "hidden": ("id BIGINT, FILENAME VARCHAR", None, "a column hides the places of rows"),
    "path": ('a STRUCT(b INTEGER), "a, b" INTEGER', None, "a column has the name of a field of another column"),
    "keys": ("id BIGINT, day DATE, s VARCHAR", "year(day), s", None),
    "bucket": ("id BIGINT", "bucket(3, id)", "the partition keys of the table"),
    "two keys on a column": ("day DATE", "year(day), month(day)", None),
    "float": ("a DOUBLE", "a", "the partition keys of the table"),
}


@pytest.mark.parametrize(("columns", "keys", "reason"), TABLES.values(), ids=TABLES)
def test_definition_of_a_table(lake: Lake, columns: str, keys: str | None, reason: str | None) -> None:
    run_plain(lake, f"CREATE TABLE t ({columns})")
    if keys:
        run_plain(lake, f"ALTER TABLE t SET PARTITIONED BY ({keys})")
    assert refusal_of(lake) == reason


@pytest.mark.parametrize("constant", ["STAGED_COMMIT_VERSIONS", "STAGED_COMMIT_CATALOGS"])
def test_untested_versions_and_catalogs(lake: Lake, monkeypatch: pytest.MonkeyPatch, constant: str) -> None:
    run_plain(lake, "CREATE TABLE t (id BIGINT)")
    assert getattr(staged_refusal, constant) is getattr(ducklake, constant)
    monkeypatch.setattr(staged_refusal, constant, frozenset({"another"}))
    assert refusal_of(lake) == "the version d8a1881e of the ducklake extension, or a catalog of the type sqlite"


def test_table_with_deletion_vectors(lake: Lake) -> None:
    run_plain(
        lake,
        "CREATE TABLE t (id BIGINT)",
        "CALL ducklake_set_option('dev', 'write_deletion_vectors', true)",
        "INSERT INTO t SELECT i FROM range(100) AS r(i)",
        "DELETE FROM t WHERE id % 2 = 0",
    )
    assert refusal_of(lake) == "the table has deletion vectors"


def test_table_that_contains_a_file_twice(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    added = f"CALL ducklake_add_data_files('dev', 't', '{path}')"
    run_plain(lake, "CREATE TABLE t (id BIGINT)", f"COPY (SELECT 1::BIGINT AS id) TO '{path}'", added)
    assert refusal_of(lake) is None
    run_plain(lake, added)
    assert refusal_of(lake) == "the table contains a file twice"


def test_absolute_folder_below_the_data_path(lake: Lake) -> None:
    run_plain(
        lake,
        "CREATE TABLE t (id BIGINT)",
        "UPDATE __ducklake_metadata_dev.ducklake_table SET path_is_relative = false, "
        f"path = '{lake._session.reader.data_path}main/t/'",
    )
    assert refusal_of(lake) == "the folder of the table is not relative to the data path"


def test_catalog_in_a_schema_of_its_own(tmp_path: Path, postgres_server: PostgresServer) -> None:
    catalog = on_postgres(postgres_server) | {"metadata_schema": "shop"}
    with store_of(tmp_path, catalog).open() as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)")
        assert refusal_of(lake) == "the catalog is in a schema of its own"


@pytest.mark.parametrize(
    ("committer", "answer"),
    [
        ("public", "by DuckDB: the store's committer is public"),
        ("auto", "by a staged commit, if the updated rows have at least 64 MiB"),
        ("staged", "by a staged commit"),
    ],
)
def test_committer_of_merges(lake: Lake, committer: str, answer: str) -> None:
    run_plain(lake, "CREATE TABLE t (id BIGINT)", "CREATE TABLE u (id UBIGINT)")
    lake.refresh()
    lake._session.committer = committer
    t, u = (writes.target(lake._scope.begin(), name).info for name in ("t", "u"))
    assert committer_of_merges(lake._session, t, lake.snapshot_id) == answer
    if committer != "public":
        assert committer_of_merges(lake._session, u, lake.snapshot_id) == "by DuckDB: the type of the column 'id'"


def test_auto_stages_only_what_is_proven(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    run_plain(lake, "CREATE TABLE t (id BIGINT)")
    lake.refresh()
    info = writes.target(lake._scope.begin(), "t").info
    monkeypatch.setattr(staged_refusal, "PROVEN_STAGED_COMMITS", {("d8a1881e", "duckdb"), ("another", "sqlite")})
    found = committer_of_merges(lake._session, info, lake.snapshot_id)
    reason = "the committer auto waits for proof: version d8a1881e of the ducklake extension, sqlite catalog"
    assert found == f"by DuckDB: {reason}"
