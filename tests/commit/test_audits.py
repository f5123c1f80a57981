"""Audits run in the transaction that they check, and show the rows that violate them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.commit import audits
from lakeconf.commit.audits import Audit
from lakeconf.connection.connection import Connection
from lakeconf.errors import AuditError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake whose writer has an open transaction with seven rows in the table `t`."""
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT", "name": "VARCHAR"})
        lake._session.writer.execute("BEGIN")
        lake._session.writer.execute("INSERT INTO dev.t SELECT range, 'n' || range FROM range(7)")
        yield lake


def run(lake: Lake, sql: str) -> None:
    audits.run(Audit("few", sql), lake._session.writer, lake._session.reader)


def refused(lake: Lake, sql: str) -> AuditError:
    with pytest.raises(AuditError) as caught:
        run(lake, sql)
    return caught.value


def test_audit_without_violations_passes(lake: Lake) -> None:
    run(lake, "FROM t WHERE id > 6")
    run(lake, "-- é\n/* pragma */ SELECT * FROM t WHERE id > 6;")
    assert len(lake.table("t").scan().collect()) == 0, "only the transaction sees the rows"


@pytest.mark.parametrize(
    ("count", "found", "more"),
    [
        (1, "1 row", ""),
        (5, "5 rows", ""),
        (7, "7 rows", "\n  and 2 more"),
    ],
)
def test_violations_are_counted_and_a_sample_is_shown(count: int, found: str, more: str, lake: Lake) -> None:
    error = refused(lake, f"SELECT id AS key, name FROM t WHERE id < {count} ORDER BY id")
    rows = "\n".join(f"  {{'key': {number}, 'name': 'n{number}'}}" for number in range(min(count, 5)))
    assert error.message == f"the audit 'few' found {found}, so nothing was written:\n{rows}{more}"
    assert error.hint == "fix the rows or the audit"


@pytest.mark.parametrize(
    "sql",
    [
        *("DELETE FROM t", "SELECT 1; SELECT 2", "PRAGMA version", "CALL pragma_version()", "", "COMMIT"),
        "SELECT 1; DELETE FROM t",
    ],
)
def test_audit_that_is_not_one_query_is_refused(sql: str, lake: Lake) -> None:
    error = refused(lake, sql)
    assert "the audit 'few' " in error.message
    assert "nothing was written" in error.message or error.hint == (
        "write one SELECT that returns the rows that violate the condition"
    )
    assert lake._session.writer.rows("SELECT count(*) FROM dev.t") == [(7,)]


def test_audit_that_cannot_be_run_is_refused(lake: Lake) -> None:
    error = refused(lake, "FROM missing")
    assert error.message.startswith("the audit 'few' cannot be run, so nothing was written: ")
    assert "missing" in error.message
    assert "Did you mean" not in error.message
    assert error.hint == "use one of the tables: main.t"
    caught = refused(lake, "FROM ducklake_cleanup_old_files('dev', cleanup_all => true)")
    assert "ducklake_cleanup_old_files() changes the lake without its locks" in caught.message
    # A view of the lake that may read files is refused before it is bound.
    lake._session.writer.execute("ROLLBACK")
    lake._session.writer.execute("CREATE VIEW dev.files AS FROM read_text('/etc/hostname')")
    assert "read_text" in refused(lake, "FROM files").message


def test_error_of_an_audit_shows_no_secret(lake: Lake) -> None:
    session = lake._session
    writer = Connection(session.writer.native, [Secret("hunter2hunter2")])

    with pytest.raises(AuditError, match="cannot be run") as caught:
        audits.run(Audit("few", "SELECT error('hunter2hunter2')"), writer, session.reader)
    assert "hunter2" not in str(caught.value)
