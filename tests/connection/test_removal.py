from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.connection.connection import connect, load_extension, remove_files

if TYPE_CHECKING:
    from pathlib import Path


def test_exactly_the_given_files_are_removed(tmp_path: Path) -> None:
    names = ["a.parquet", "a'b [c].parquet", "b.parquet"]
    for name in names:
        (tmp_path / name).write_text("x")
    with connect() as connection:
        load_extension(connection, "ducklake")
        remove_files(connection, [str(tmp_path / name) for name in [*names[:2], "missing.parquet"]])
        attached = connection.rows("SELECT database_name FROM duckdb_databases() WHERE NOT internal")
    assert [path.name for path in tmp_path.iterdir()] == ["b.parquet"]
    assert attached == [("memory",)]
