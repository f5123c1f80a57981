"""Data files, delete files and name mappings, as rows of the catalog become values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.data_file import (
    DataFile,
    load_data_files,
    to_data_file,
    to_delete_file,
)
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_lake import Lake

TABLE = TableInfo(1, "main", "t", (), "/data/main/t/")
ROW = ["f.parquet", True, "parquet", 10, 200, 5, 2, None, None, None, None, False]


def loaded(source: Lake, version: int | None = None, ids: Sequence[int] | None = None) -> tuple[DataFile, ...]:
    at = source.newest if version is None else version
    table = load_table(source.reader, "t", at)
    with source.reader.transaction() as transaction:
        return load_data_files(transaction, table, at, ids)


@pytest.fixture
def files(local: Lake) -> Lake:
    """A lake with a table `t`; the snapshots 2, 3 and 4 add the files 0, 1 and 2 with ten rows each."""
    local.run("CREATE TABLE lake.t (a INTEGER)")
    for start in (0, 10, 20):
        local.run(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 10})")
    return local


def test_unknown_format_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"^the data file 'f\.orc' has the format 'orc'; lakeconf only reads parquet$"
    ):
        to_data_file(TABLE, [7, "f.orc", True, "orc", *ROW[3:]])
    message = r"^the delete file '/data/main/t/d' has the format 'orc'; lakeconf only reads parquet and puffin$"
    with pytest.raises(UnsupportedError, match=message):
        to_delete_file(TABLE, ["d", True, "orc", 3, 40, None])


def test_repr_shows_no_encryption_key() -> None:
    hidden = "c2VjcmV0IGtleQ=="
    data_file = to_data_file(TABLE, [1, *ROW[:10], hidden, False])
    delete_file = to_delete_file(TABLE, ["d", True, "puffin", 3, 40, hidden])
    assert (data_file.encryption_key, delete_file.encryption_key) == (hidden, hidden)
    assert hidden not in repr((data_file, delete_file))


def test_only_the_wanted_files_are_loaded(files: Lake) -> None:
    files.run("DELETE FROM lake.t WHERE a IN (3, 15)")
    for wanted, found in (([], []), ([1], [1]), ([2, 0], [0, 2]), ([99], []), (range(0, 2000, 2), [0, 2])):
        some = loaded(files, ids=list(wanted))
        assert [file.data_file_id for file in some] == found
        assert some == tuple(file for file in loaded(files) if file.data_file_id in found)
