"""Reads a lake that plain DuckDB writes, by all that works without locks of files; CI runs it on Windows"""

from __future__ import annotations

import sys

import duckdb

import lakeconf
from lakeconf.cli.app import run

if run(["init"]) != 0:
    raise SystemExit("lakeconf init failed")
store = lakeconf.init().get_store()
with duckdb.connect() as connection:
    store.attach(connection)
    connection.execute("CREATE TABLE t AS SELECT 7 AS id")
for arguments in (["validate", "--strict"], ["preview-sql"], ["tables"], ["sql", "FROM t"], ["doctor"]):
    if run(arguments) != 0:
        raise SystemExit(f"lakeconf {arguments[0]} failed")
with store.open() as lake:
    if lake.table("t").scan(where="id > 6").to_native().fetchall() != [(7,)]:
        raise SystemExit("wrong rows")
sys.stdout.write("done\n")
