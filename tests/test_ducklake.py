"""A catalog of an unsupported DuckLake version is rejected with one message, and migrated only on request."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from local_stores import on_postgres, store_of
from source_tree import sources, strings_of

from lakeconf.ducklake import refused_version, version_sentence, visible_at
from lakeconf.errors import CatalogError
from lakeconf.store import Store

if TYPE_CHECKING:
    from pathlib import Path

OLDER = (
    "the catalog has DuckLake version 0.4, but the ducklake extension supports 1.0: open a copy of the lake once "
    "with attach_options = { automatic_migration = true }, which migrates the catalog and cannot be undone"
)
NEWER = (
    "the catalog has DuckLake version 1.1-dev.1, but the ducklake extension supports 1.0: "
    "upgrade duckdb, its ducklake extension and lakeconf"
)
MAKE_STORE = Callable[..., Store]


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MAKE_STORE:
    """Creates a store of one lake, with the given ATTACH options."""
    metadata: dict[str, Any] = {"type": request.param, "uri": str(tmp_path / "catalog")}
    if request.param == "postgres":
        metadata = on_postgres(request.getfixturevalue("postgres_server"))

    def make(**attach_options: Any) -> Store:
        return store_of(tmp_path, metadata, **attach_options)

    with make().connect() as con:
        con.execute("CREATE TABLE t AS SELECT 42 AS answer")
    return make


def set_version(store: Store, version: str) -> None:
    with store.connect() as con:
        con.execute(f"UPDATE __ducklake_metadata_dev.ducklake_metadata SET value = '{version}' WHERE key = 'version'")


def refusals(store: Store) -> set[str]:
    """The error messages of `open`, `connect` and `attach`."""
    found = set()
    with duckdb.connect() as con:
        for way in (store.open, store.connect, lambda: store.attach(con)):
            with pytest.raises(CatalogError) as caught:
                way()
            found.add(str(caught.value))
    return found


def test_older_catalog_is_migrated_only_on_request_and_a_newer_one_never(make_store: MAKE_STORE) -> None:
    set_version(make_store(), "0.4")
    assert refusals(make_store()) == {OLDER}
    assert refusals(make_store(read_only=True)) == {OLDER}
    assert refusals(make_store(automatic_migration=False)) == {OLDER}
    for options in ({"automatic_migration": True}, {}):
        with make_store(**options).open() as lake:
            assert lake.table("t").scan().collect("pyarrow").rows() == [(42,)]
    set_version(make_store(), "1.1-dev.1")
    assert refusals(make_store()) == {NEWER}
    assert refusals(make_store(automatic_migration=True)) == {NEWER}


def test_failed_migration_does_not_change_the_catalog(make_store: MAKE_STORE) -> None:
    set_version(make_store(), "0.3")  # the tables are already those of 1.0
    (sentence,) = refusals(make_store())
    failures = refusals(make_store(automatic_migration=True))
    assert all("Failed to migrate DuckLake from v0.3 to v0.4" in failure for failure in failures)
    assert refusals(make_store()) == {sentence}


def test_version_error_has_a_hint_for_the_version() -> None:
    for advice, versions in {
        "automatic_migration = true": ("0.3", "0.4-dev1", "1.0-dev1"),
        "upgrade duckdb": ("1.1", "1.10", "10.0"),
        "check that it is the catalog of a DuckLake": ("unknown",),
    }.items():
        for found in versions:
            assert advice in version_sentence(found, "1.0", "lakeconf")
    assert refused_version("IO Error: Could not read catalog version") is None


def test_visible_at_selects_rows_by_begin_and_end_snapshot() -> None:
    rows = (
        "(VALUES ('kept', 2, NULL), ('removed', 2, 4), ('replaced', 1, 3)) AS files(name, begin_snapshot, end_snapshot)"
    )
    expected = {1: ["replaced"], 2: ["kept", "removed", "replaced"], 3: ["kept", "removed"], 4: ["kept"]}
    for row, (snapshot_id, names) in itertools.product(("", "files"), expected.items()):
        sql = f"SELECT list(name ORDER BY name) FROM {rows} WHERE {visible_at(row=row)} AND true"
        assert duckdb.execute(sql, [snapshot_id]).fetchone() == (names,)


def test_only_two_modules_contain_ducklake_internal_names() -> None:
    """One has the facts about DuckLake, the other the list of all tables of a catalog."""
    names = ("_ducklake_internal_", "__ducklake_metadata_", "ducklake_inlined_delete_", "end_snapshot IS NULL OR ")
    strings = {module: "\n".join(strings_of(path.read_text())) for module, path in sources().items()}
    assert {module for module, text in strings.items() if any(name in text for name in names)} <= {
        "lakeconf.ducklake",
        "lakeconf.transfer.catalog_tables",
    }
