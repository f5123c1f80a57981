"""The tables for `ducklake_commit`, and the versions of the extension that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.commit.staged_commit import COLUMNS, commit, fill, is_metadata_of
from lakeconf.ducklake import STAGED_COMMIT_VERSIONS
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from catalog_lake import Lake


def test_these_tests_run_each_version_that_may_commit(usual: Lake) -> None:
    """After an upgrade: compare `COLUMNS` with the extension's source, and run `make prove` before adding a version."""
    found = usual.rows("SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'ducklake'")
    assert {version for (version,) in found} == STAGED_COMMIT_VERSIONS


def test_values_are_stored_as_they_are(usual: Lake) -> None:
    with usual.connection.cursor() as cursor:
        fill(cursor, {"dropped_file": [("it's", None)], "tables_deleted_from": [(1,), (2,)], "compaction": []})
        assert cursor.rows("FROM ducklake_staged_dropped_file") == [("it's", None)]
        assert cursor.rows("FROM ducklake_staged_tables_deleted_from") == [(1,), (2,)]
        tables = cursor.rows("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'ducklake_staged_%'")
        assert {name.removeprefix("ducklake_staged_") for (name,) in tables} == COLUMNS.keys()


def test_commit_without_a_header_fails(usual: Lake) -> None:
    before = usual.newest
    with usual.connection.cursor() as cursor:
        fill(cursor, {})
        with pytest.raises(LakeconfError, match="no staged commit header"):
            commit(cursor, "__ducklake_metadata_lake", 0)
    assert usual.newest == before


def test_metadata_are_recognized_by_the_id_of_the_lake(usual: Lake) -> None:
    name, connection = usual.reader.metadata_database, usual.connection
    assert is_metadata_of(connection, name, usual.reader.lake_id)
    assert not is_metadata_of(connection, name, "another lake")
