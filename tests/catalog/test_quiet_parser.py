"""sqlglot's parser without its log."""

from __future__ import annotations

import logging
import threading

import pytest
import sqlglot
from source_tree import REPOSITORY
from sqlglot import exp

from lakeconf.catalog.query_text import parsed

UNKNOWN = "CALL send('a value')"


def test_unknown_statements_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    (tree,) = parsed(UNKNOWN)
    assert isinstance(tree, exp.Command)
    # SQLMesh, which other tests import, replaces sqlglot's log by its own.
    assert [record for record in caplog.records if record.name == "sqlglot"] == []
    assert parsed("SELECT 1", "spark") == sqlglot.parse("SELECT 1", dialect="spark")


def test_log_of_others_stays(caplog: pytest.LogCaptureFixture) -> None:
    filters = list(logging.getLogger("sqlglot").filters)
    with pytest.raises(sqlglot.errors.SqlglotError):
        parsed("SELECT (")
    assert logging.getLogger("sqlglot").filters == filters
    other = threading.Thread(target=sqlglot.parse, args=(UNKNOWN,), kwargs={"dialect": "duckdb"})
    other.start()
    other.join()
    assert len(caplog.records) == 1


def test_all_sql_is_parsed_without_the_log() -> None:
    users = {
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "lakeconf").rglob("*.py")
        if "sqlglot.parse(" in path.read_text()
    }
    assert users == {"lakeconf/catalog/query_text.py"}
