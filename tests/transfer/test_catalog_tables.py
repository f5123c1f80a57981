"""The list of the catalog's tables has the tables, columns and types that DuckLake's extension makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import config_of, on_catalog

import lakeconf
from lakeconf.errors import UnsupportedError
from lakeconf.transfer.catalog_tables import CatalogColumn, check_known, inlined_columns, own_tables

if TYPE_CHECKING:
    from pathlib import Path

TYPES = (
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT DOUBLE "
    "DECIMAL(4,2) DECIMAL(38,3) DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS INTERVAL VARCHAR BLOB JSON "
    "UUID INTEGER[] STRUCT(x_INTEGER) MAP(VARCHAR,INTEGER) TIMESTAMP_WITH_TIME_ZONE TIME_WITH_TIME_ZONE"
)
KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow), pytest.param("duckdb", marks=pytest.mark.prove)]


def declared(store: lakeconf.Store, schema: str) -> dict[str, list[tuple[str, str]]]:
    """The columns of all tables of a new catalog, and of the inlined rows of one table with each type."""
    types = [name.replace("_WITH_", " WITH ").replace("TIME_ZONE", "TIME ZONE") for name in TYPES.split()]
    options = {"metadata_catalog": "catalog", "data_inlining_row_limit": 5}
    with store.replace(attach_options=options).connect() as connection:
        columns = ", ".join(f"c{number} {name.replace('_INT', ' INT')}" for number, name in enumerate(types))
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.execute("INSERT INTO t (c0) VALUES (true)")
        if schema == "public":
            connection.execute("CALL pg_clear_cache()")  # DuckDB has listed the tables before there were inlined rows
        rows = connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = 'catalog' "
            "AND schema_name = ? ORDER BY column_index",
            [schema],
        ).fetchall()
        described = connection.execute("DESCRIBE t").fetchall()
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, name, kind in rows:
        tables.setdefault(table, []).append((name, kind))
    tables["t"] = [(str(name), str(kind)) for name, kind, *_ in described]
    return tables


@pytest.mark.parametrize("kind", KINDS)
def test_list_is_what_the_extension_makes(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = lakeconf.init(config_of(tmp_path, on_catalog(request, tmp_path, kind))).get_store("dev")
    tables = declared(store, "public" if kind == "postgres" else "main")
    types = dict(tables.pop("t"))

    def stored(columns: tuple[CatalogColumn, ...]) -> list[tuple[str, str]]:
        long = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
        return [(column.name, long.get(column.stored(kind), column.stored(kind))) for column in columns]

    expected = {name: stored(columns) for name, columns in own_tables().items()}
    expected["ducklake_inlined_data_1_1"] = stored(inlined_columns(types))
    assert tables == expected


def test_what_the_list_lacks_is_refused() -> None:
    known: dict[str, Any] = {name: [column.name for column in columns] for name, columns in own_tables().items()}
    check_known(known | {"ducklake_inlined_data_12_3": ["row_id"], "ducklake_inlined_delete_12": ["file_id"]})
    for more, message in (
        ({"ducklake_view_column_tag": ["view_id"]}, "has a table 'ducklake_view_column_tag'"),
        ({"ducklake_inlined_data_1_2_x": []}, "has a table 'ducklake_inlined_data_1_2_x'"),
        ({"ducklake_tag": ["object_id"]}, "ducklake_tag has other columns"),
        ({"ducklake_data_file": [*known["ducklake_data_file"], "row_group_count"]}, "row_group_count"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            check_known(known | more)
    with pytest.raises(UnsupportedError, match="no table ducklake_tag"):
        check_known({name: columns for name, columns in known.items() if name != "ducklake_tag"})
    for column in (CatalogColumn("v", "VARIANT", is_inlined=True), CatalogColumn("v", "STRUCT(g GEOMETRY)[]")):
        assert column.stored("duckdb") == column.type
        with pytest.raises(UnsupportedError, match="inlined values"):
            column.stored("sqlite")
    with pytest.raises(UnsupportedError, match="a catalog in mysql"):
        CatalogColumn("a", "BIGINT").stored("mysql")
