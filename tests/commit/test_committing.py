"""The settings with which a connection reads a lake and commits to it; test_opening.py reads them in an open lake."""

from __future__ import annotations

from lakeconf.commit.recovery import SETTINGS
from lakeconf.connection.connection import connect, load_extension
from lakeconf.sql import literal


def test_duckdb_knows_each_setting() -> None:
    with connect() as connection:
        load_extension(connection, "ducklake")
        for name, value in SETTINGS.items():
            before = connection.rows(f"SELECT current_setting('{name}')")
            connection.execute(f"SET {name} = {literal(value)}")
            assert connection.rows(f"SELECT current_setting('{name}')") == [(value,)] != before
