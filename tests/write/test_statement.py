"""Statements are parsed into what they change and read; lakeconf's own tables cannot be changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pytest
from lake_parts import catalog_of
from local_stores import store_of

from lakeconf.errors import QueryError, SchemaError
from lakeconf.write.user_statement import UserStatement, parse_statement

if TYPE_CHECKING:
    from lakeconf import Lake


Parse: TypeAlias = Callable[[str], UserStatement]
PARSED = [
    ("INSERT INTO raw.t (a, b) SELECT * FROM u", "raw.t", {"a", "b"}, {"u"}),
    ('INSERT INTO t ("values", "b c") VALUES (1, DEFAULT)', "main.t", {"values", "b c"}, set()),
    ("INSERT INTO t DEFAULT VALUES", "main.t", set(), set()),
    ("INSERT INTO t BY NAME FROM u;", "main.t", set(), {"u"}),
    ("INSERT INTO t AS x (SELECT 1 FROM u)", "main.t", set(), {"u"}),
    ("WITH c AS (FROM u) INSERT INTO t WITH d AS (FROM c) FROM d", "main.t", set(), {"u", "c", "d"}),
    ("UPDATE t SET a = 1", "main.t", {"a"}, set()),
    ("UPDATE t AS x SET a = b IS DISTINCT FROM c, (d, E) = (1, 2), f = g = h FROM u, v WHERE i = j", "main.t",
     {"a", "d", "e", "f"}, {"u", "v"}),
    ('DELETE FROM dev."Raw"."my.t" AS x WHERE x.a = 1', 'raw."my.t"', set(), set()),
    ("DELETE FROM t USING u, (FROM v) AS w WHERE t.a = u.a", "main.t", set(), {"u", "v"}),
    ("WITH insert AS (FROM u) /* ; */ DELETE FROM t -- UPDATE\n WHERE a IN (FROM insert) ; ", "main.t", set(),
     {"u", "insert"}),
    ("DELETE FROM t WHERE a IN (WITH RECURSIVE t AS (SELECT 1 AS a UNION ALL FROM t) FROM t)", "main.t", set(), {"t"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def parse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parse]:
    with store_of(tmp_path_factory.mktemp("lake")).open() as lake:
        yield lambda sql: parse_statement(catalog_of(lake).connection, sql, "dev")


@pytest.mark.parametrize(("sql", "table", "columns", "reads"), PARSED)
def test_what_a_statement_changes_and_reads(
    sql: str, table: str, columns: set[str], reads: set[str], parse: Parse
) -> None:
    found: UserStatement = parse(sql)
    assert found.name_of(found.target) == table
    assert (set(found.columns), {str(one) for one in found.reads.relations}) == (columns, reads)


def test_names_of_the_lake_and_of_other_databases(parse: Parse) -> None:
    found: UserStatement = parse("INSERT INTO t FROM dev.u JOIN dev.raw.u USING (a) JOIN other.raw.u USING (a)")
    own, raw, other = sorted(found.reads.relations, key=lambda one: (one.database, one.schema))
    assert (found.name_of(own), found.name_of(raw)) == ("main.u", "raw.u")
    with pytest.raises(QueryError, match=r"other\.raw\.u is a table of another database"):
        found.name_of(other)


ROW = [{"id": 1}]
NAMES = ("lakeconf.commits", '"LAKECONF".commits', "lakeconf.other")
WRITES: dict[str, Callable[[Lake, str], object]] = {
    "append": lambda lake, name: lake.table(name).append(ROW),
    "overwrite": lambda lake, name: lake.table(name).overwrite(ROW),
    "overwrite_partitions": lambda lake, name: lake.table(name).overwrite_partitions(ROW),
    "delete": lambda lake, name: lake.table(name).delete("id = 1"),
    "update": lambda lake, name: lake.table(name).update({"id": 2}, where="id = 1"),
    "merge": lambda lake, name: lake.table(name).merge(ROW, on="id"),
    "create": lambda lake, name: lake.create_table(name, {"id": "BIGINT"}),
    "create if not exists": lambda lake, name: lake.create_table(name, {"id": "BIGINT"}, if_not_exists=True),
    "view": lambda lake, name: lake.create_view(name, "SELECT 1 AS id"),
    "drop": lambda lake, name: lake.drop_table(name),
    "rename": lambda lake, name: lake.rename_table(name, "lakeconf.x"),
    "evolve": lambda lake, name: lake.table(name).evolve(add={"more": "BIGINT"}),
    "comments": lambda lake, name: lake.table(name).set_comments("x"),
    "execute": lambda lake, name: lake.execute(f"INSERT INTO {name} SELECT 1"),
    "restore": lambda lake, name: lake.restore(name, version=0),
}


def test_no_write_changes_them(two_tables: Lake) -> None:
    before = two_tables.refresh()
    for name, write in itertools.product(NAMES, WRITES):
        with pytest.raises(SchemaError, match="belongs to lakeconf"):
            WRITES[write](two_tables, name)
        assert two_tables.refresh() == before, (name, write)
