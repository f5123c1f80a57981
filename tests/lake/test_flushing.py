"""A flush writes the rows of the catalog to files, and restores no deleted row."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from local_stores import on_catalog, store_of
from merge_cases import fetched
from plain_sql import run_plain

from lakeconf.commit.session import RowsChangedError
from lakeconf.lake.rewriting import flush_table, newest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

# Texts that DuckLake on PostgreSQL compares with another text: \' is in the text form of bytes, and é has two bytes.
HIDDEN = ("O'Brien", 'a"b', "a\\b", "é")


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """The type of the metadata backend."""
    return str(request.param)


@pytest.fixture
def store(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Store:
    """A store whose lake keeps small writes in the catalog."""
    return store_of(tmp_path, on_catalog(request, tmp_path, kind), data_inlining_row_limit=20)


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """The lake with the tables `t`, which has partitions, and `plain`."""
    with store.open() as lake:
        for name in ("t", "plain"):
            run_plain(lake, f"CREATE TABLE {name} (id BIGINT, s VARCHAR)")
        run_plain(lake, "ALTER TABLE t SET PARTITIONED BY (s)")
        yield lake


def fill(lake: Lake, texts: tuple[str, ...]) -> None:
    for name in ("t", "plain"):
        for number, text in enumerate(texts):
            quoted = text.replace("'", "''")
            run_plain(lake, f"INSERT INTO {name} VALUES ({2 * number}, '{quoted}'), ({2 * number + 1}, '{quoted}')")
        run_plain(lake, f"DELETE FROM {name} WHERE id % 2 = 0", f"UPDATE {name} SET id = -id WHERE id = 1")
    lake.refresh()


def rows(lake: Lake, name: str) -> list[tuple[int, str]]:
    lake.refresh()
    return sorted(fetched(lake, f"SELECT id, s FROM {name}"))


def inlined(lake: Lake, name: str) -> bool:
    tables = (
        f"SELECT i.table_name FROM {METADATA}.ducklake_inlined_data_tables AS i JOIN {METADATA}.ducklake_table AS t"
    )
    found = fetched(lake, f"{tables} USING (table_id) WHERE t.table_name = '{name}'")
    return any(fetched(lake, f"SELECT 1 FROM {METADATA}.{table} LIMIT 1") for (table,) in found)


METADATA = "__ducklake_metadata_dev"


@pytest.mark.parametrize(
    ("kind", "texts"),
    [("sqlite", HIDDEN), ("duckdb", HIDDEN), ("postgres", ("b c", "%")), *(("postgres", (text,)) for text in HIDDEN)],
    indirect=["kind"],
)
def test_no_flush_restores_a_deleted_row(
    lake: Lake, texts: tuple[str, ...], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, ("a", *texts))
    before = {name: rows(lake, name) for name in ("t", "plain")}
    with caplog.at_level(logging.WARNING, "lakeconf"):
        lake.maintenance.compact()
    for name, found in before.items():
        assert rows(lake, name) == found
    assert not inlined(lake, "plain")
    on_server = kind == "postgres" and texts[-1] in HIDDEN
    assert inlined(lake, "t") == on_server
    assert ("the rows of main.t would change" in caplog.text) == on_server
    if not on_server:
        return
    run_plain(lake, "ALTER TABLE t RESET PARTITIONED BY")
    lake.maintenance.flush()
    assert rows(lake, "t") == before["t"]
    # What the warning says to do.
    lake.create_table("new", {"id": "BIGINT", "s": "VARCHAR"}).append(lake.table("t").scan())
    assert rows(lake, "new") == before["t"]


def test_a_flush_of_one_table_is_refused(lake: Lake, kind: str) -> None:
    fill(lake, HIDDEN)
    before = rows(lake, "t")
    info = newest(lake._session, "t")
    if kind == "postgres":
        with pytest.raises(RowsChangedError, match="stay in the catalog"):
            flush_table(lake._session, info)
    else:
        flush_table(lake._session, info)
    assert rows(lake, "t") == before


def test_no_flush_restores_a_row_of_a_table_with_a_column_rowid(lake: Lake) -> None:
    text = HIDDEN[3]
    run_plain(lake, f"INSERT INTO t VALUES (NULL, '{text}'), (1, '{text}')", "DELETE FROM t WHERE id IS NULL")
    run_plain(lake, "ALTER TABLE t RENAME id TO rowid")
    lake.maintenance.flush()
    assert fetched(lake, "SELECT rowid, s FROM t") == [(1, text)]


def test_a_table_that_cannot_be_flushed_does_not_stop_the_others(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """DuckLake cannot flush bytes that are no text as a partition."""
    run_plain(lake, "CREATE TABLE bytes (b BLOB)", "ALTER TABLE bytes SET PARTITIONED BY (b)")
    run_plain(lake, "INSERT INTO bytes VALUES ('\\xFF'::BLOB)", "INSERT INTO plain VALUES (1, 'a')")
    lake.refresh()
    lake.maintenance.compact()
    assert lake.table("bytes").count() == 1
    assert not inlined(lake, "plain")
    assert "the rows of main.bytes in the catalog cannot be flushed" in caplog.text


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)  # a DuckDB file cannot be opened twice
@pytest.mark.parametrize("comment", [None, "it's a table"])
def test_lake_that_is_open_elsewhere_stays_usable(lake: Lake, store: Store, comment: str | None) -> None:
    """DuckLake remembers the tables of rows in the catalog, of which a flush drops those with former columns."""
    lake.refresh()
    plain = lake.table("plain")
    plain.set_comments(comment, columns={"s": "a text"})
    plain.append([{"id": 1, "s": "a"}])
    plain.evolve(add={"c": "VARCHAR"})
    plain.append([{"id": 2, "s": "b", "c": "c"}])
    with store.open() as other:
        expected = rows(other, "plain")
        lake.maintenance.compact()
        assert rows(other, "plain") == expected == [(1, "a"), (2, "b")]
        assert sorted(other.table("plain").scan(["id"]).collect("pyarrow").rows()) == [(1,), (2,)]
        other.table("plain").delete("id = 1")
        other.table("plain").append([{"id": 3, "s": "d", "c": None}])
        assert rows(lake, "plain") == rows(other, "plain") == [(2, "b"), (3, "d")]
        assert (plain.comment, plain.column_comments) == (comment, {"s": "a text"})
        # The definition does not change again.
        before = lake.snapshots()[-1].schema_version
        lake.maintenance.compact()
        assert lake.snapshots()[-1].schema_version == before
        assert rows(other, "plain") == rows(lake, "plain")
