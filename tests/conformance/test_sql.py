"""The attached database is a complete DuckLake, for plain DuckDB and for another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf.store import Store

READ_ELSEWHERE = """
import json, os, lakeconf
store = lakeconf.init(json.loads(os.environ["STORE_CONFIG"])).get_store("dev")
with store.connect() as con:
    print(json.dumps(con.execute("SELECT id, name FROM t ORDER BY id").fetchall()))
"""


def read_elsewhere(config: dict[str, Any]) -> list[list[Any]]:
    """The rows of the table `t`, as another process reads them."""
    done = subprocess.run(
        [sys.executable, "-c", READ_ELSEWHERE],
        env=os.environ | {"STORE_CONFIG": json.dumps(config)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    # DuckDB prints a progress bar if a query is slow on a busy machine.
    rows: list[list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def test_table_lifecycle_in_plain_duckdb(store: Store, config: dict[str, Any], files: Callable[[], set[str]]) -> None:
    with store.connect() as con:

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return con.execute(sql).fetchall()

        con.execute("CREATE TABLE t (id BIGINT, name VARCHAR)")
        con.execute("INSERT INTO t SELECT range, 'n' || range FROM range(10)")
        [(written,)] = rows("SELECT max(snapshot_id) FROM dev.snapshots()")
        con.execute("INSERT INTO t VALUES (10, 'ten')")
        con.execute("UPDATE t SET name = 'changed' WHERE id = 3")
        con.execute("DELETE FROM t WHERE id < 2")
        expected = [(2, "n2"), (3, "changed"), *((i, f"n{i}") for i in range(4, 10)), (10, "ten")]
        assert rows("FROM t ORDER BY id") == expected
        assert rows(f"SELECT count(*), max(id) FROM t AT (VERSION => {written})") == [(10, 9)]
        changes = f"dev.table_changes('t', {written + 1}, {written + 3})"
        assert rows(f"SELECT change_type, count(*) FROM {changes} GROUP BY 1 ORDER BY 1") == [
            ("delete", 2),
            ("insert", 1),
            ("update_postimage", 1),
            ("update_preimage", 1),
        ]

        before = files()
        con.execute("CALL ducklake_rewrite_data_files('dev', delete_threshold => 0)")
        con.execute("CALL ducklake_merge_adjacent_files('dev')")
        con.execute("CALL ducklake_expire_snapshots('dev', older_than => now())")
        con.execute("CALL ducklake_cleanup_old_files('dev', cleanup_all => true)")
        assert rows("FROM t ORDER BY id") == expected
        assert files(), "nothing of the lake lies where the storage backend says"
        assert len(files()) < len(before)
    assert read_elsewhere(config) == [list(row) for row in expected]
