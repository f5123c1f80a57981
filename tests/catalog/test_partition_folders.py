"""The folders of partitions, by the keys of a table; that DuckLake uses the same ones is tested with its own files."""

from __future__ import annotations

import pytest

from lakeconf.catalog.data_file import folder_keys, folder_values
from lakeconf.catalog.tables import NO_ID, Column, PartitionField, TableInfo
from lakeconf.errors import StorageError

TYPES = {
    "day": "date",
    "at": "timestamp",
    "kind": "varchar",
    "price": "decimal(10,2)",
    "zoned": "timestamptz",
    "at2": "timestamp",
}


def table(keys: list[str], types: dict[str, str] | None = None, *, path: str = "/data/s/t/", id_: int = 1) -> TableInfo:
    """A table with keys such as `day` and `year day`."""
    columns = tuple(
        Column(number, name, text, nullable=True, initial_default=None)
        for number, (name, text) in enumerate((types or TYPES).items())
    )
    ids = {column.name: column.field_id for column in columns}
    named = [key.rpartition(" ") for key in keys]
    fields = tuple(
        PartitionField(index, ids.get(name, 99), transform or "identity")
        for index, (transform, _, name) in enumerate(named)
    )
    return TableInfo(id_, "s", "t", columns, path, 0 if keys else None, fields)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["day"], ["day"]),
        (["kind", "price", "zoned"], ["kind", "price", "zoned"]),
        (["month at", "year day"], ["month", "year"]),
        (["year at", "kind", "year day"], ["year", "kind", "year_day"]),
        (["hour at", "month at2"], ["hour", "month"]),
    ],
)
def test_keys_have_the_names_of_ducklake(keys: list[str], names: list[str]) -> None:
    found = folder_keys(table(keys))
    assert [key.name for key in found] == names
    assert [f"{key.transform} {key.column.name}".removeprefix("identity ") for key in found] == keys


@pytest.mark.parametrize(
    ("keys", "types"),
    [
        ([], TYPES),
        (["year day", "month day"], TYPES),
        (["day at"], TYPES),
        (["day", "year day"], TYPES),
        (["year zoned"], TYPES),
        (["hour day"], TYPES),
        (["bucket(4) kind"], TYPES),
        (["gone"], TYPES),
        (["kind", "d"], {"kind": "varchar", "d": "float64"}),
        (["k"], {"k": "float32"}),
        (["k"], {"k": "blob"}),
        (["k"], {"k": "uuid"}),
        (["k"], {"k": "struct"}),
        (["year k"], {"k": "decimal(10,2)"}),
        (["year k"], {"k": "date", "YEAR": "int32"}),
        (["year k", "year L"], {"k": "date", "L": "date", "year_l": "int32"}),
        (["a b"], {"a b": "int32"}),
        (["a=b"], {"a=b": "int32"}),
        (["ü"], {"ü": "int32"}),
        (["year k", "year l l"], {"k": "date", "l l": "date"}),
    ],
)
def test_keys_without_certain_folders_have_none(keys: list[str], types: dict[str, str]) -> None:
    assert folder_keys(table(keys, types)) == ()


@pytest.mark.parametrize("path", ["/env=prod/data/s/t/", "s3://bucket/a=b/s/t/", "/data/s/t=/"])
def test_folder_above_the_table_must_not_look_like_a_key(path: str) -> None:
    assert folder_keys(table(["day"], path=path)) == ()


@pytest.mark.parametrize(("schema", "name", "known"), [("s", "a-b_1", True), ("s", "a b", False), ("ü", "t", False)])
def test_folder_of_a_new_table_is_known_for_plain_names(schema: str, name: str, known: bool) -> None:
    """DuckLake invents a folder for other names when it commits."""
    new = table(["day"], id_=NO_ID)
    new = TableInfo(NO_ID, schema, name, new.columns, new.path, 0, new.partition_fields)
    assert bool(folder_keys(new)) is known
    committed = TableInfo(7, schema, name, new.columns, new.path, 0, new.partition_fields)
    assert folder_keys(committed)


def test_files_whose_values_are_not_read_from_paths_may_have_two_keys_on_a_column() -> None:
    keys = folder_keys(table(["year day", "month day", "day"], path="/d=1/t/"), registered=False)
    assert [key.name for key in keys] == ["year", "month", "day"]


@pytest.mark.parametrize(
    ("folder", "values"),
    [
        ("kind=a%20b%2Fc/year=2024/", ("a b/c", "2024")),
        ("kind=/year=__HIVE_DEFAULT_PARTITION__/", ("", None)),
        ("kind=%C3%A9%2B+/year=1/", ("é++", "1")),
        ("kind=a=b/year=1/", ("a=b", "1")),
    ],
)
def test_values_of_a_file_come_from_its_folder(folder: str, values: tuple[str | None, ...]) -> None:
    assert folder_values(table(["kind", "year day"]), f"/data/s/t/{folder}f.parquet") == values


@pytest.mark.parametrize(
    "path",
    ["/data/s/t/f.parquet", "/data/s/t/kind=a/f.parquet", "/data/s/t/year=1/kind=a/f", "/data/s/u/kind=a/year=1/f"],
)
def test_file_in_another_folder_has_no_values(path: str) -> None:
    with pytest.raises(StorageError, match=r"is not in the folder of a partition of s\.t"):
        folder_values(table(["kind", "year day"]), path)
