"""The tables for `ducklake_commit`, and the versions of the extension that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.commit.staged_commit import is_metadata_of
from lakeconf.ducklake import STAGED_COMMIT_VERSIONS

if TYPE_CHECKING:
    from catalog_lake import Lake


def test_these_tests_run_each_version_that_may_commit(usual: Lake) -> None:
    """After an upgrade: compare `COLUMNS` with the extension's source, and run `make prove` before adding a version."""
    found = usual.rows("SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'ducklake'")
    assert {version for (version,) in found} == STAGED_COMMIT_VERSIONS


def test_metadata_are_recognized_by_the_id_of_the_lake(usual: Lake) -> None:
    name, connection = usual.reader.metadata_database, usual.connection
    assert is_metadata_of(connection, name, usual.reader.lake_id)
    assert not is_metadata_of(connection, name, "another lake")
