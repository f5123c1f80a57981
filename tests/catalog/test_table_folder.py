"""The folder of a new table is the one that DuckLake gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.catalog.tables import load_table, table_folder

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def test_folder_is_the_one_that_ducklake_uses(two_tables: Lake, tmp_path: Path) -> None:
    reader = two_tables._session.reader
    for schema, table in (("main", "fresh"), ("New", "fresh"), ("NEW", "Second")):
        expected = table_folder(reader, schema, table, two_tables.snapshot_id)
        two_tables.create_table(f"{schema}.{table}", {"id": "BIGINT"})
        assert load_table(reader, f"{schema}.{table}", two_tables.snapshot_id).path == expected
    assert expected == f"{tmp_path}/data/New/Second/"
