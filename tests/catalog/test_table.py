"""Tables of a snapshot: their names, columns, sort keys and options, and the error for a name that no table has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lake_parts import catalog_of
from plain_sql import run_plain

from lakeconf.catalog.queries.stored_queries import view_names
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.sort_keys import SortKey, sort_keys
from lakeconf.catalog.table_options import Comments, TableOptions, comments, table_folder, table_options
from lakeconf.catalog.tables import (
    Column,
    PartitionField,
    TableInfo,
    columns_named,
    full_name,
    joined_name,
    load_table,
    split_name,
    tables,
)
from lakeconf.errors import SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError
from lakeconf.inspection.diff import compare

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import AttachedLake

    import lakeconf


def column(source: AttachedLake, name: str, version: int | None = None) -> Column:
    table = load_table(source.reader, "t", source.newest if version is None else version)
    return next(found for found in table.columns if found.name == name)


def test_table_has_its_columns_and_nested_fields(source: AttachedLake) -> None:
    source.run(
        "CREATE TABLE lake.t (a INTEGER NOT NULL, b DECIMAL(10,2) DEFAULT 1.50, s STRUCT(x INTEGER, y VARCHAR[]), "
        "m MAP(VARCHAR, BIGINT))"
    )
    table = load_table(source.reader, "t", source.newest)
    a, b, s, m = table.columns
    assert (table.schema_name, table.name) == ("main", "t")
    assert table.path == f"{source.folder}/data/main/t/"
    assert a == Column(1, "a", "int32", nullable=False, initial_default=None)
    assert (b.type, b.nullable, b.initial_default) == ("decimal(10,2)", True, "1.50")
    assert [(child.name, child.type) for child in s.children] == [("x", "int32"), ("y", "list")]
    assert [(child.name, child.type) for child in s.children[1].children] == [("element", "varchar")]
    assert [(child.name, child.type) for child in m.children] == [("key", "varchar"), ("value", "int64")]
    assert all(child.nullable for child in (*s.children, *m.children))


def test_added_and_renamed_nested_fields_are_always_nullable(source: AttachedLake) -> None:
    source.run(
        "CREATE TABLE lake.t (s STRUCT(x INTEGER), l STRUCT(y INTEGER)[])",
        "ALTER TABLE lake.t ADD COLUMN s.z INTEGER",
        "ALTER TABLE lake.t ADD COLUMN l.element.r INTEGER",
        "ALTER TABLE lake.t RENAME COLUMN s.x TO q",
    )
    s, elements = column(source, "s"), column(source, "l").children[0]
    assert [(child.name, child.nullable) for child in s.children] == [("q", True), ("z", True)]
    assert [(child.name, child.nullable) for child in elements.children] == [("y", True), ("r", True)]


def test_dropped_and_readded_column_is_a_new_column(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER, b INTEGER)", "INSERT INTO lake.t VALUES (1, 2)")
    old = column(source, "b")
    assert not column(source, "b").former_types
    source.run("ALTER TABLE lake.t DROP COLUMN b", "ALTER TABLE lake.t ADD COLUMN B VARCHAR DEFAULT 'x'")
    new = column(source, "B")
    assert new.field_id != old.field_id
    assert (new.initial_default, new.name_is_unique, new.former_types) == ("x", False, ())
    assert column(source, "a").name_is_unique


def test_columns_include_later_names_and_types(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER, b INTEGER, c FLOAT, s STRUCT(x INTEGER), u STRUCT(x INTEGER))")
    first = source.newest
    assert all(column(source, name, first).name_is_unique for name in "abc")
    source.run(
        "ALTER TABLE lake.t RENAME COLUMN a TO x",
        "ALTER TABLE lake.t RENAME COLUMN b TO a",
        "ALTER TABLE lake.t ALTER COLUMN c TYPE DOUBLE",
        "ALTER TABLE lake.t RENAME s TO r",
    )
    assert [column(source, name, first).name_is_unique for name in "abc"] == [False, False, True]
    assert column(source, "c", first).later_types == ("float64",)
    assert column(source, "c").former_types == ("float32",)
    assert [column(source, name).children[0].name_is_unique for name in "ru"] == [False, True]


def test_renamed_table_is_found_by_its_name_at_the_snapshot(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)")
    first = source.newest
    source.run("ALTER TABLE lake.t RENAME TO t9", "CREATE TABLE lake.t (b INTEGER)")
    old, new, other = (
        load_table(source.reader, name, version)
        for name, version in (("t", first), ("t9", source.newest), ("t", source.newest))
    )
    assert old.table_id == new.table_id != other.table_id
    assert old.path == new.path == other.path  # they share a folder, so listing it cannot identify the files of a table
    with pytest.raises(TableNotFoundError):
        load_table(source.reader, "t9", first)


def test_partitioning_at_each_snapshot(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER, d TIMESTAMP)")
    plain = source.newest
    source.run("ALTER TABLE lake.t SET PARTITIONED BY (a, year(d), bucket(4, a))")
    keyed = source.newest
    source.run("ALTER TABLE lake.t RESET PARTITIONED BY")
    assert load_table(source.reader, "t", plain).partition_fields == ()
    assert load_table(source.reader, "t", source.newest).partition_fields == ()
    assert load_table(source.reader, "t", keyed).partition_fields == (
        PartitionField(0, 1, "identity"),
        PartitionField(1, 2, "year"),
        PartitionField(2, 1, "bucket(4)"),
    )


def test_names_can_be_qualified_quoted_and_in_any_case(source: AttachedLake) -> None:
    source.run('CREATE SCHEMA lake."my.schema"', 'CREATE TABLE lake."my.schema"."a ""b""" (a INTEGER)')
    source.run('CREATE TABLE lake."T" (a INTEGER)')
    found = load_table(source.reader, '"MY.schema"."a ""b"""', source.newest)
    assert (found.schema_name, found.name) == ("my.schema", 'a "b"')
    assert load_table(source.reader, "MAIN.t", source.newest).name == "T"
    assert [(table.schema_name, table.name) for table in tables(source.reader, source.newest)] == [
        ("main", "T"),
        ("my.schema", 'a "b"'),
    ]
    assert tables(source.reader, 0) == ()


def test_error_for_an_unknown_table_suggests_a_similar_name(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE SCHEMA lake.raw", "CREATE TABLE lake.raw.events (a INTEGER)")
    with pytest.raises(TableNotFoundError, match=r"no table 'raw.event' at version 2(.|\n)*\"raw.events\""):
        load_table(file_lake.reader, "raw.event", 2)
    with pytest.raises(TableNotFoundError, match=r"no table 'main.events'(.|\n)*\"raw.events\""):
        load_table(file_lake.reader, "events", 2)
    with pytest.raises(SnapshotNotFoundError):
        load_table(file_lake.reader, "raw.events", 99)


def test_view_and_macro_are_rejected_with_a_query_for_duckdb(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE MACRO lake.twice(x) AS TABLE SELECT 2 * x AS y")
    with pytest.raises(UnsupportedError, match=r"main\.twice is a macro(.|\n)*FROM \"lake\"\.\"main\"\.\"twice\""):
        load_table(file_lake.reader, "twice", file_lake.newest)
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (7)")
    file_lake.run('CREATE VIEW lake."my view" AS SELECT a + 1 AS b FROM lake.t')
    with pytest.raises(UnsupportedError, match=r"main\.my view is a view") as raised:
        load_table(file_lake.reader, '"my view"', file_lake.newest)
    statement = str(raised.value.hint).removeprefix("run it in DuckDB: ")
    assert file_lake.rows(statement) == [(8,)]
    with pytest.raises(TableNotFoundError):
        load_table(file_lake.reader, '"my view"', file_lake.newest - 1)


def test_all_tables_are_the_tables_loaded_by_name_in_a_fixed_number_of_queries(
    source: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog on a server may be far away, and a lake may have hundreds of tables."""
    counts: list[int] = []
    query = MetadataTransaction.rows

    def counted(self: MetadataTransaction, *arguments: Any) -> list[tuple[Any, ...]]:
        counts[-1] += 1
        return query(self, *arguments)

    source.run("CREATE SCHEMA lake.s")
    for number in range(3):
        name = ("s.a", "b", '"c.d"')[number]
        source.run(
            f"CREATE TABLE lake.{name} (i INTEGER, n STRUCT(x INTEGER, y VARCHAR[]), d DATE)",
            f"ALTER TABLE lake.{name} SET PARTITIONED BY (year(d), i)" if number else "SELECT 1",
            f"ALTER TABLE lake.{name} ADD COLUMN added_{number} INTEGER DEFAULT {number}",
        )
    source.run("CREATE TABLE lake.e (i INTEGER)", "DROP TABLE lake.e", "ALTER TABLE lake.b RESET PARTITIONED BY")
    for snapshot_id in range(source.newest + 1):
        found = tables(source.reader, snapshot_id)
        assert found == tuple(load_table(source.reader, table.full_name, snapshot_id) for table in found)
    assert [table.full_name for table in tables(source.reader, source.newest)] == ["main.b", 'main."c.d"', "s.a"]
    monkeypatch.setattr(MetadataTransaction, "rows", counted)
    for snapshot_id in (0, source.newest):
        counts.append(0)
        tables(source.reader, snapshot_id)
    assert counts[0] == counts[1]


def table(*names: str) -> TableInfo:
    columns = tuple(Column(n, name, "int32", nullable=True, initial_default=None) for n, name in enumerate(names, 1))
    return TableInfo(1, "raw", "events", columns, "/data/")


def test_columns_are_named_once_and_only_ascii_letters_match_in_any_case() -> None:
    accented = table("é", "É", "ß")
    assert [column.name for column in columns_named(accented, ["É", "é"])] == ["É", "é"]
    with pytest.raises(SchemaError):
        columns_named(accented, ["SS"])
    with pytest.raises(SchemaError) as refused:
        columns_named(table("id", "kind"), ["id", "kind", "ID"])
    assert refused.value.message == "the column 'ID' of raw.events is selected twice"
    assert refused.value.hint == "name each column once"


COLUMNS = tuple(
    Column(number, name, kind, nullable=True, initial_default=None)
    for number, (name, kind) in enumerate(
        {"Day": "date", "price": "int64", "price desc": "int64", 'o"d, d': "varchar", "tags": "list"}.items(), start=1
    )
)


def test_text_is_a_key() -> None:
    for text, key, sql in (
        ("day", SortKey("Day"), '"Day" ASC NULLS LAST'),
        (" DAY  desc ", SortKey("Day", descending=True), '"Day" DESC NULLS LAST'),
        ("day nulls first", SortKey("Day", nulls_first=True), '"Day" ASC NULLS FIRST'),
        ("price desc", SortKey("price desc"), '"price desc" ASC NULLS LAST'),
        ("price desc nulls last", SortKey("price", descending=True), '"price" DESC NULLS LAST'),
        ('o"d, d ASC', SortKey('o"d, d'), '"o""d, d" ASC NULLS LAST'),
    ):
        assert sort_keys([text], COLUMNS) == (key,), text
        assert key.sql == sql, text
        assert sort_keys([str(key)], COLUMNS) == (key,), text


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "there is no column to sort by"),
        (["dya"], "the sort key 'dya' names an unknown column: 'dya'"),
        (["day", "DAY desc"], "the column 'Day' is in the sort order twice"),
        (["tags"], "cannot sort by the column 'tags': its type is list"),
        (["day; DROP TABLE t"], "names an unknown column: 'day; DROP TABLE t'"),
    ],
)
def test_other_texts_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        sort_keys(texts, COLUMNS)
    assert message in caught.value.message


# Without quotes, both would be named raw.a.b.
TABLES = ('raw."a.b"', '"raw.a".b')


def test_name_is_split_into_schema_and_table() -> None:
    for name, parts, full in (
        ("events", ("main", "events"), "main.events"),
        ("raw.events", ("raw", "events"), "raw.events"),
        ('"raw"."events"', ("raw", "events"), "raw.events"),
        ('raw."a.b"', ("raw", "a.b"), 'raw."a.b"'),
        ('"ra""w".b', ('ra"w', "b"), '"ra""w".b'),
    ):
        assert split_name(name) == split_name(full) == parts
        assert full_name(name) == joined_name(*parts) == full
    for name in ("", ".", "a.", ".a", "a.b.c", '"a', 'a"."b', "n\0", 'a."b\0"'):
        with pytest.raises(TableNotFoundError, match="is not a valid table name"):
            split_name(name)


@pytest.mark.slow
def test_names_that_differ_only_in_quotes_are_different_tables(store: lakeconf.Store) -> None:
    with store.open() as lake:
        for number, name in enumerate(TABLES):
            frame = lake.sql(f"SELECT {number} AS id")
            lake.create_table(name, frame).append(frame, idempotency_key="first")
        for name in (*TABLES, 'RAW."A.B"'):
            assert compare(store, store.replace(name="again"), name, on=("id",)).rows == (1, 1)
        for name in ("raw.a.b", '"raw.a.b"'):
            with pytest.raises(TableNotFoundError):
                lake.table(name).scan()
        assert set(lake.tables()) == set(TABLES)
        with lake.transaction():
            for number, name in enumerate(TABLES):
                lake.table(name).append(lake.sql(f"SELECT {number + 10} AS id"))
                lake.table(name).delete(where=f"id = {number}")
        for number, name in enumerate(TABLES):
            assert lake.table(name).scan().collect().to_dict(as_series=False) == {"id": [number + 10]}
            lake.table(name).append(lake.sql("SELECT 100 AS id"), idempotency_key="first")
            assert len(lake.table(name).scan().collect()) == 1
        lake.maintenance.compact()


def options(lake: lakeconf.Lake, version: int) -> TableOptions:
    reader = catalog_of(lake)
    return table_options(reader, load_table(reader, "t", version), version)


def test_options_are_those_of_the_snapshot(two_tables: lakeconf.Lake) -> None:
    lake = two_tables
    first = lake.snapshot_id
    run_plain(lake, """ALTER TABLE t ADD COLUMN "o""d" VARCHAR DEFAULT 'it''s'""")
    run_plain(lake, """ALTER TABLE t SET SORTED BY ("o""d" DESC NULLS FIRST, id)""")
    second = lake.refresh()
    run_plain(lake, "ALTER TABLE t ALTER COLUMN id SET DEFAULT 1 + 1", "ALTER TABLE t SET SORTED BY (id + 1)")
    third = lake.refresh()
    assert options(lake, first) == TableOptions((), {}, ())
    assert options(lake, second) == TableOptions(('o"d DESC NULLS FIRST', "id ASC NULLS LAST"), {'o"d': "it's"}, ())
    assert options(lake, third) == TableOptions((), {'o"d': "it's"}, ("id", "the sort order"))


def test_comments_are_those_of_the_snapshot(two_tables: lakeconf.Lake) -> None:
    lake, reader = two_tables, catalog_of(two_tables)
    table, first = lake.table("t"), lake.snapshot_id
    table.set_comments("what happened", {"ID": "it's a key"})
    second = lake.snapshot_id
    lake.table("u").set_comments("another table")
    table.evolve(rename={"id": "key"})
    third = table.set_comments("", {"key": None})

    def found(version: int) -> Comments:
        return comments(reader, load_table(reader, "t", version), version)

    assert found(first) == Comments(None, {})
    assert found(second) == Comments("what happened", {"id": "it's a key"})
    assert found(third - 1) == Comments("what happened", {"key": "it's a key"})
    assert found(third) == Comments(None, {})


def test_folder_is_the_one_that_ducklake_uses(two_tables: lakeconf.Lake, tmp_path: Path) -> None:
    reader = catalog_of(two_tables)
    for schema, table in (("main", "fresh"), ("New", "fresh"), ("NEW", "Second")):
        expected = table_folder(reader, schema, table, two_tables.snapshot_id)
        two_tables.create_table(f"{schema}.{table}", {"id": "BIGINT"})
        assert load_table(reader, f"{schema}.{table}", two_tables.snapshot_id).path == expected
    assert expected == f"{tmp_path}/data/New/Second/"


def test_views_of_a_snapshot_are_sorted_and_quoted(two_tables: lakeconf.Lake) -> None:
    lake, before = two_tables, two_tables.snapshot_id
    for name in ("z", "main.A", '"odd schema"."a.b"'):
        lake.create_view(name, "SELECT 1 AS one")
    lake.drop_view("z")
    names = view_names(catalog_of(lake), lake.snapshot_id)
    assert names == ("main.A", 'odd schema."a.b"')
    assert view_names(catalog_of(lake), before) == ()
    assert view_names(catalog_of(lake), before + 3)[-1] == 'odd schema."a.b"'
    assert len(view_names(catalog_of(lake), before + 3)) == 3
