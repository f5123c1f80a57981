"""With --adopt-later, a restored lake has the rows of later appends, once, in tables that were only appended to."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import new_store, place_of, remove_catalog, rows
from strength import in_prove

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lakeconf import Store

MORE = [{"id": 100, "name": "b"}, {"id": 101, "name": "b"}]
BEFORE = [(number, "a") for number in range(7)]
ROWS = [(100, "b"), (101, "b")]
INSERT = "INSERT INTO {t} SELECT range, 'b' FROM range(100, 200)"
INSERTED = [(number, "b") for number in range(100, 200)]


def plain(*statements: str) -> Callable[[Store, str, Any], None]:
    def run(store: Store, table: str, spark: Any) -> None:
        assert spark is None
        with store.connect() as connection:
            for statement in statements:
                connection.execute(statement.format(t=table))

    return run


def by_lake(*changes: Callable[[Any], object]) -> Callable[[Store, str, Any], None]:
    def run(store: Store, table: str, spark: Any) -> None:
        with store.open(spark) as lake:
            for change in changes:
                change(lake.table(table))

    return run


def append(table: Any) -> None:
    table.append(MORE)


# What later commits do to a table; the rows that come back if the catalog is replaced, and if it is lost.
LATER: dict[str, tuple[Callable[[Store, str, Any], None], list[Any], list[Any]]] = {
    "appended": (by_lake(append, append), ROWS * 2, ROWS * 2),
    "inserted": (plain(INSERT, INSERT), INSERTED * 2, INSERTED * 2),
    "together": (plain("BEGIN", INSERT, INSERT, "COMMIT"), INSERTED * 2, INSERTED * 2),
    "parted": (by_lake(append), ROWS, ROWS),
    '"odd "".name"': (by_lake(append), ROWS, ROWS),
    "renamed": (plain(INSERT, "ALTER TABLE {t} RENAME TO {t}_2"), INSERTED, INSERTED),
    "deleted": (by_lake(append, lambda table: table.delete("id = 100")), [], []),
    "deleted_before": (by_lake(append, lambda table: table.delete("id = 3")), [], []),
    "updated": (by_lake(append, lambda table: table.update({"name": "'c'"}, where="id = 3")), [], []),
    "merged": (by_lake(lambda table: table.merge([*MORE, {"id": 3, "name": "c"}], on="id")), [], []),
    "updated_later": (by_lake(append, lambda table: table.update({"name": "'c'"}, where="id = 100")), [], []),
    "merged_later": (by_lake(append, lambda table: table.merge([{"id": 100, "name": "c"}], on="id")), [], []),
    "replaced": (
        plain(INSERT, "DELETE FROM {t} WHERE id BETWEEN 100 AND 104",
              "INSERT INTO {t} SELECT range, 'c' FROM range(5)"),
        [], [],
    ),
    "compacted": (plain(INSERT, INSERT, "CALL ducklake_merge_adjacent_files('prod', '{t}')"), [], []),
    "renamed_column": (plain("ALTER TABLE {t} RENAME name TO other", INSERT), [], []),
    "more_columns": (plain("ALTER TABLE {t} ADD COLUMN x INT", "INSERT INTO {t} VALUES (100, 'b', 1)"), [], []),
    "fewer_columns": (plain("ALTER TABLE {t} DROP COLUMN name", "INSERT INTO {t} VALUES (100)"), [], []),
    "other_column": (
        plain("ALTER TABLE {t} DROP COLUMN name", "ALTER TABLE {t} ADD COLUMN name VARCHAR", INSERT), [], [],
    ),
    "wider": (
        plain("ALTER TABLE {t} ALTER id TYPE HUGEINT", "INSERT INTO {t} VALUES (170141183460469231731, 'b')"), [], [],
    ),
    # The files do not show the rest.
    "dropped": (plain(INSERT, "DROP TABLE {t}"), [], INSERTED),
    "overwritten": (by_lake(lambda table: table.overwrite(MORE)), [], ROWS),
    "emptied": (plain("DELETE FROM {t}", INSERT), [], INSERTED),
    "inlined": (
        plain("CALL prod.set_option('data_inlining_row_limit', 10, table_name => '{t}')", INSERT,
              "INSERT INTO {t} VALUES (300, 'in the catalog')"),
        [], INSERTED,
    ),
}  # fmt: skip


def filled(store: Store, place: str, names: Iterable[str] = LATER, spark: Any = None) -> str:
    """A lake with a table for each change, which happens after its backup; returns the path of the backup."""
    with store.open() as lake:
        for name in (*names, "untouched"):
            keys = ["name"] if name == "parted" else ()
            table = lake.create_table(name, {"id": "BIGINT", "name": "VARCHAR"}, partitioned_by=list(keys))
            for first in (0, 5):
                table.append([{"id": number, "name": "a"} for number in range(7)[first : first + 5]])
    backup = store.back_up(place).path
    for name in names:
        LATER[name][0](store, name, spark)
    return backup


def check(store: Store, which: int, names: Iterable[str] = LATER) -> None:
    """Compares the rows with those of a restore in place of a catalog (0) or of a lost one (1)."""
    with store.open() as lake:
        for name in names:
            assert rows(lake, f"FROM {name}") == sorted([*BEFORE, *LATER[name][1:][which]], key=repr), name
        assert rows(lake, "FROM untouched") == BEFORE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("catalog", "storage"),
    [("sqlite", "local"), *in_prove([("duckdb", "s3"), ("postgres", "s3"), ("postgres", "local")])],
)
def test_later_appends_come_back_once(
    catalog: str, storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = new_store(request, tmp_path, "prod", catalog, storage)
    backup = filled(store, place_of(store, tmp_path))
    for _ in range(2):
        plan = store.plan_restore_lake(backup, adopt_later=True)
        done = store.restore_lake(backup, plan=plan, adopt_later=True)
        assert done.later == plan.later
        assert {files.table for files in done.later if files.problem is None} == {
            f"main.{name}" for name, (_, added, _) in LATER.items() if added
        }
        check(store, 0)
    with store.open() as lake:
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    check(store, 0)


@pytest.mark.slow
@pytest.mark.parametrize("catalog", ["duckdb", *in_prove(["sqlite"])])
def test_appends_that_a_lost_catalog_knew_come_back_once(
    catalog: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = new_store(request, tmp_path, "prod", catalog, "local")
    backup = filled(store, str(tmp_path / "backups"))
    for _ in range(2):
        remove_catalog(tmp_path / "prod")
        plan = store.plan_restore_lake(backup, adopt_later=True)
        assert "adds    main.appended: 4 rows in 2 files" in str(plan)
        assert "leaves  main.deleted: later commits did more than append" in str(plan)
        store.restore_lake(backup, plan=plan, adopt_later=True)
        check(store, 1)
    store.restore_lake(backup)
    with store.open() as lake:
        assert rows(lake, "FROM appended") == BEFORE


@pytest.mark.slow
def test_files_of_spark_come_back(tmp_path: Path, request: pytest.FixtureRequest, classic_session: Any) -> None:
    names = ("appended", "parted", "deleted_before", "updated", "merged", "overwritten")
    store = new_store(request, tmp_path, "prod", "sqlite", "local")
    backup = filled(store, str(tmp_path / "backups"), names, classic_session)
    store.restore_lake(backup, adopt_later=True)
    check(store, 0, names)
    remove_catalog(tmp_path / "prod")
    store.restore_lake(backup, adopt_later=True)
    check(store, 1, names)


KEYS = {
    "text": ("VARCHAR", ("k",), ["'a'", "NULL", "''", "'x/y=%20\u00fc'", "'__HIVE_DEFAULT_PARTITION__'"]),
    "words": ("VARCHAR", ("k",), ["'a'", "NULL", "'x/y=%20\u00fc'"]),
    "number": ("DOUBLE", ("k",), ["0.1", "NULL", "-0.0", "1e300"]),
    "time": ("TIMESTAMPTZ", ("year(k)", "month(k)"), ["'2024-02-03 23:30:00+00'", "NULL", "'1969-12-31 01:00:00+05'"]),
    "bucket": ("BIGINT", ("bucket(4, k)",), ["1", "2", "NULL", "-5"]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_values_of_partition_keys_come_back_as_they_are(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    column, keys, values = KEYS[kind]
    store = new_store(request, tmp_path, "prod", "sqlite", "local")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT", "k": column}, partitioned_by=list(keys))
    backup = store.back_up(str(tmp_path / "backups")).path
    with store.open() as lake:
        listed = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
        lake.table("t").append(lake.sql(f"SELECT id, CAST(k AS {column}) AS k FROM (VALUES {listed}) AS v(id, k)"))
        before = rows(lake, "FROM t")
    (files,) = store.restore_lake(backup, adopt_later=True).later
    with store.open() as lake:
        # DuckLake reads the name of the folder of NULL as NULL.
        assert (files.problem is not None) == (kind == "text")
        if files.problem is None:
            assert rows(lake, "FROM t") == before
            for identity, value in before:
                same = f"FROM t WHERE id = {identity} AND k IS NOT DISTINCT FROM CAST({values[identity]} AS {column})"
                assert rows(lake, same) == [(identity, value)]
        else:
            assert rows(lake, "FROM t") == []


def test_an_encrypted_lake_gets_no_later_files(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = new_store(request, tmp_path, "prod", "sqlite", "local").replace(attach_options={"encrypted": True})
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append([{"id": 1}])
    backup = store.back_up(str(tmp_path / "backups")).path
    with pytest.raises(UnsupportedError, match="only the lost commits have the keys") as raised:
        store.restore_lake(backup, adopt_later=True)
    assert raised.value.hint == "omit --adopt-later"
    store.restore_lake(backup)


@pytest.mark.parametrize("is_lost", [False, True])
def test_later_rows_come_back_to_a_table_without_files(
    tmp_path: Path, request: pytest.FixtureRequest, *, is_lost: bool
) -> None:
    store = new_store(request, tmp_path, "prod", "sqlite", "local")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    backup = store.back_up(str(tmp_path / "backups"))
    assert backup.files == 0
    with store.open() as lake:
        lake.table("t").append([{"id": 1}])
        lake.create_table("later", {"id": "BIGINT"}).append([{"id": 2}])
    if is_lost:
        remove_catalog(tmp_path / "prod")
    for _ in range(2):
        store.restore_lake(backup.path, adopt_later=True)
        with store.open() as lake:
            assert (rows(lake, "FROM t"), lake.tables()) == ([(1,)], ["main.t"])


CATALOG_CHANGES = {
    "deletes": ["DELETE FROM t WHERE id = 100", "INSERT INTO t VALUES (300, 'c')"],
    "updates": ["UPDATE t SET name = 'c' WHERE id = 1000"],
    "rows": ["INSERT INTO t VALUES (300, 'c')", "DELETE FROM t WHERE id = 1000"],
    "flushed": ["CALL ducklake_flush_inlined_data('prod')"],
}


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("change", CATALOG_CHANGES)
def test_a_table_with_rows_in_the_catalog_is_left(
    change: str, tmp_path: Path, request: pytest.FixtureRequest, *, is_lost: bool
) -> None:
    options = {"data_inlining_row_limit": 10}
    store = new_store(request, tmp_path, "prod", "sqlite", "local").replace(attach_options=options)
    plain(
        "CREATE TABLE t AS SELECT range AS id, 'a' AS name FROM range(50)",
        "INSERT INTO t VALUES (1000, 'in the catalog')",
    )(store, "t", None)
    backup = store.back_up(str(tmp_path / "backups")).path
    plain(INSERT, *CATALOG_CHANGES[change])(store, "t", None)
    if is_lost:
        remove_catalog(tmp_path / "prod")
    (files,) = store.restore_lake(backup, adopt_later=True).later
    assert "the catalog has rows" in str(files.problem)
    with store.open() as lake:
        assert rows(lake, "FROM t WHERE id >= 50") == [(1000, "in the catalog")]
