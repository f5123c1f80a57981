"""Conditions and queries by name return the rows that Spark returns on a plain copy, whatever skips files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
from pyspark.errors import PySparkException
from strength import PROVE, in_prove

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Store

pytestmark = pytest.mark.slow

# By column: DuckDB values with close bounds in each file.
VALUES = {
    "i": ["1", "5", "-7", "2147483647", "NULL"],
    "s": ["'a'", "'A'", "'a '", "'é日'", "''", "repeat('z', 300)", "'10'", "chr(1114111)", "NULL"],
    "j": ["5", "NULL", "-7"],
    "f": ["'nan'", "'-0.0'", "'0.0'", "0.1", "'inf'", "'-inf'", "NULL"],
    "g": ["'nan'", "0.1", "'-0.0'", "2.5", "NULL"],
    "n": ["1.50", "-0.01", "1234567.89", "2", "NULL"],
    "m": ["1.5", "1234567890123456789012345678.0123456789", "NULL"],
    "d": ["'2024-03-10'", "'0001-01-01'", "'1582-10-10'", "'9999-12-31'", "'2024-11-03'", "NULL"],
    "t": ["'2024-03-10 02:30:00'", "'1500-01-01'", "'2024-11-03 01:30:00.123456'", "NULL"],
    "z": ["'2024-03-10 07:30:00+00'", "'1500-01-01 00:00:00+00'", "'2024-11-03 05:30:00+00'", "NULL"],
    "b": ["true", "false", "NULL"],
    "x": ["'\\x00\\xFF'", "''", "NULL"],
    "st": ["{'x': 1, 'y': 'a'}", "{'x': NULL, 'y': ''}", "NULL"],
    "l": ["[1, NULL]", "[]", "NULL"],
}
TYPES = {
    "i": "INTEGER",
    "j": "BIGINT",
    "s": "VARCHAR",
    "f": "DOUBLE",
    "g": "FLOAT",
    "n": "DECIMAL(9,2)",
    "m": "DECIMAL(38,10)",
}
TYPES |= {"d": "DATE", "t": "TIMESTAMP", "z": "TIMESTAMPTZ", "b": "BOOLEAN", "x": "BLOB"}
TYPES |= {"st": "STRUCT(x INTEGER, y VARCHAR)", "l": "INTEGER[]"}
# Partition keys. The last ones are only for `prove`.
KEYS = [["year(z)", "month(z)", "day(z)"]]
MORE_KEYS = [
    [],
    ["i"],
    ["s"],
    ["d"],
    ["n"],
    ["b"],
    ["t"],
    ["z"],
    ["f"],
    ["bucket(3, s)"],
    ["bucket(4, i)"],
    ["year(d)"],
]
MORE_KEYS += [["year(t)", "month(t)", "day(t)", "hour(t)"], ["b", "d"], ["g"]]
COMPARED = {
    "i": ["5", "2.5", "5.0", "'5'", "5e0", "5L", "9223372036854775808", "CAST(1 AS TINYINT)", "-7", "FLOAT('5')"],
    "s": ["'a'", "'a '", "''", "'é'", "repeat('z', 300)", "'Z'", "CAST('a' AS CHAR(3))", "CAST('a' AS VARCHAR(1))"],
    "f": ["DOUBLE('NaN')", "0.0D", "-0.0D", "0.1", "0.1D", "FLOAT('0.1')", "DOUBLE('Infinity')", "0", "'0.1'"],
    "g": ["FLOAT('NaN')", "0.1", "0.1D", "FLOAT('0.1')", "2.5D", "0", "-0.0F"],
    "n": ["1.5", "1.505", "1.50000", "99999999999.0", "'1.5'", "1.5D", "2", "CAST(1.5 AS DECIMAL(38,18))", "-0.01"],
    "m": ["1.5", "1234567890123456789012345678.0123456789", "1.5D", "2", "-1"],
    "d": [
        "DATE '2024-03-10'",
        "'2024-03-10'",
        "'2024-3-1'",
        "TIMESTAMP '2024-03-10 00:00:00'",
        "DATE '1582-10-15'",
        "TIMESTAMP_NTZ '2024-03-10 12:00:00'",
        "DATE '0001-01-01'",
        "current_date()",
    ],
    "t": [
        "TIMESTAMP_NTZ '2024-03-10 02:30:00'",
        "'2024-03-10 02:30:00'",
        "TIMESTAMP '2024-03-10 02:30:00'",
        "DATE '2024-03-10'",
        "current_timestamp()",
        "TIMESTAMP_NTZ '1500-01-01 00:00:00'",
    ],
    "z": [
        "TIMESTAMP '2024-03-10 02:30:00'",
        "'2024-11-03 01:30:00'",
        "DATE '2024-03-10'",
        "'1500-01-01 00:00:00Z'",
        "TIMESTAMP_NTZ '2024-03-10 03:30:00'",
        "TIMESTAMP '2024-03-10 07:30:00Z'",
        "current_timestamp()",
    ],
    "b": ["true", "false", "'true'"],
    "x": ["X'00FF'", "X''", "X'01'"],
    "st.x": ["1", "0.5"],
    "st.y": ["'a'", "''"],
}
OTHERS = """
i IN (1, 2.5, NULL); i NOT IN (1, NULL); NOT (i = 1 OR i IS NULL); i + 1 = 6; abs(i) > 4; CAST(i AS STRING) = '5'
i BETWEEN 0 AND 5; NOT (i BETWEEN 0 AND 5); coalesce(i, 5) = 5; i & 1 = 1; i IN (1, 5) OR s = 'a'; nullif(i, 5) = 1
s LIKE 'a%'; s LIKE 'a'; s LIKE '_'; s LIKE '%a%'; s LIKE 'é%'; NOT s LIKE 'a%'; s LIKE 'z%z'; s ILIKE 'a%'
s LIKE '%'; s LIKE '\\\\%%'; s RLIKE '^a'; startswith(s, 'a'); rtrim(s) = 'a'; s COLLATE UTF8_LCASE = 'a'
upper(s) = 'A'; s || '' = 'a'; s IN ('a', 'A ', NULL); length(s) > 200; s > 'a' AND s < 'b'; NOT (s > 'a' AND i > 0)
s <=> NULL; startswith(s, ''); s COLLATE UTF8_LCASE IN ('A', 'B'); substr(s, 1, 1) = 'z'
CASE WHEN s = 'a' THEN i ELSE 5 END = 5; if(b, i, 1) = 1; isnan(f); NOT (f > 0); f IN (0.0D, DOUBLE('NaN'))
f NOT IN (0.1D); f <> f; f = g; f BETWEEN -1 AND 1; f * 2 = 0.2D; NOT (f <=> DOUBLE('NaN')); isnan(g)
g IN (0.1, 2.5); NOT (g > 0.1); -f = 0; f > 0.1 OR f IS NULL; n IN (1.5, 2); n * 2 = 3; NOT (n > 1.5); round(n) = 2
n = m; n BETWEEN 1.495 AND 1.505; n + 0.001 = 1.501; year(d) = 2024; d + 1 = DATE '2024-03-11'
date_add(d, 1) > DATE '2024-01-01'; d IN ('2024-03-10'); month(d) = 3; trunc(d, 'year') = DATE '2024-01-01'
d > DATE '2024-01-01' - INTERVAL 5 DAYS; CAST(d AS TIMESTAMP) < z; date_diff(d, t) = 0
CAST(t AS DATE) = DATE '2024-03-10'; hour(t) = 2; t = z; t + INTERVAL 1 DAY > TIMESTAMP_NTZ '2024-03-11 00:00:00'
to_date(z) = DATE '2024-03-10'; hour(z) = 1; date_trunc('day', z) = TIMESTAMP '2024-03-10 00:00:00'
CAST(z AS STRING) > '2'; z IN (TIMESTAMP '2024-11-03 01:30:00'); CAST(z AS LONG) > 0
z BETWEEN '2024-03-10' AND '2024-11-03 12:00:00'; unix_micros(z) < 0; b; NOT b; b IS TRUE; b IS NOT FALSE
b OR i = 1; b IN (true); b AND NOT b; b IS NULL OR NOT b; b = (i > 0); b <=> (i > 0); st IS NULL
st IS NOT NULL AND st.x IS NULL; NOT (st.x > 0); st.y LIKE 'a%'; st = named_struct('x', 1, 'y', 'a'); st.x IN (1, 2)
st.x = 1 AND i > 0; st.x IS NULL OR i = 5; l IS NULL; size(l) = 0; array_contains(l, 1); get(l, 0) = 1
l = array(1, NULL); NOT (l = array()); (i, s) IN ((5, 'a'), (1, 'A')); i = NULL; 1 = 1; i = i; i <=> i; i < j; j = i
i <=> j; i IN (j, 1); NOT (i < j OR s = 'a'); s LIKE old; startswith(s, old); b = (i > 0 AND j > 0 OR b); i < i
b > (i IN (1, 5, 2)); (i > 0) = (j > 0); (i IS NULL) <=> b; i BETWEEN j AND 5; b IN (i > 0, s IS NULL); b = NOT b
s > old; i > 0 AND upper(s) = 'A'; i > 0 OR upper(s) = 'A'; NOT (i > 0 AND upper(s) = 'A'); old IS NULL; new = 'de'
new <> 'de'; new IS NULL; new LIKE 'd%'; old = 'o' OR i = 1; old <=> 'o'; coalesce(old, 'x') = 'x'
NOT (new = 'de' AND old IS NULL)
"""
QUERIES = """
SELECT count(*), count(i), min(f), max(f), min(s), max(z), sum(n), min(d), max(g), bool_or(b) FROM {e}
SELECT count(*) FROM {e} WHERE i > 0 AND (SELECT max(i) FROM {e}) > 1
SELECT k, (SELECT max(o.k) FROM {e} o WHERE o.i = e.i) FROM {e} e
SELECT e.k, o.k FROM {e} e JOIN {e} o ON e.i = o.i AND e.s = o.s WHERE e.b
SELECT e.k FROM {e} e WHERE EXISTS (SELECT 1 FROM {e} o WHERE o.d = e.d AND o.k > e.k)
SELECT e.k FROM {e} e WHERE e.d NOT IN (SELECT d FROM {e} WHERE d IS NOT NULL AND b)
SELECT e.k, o.i FROM {e} e LEFT JOIN (SELECT * FROM {e} WHERE i = 5) o ON e.k = o.k + 1
SELECT e.k FROM {e} e JOIN (SELECT DISTINCT i, z FROM {e} WHERE s = 'a') o ON e.i = o.i
SELECT e.k FROM {e} e JOIN (SELECT DISTINCT z FROM {e} WHERE s = 'A') o ON e.z = o.z
SELECT e.k FROM {e} e, {e} o WHERE e.st.x = o.i AND o.b
WITH c AS (SELECT * FROM {e} WHERE i > 0) SELECT a.k, b.k FROM c a JOIN c b ON a.k = b.k + 1
SELECT count(*) FROM (SELECT * FROM {e} LIMIT 7)
SELECT * FROM {e} ORDER BY k LIMIT 5
SELECT k FROM {e} ORDER BY k OFFSET 50
SELECT i, s, count(*), max(d) FROM {e} GROUP BY GROUPING SETS ((i), (s), ())
SELECT k, lag(i) OVER (PARTITION BY s ORDER BY k) FROM {e}
SELECT st.x, count(*) FROM {e} GROUP BY 1
SELECT k, st.y FROM {e} WHERE st.x = 1
SELECT k, v FROM {e} LATERAL VIEW explode(l) x AS v
SELECT K, St.X, S FROM {e} WHERE I = 5 AND sT.y IS NOT NULL
SELECT i FROM {e} INTERSECT SELECT st.x FROM {e}
SELECT i FROM {e} EXCEPT ALL SELECT i FROM {e} WHERE b
SELECT * FROM (SELECT i, b, k FROM {e}) PIVOT (count(k) FOR b IN (true, false))
SELECT e.k FROM {e} e WHERE e.n > (SELECT avg(n) FROM {e} o WHERE o.s = e.s)
SELECT e.k FROM {e} e WHERE (e.i, e.s) IN (SELECT i, s FROM {e} WHERE k % 2 = 0)
SELECT max(k) FROM {e} WHERE i = (SELECT min(i) FROM {e} WHERE i > 0)
SELECT k FROM {e} WHERE s IN (SELECT lower('A')) OR b
SELECT k, i FROM {e} |> WHERE i > 0 |> SELECT k
"""
ZONES = ["America/New_York", *(["UTC", "Asia/Kolkata"] if PROVE else [])]


def conditions() -> list[str]:
    """All conditions: the comparisons of each column, and others."""
    operators = ("=", "<=>", "<", ">=", "<>")
    compared = [f"{c} {sign} {value}" for c, values in COMPARED.items() for value in values for sign in operators]
    swapped = [f"{value} > {column}" for column, values in COMPARED.items() for value in values]
    nulls = [f"{column} IS NULL" for column in (*TYPES, "st.x", "st.y")]
    others = [text.strip() for line in OTHERS.strip().splitlines() for text in line.split(";")]
    every = [*compared, *swapped, *nulls, *others, *(f"NOT ({text})" for text in compared)]
    return every if PROVE else every[::17]


def filled(store: Store, keys: list[str]) -> None:
    """A table whose files have few values: with deletes, inlined rows, renamed, widened and added columns."""
    fields = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    partitioned = [f"ALTER TABLE e SET PARTITIONED BY ({', '.join(keys)})"] if keys else []
    connection = store.connect()
    # The name of a folder has at most 255 bytes.
    values = VALUES | ({"s": [text.replace("300", "250") for text in VALUES["s"]]} if "s" in keys else {})

    def insert(first: int, count: int, more: str) -> str:
        rows = []
        for k in range(first, first + count):
            chosen = {name: values[name][(k // 7 + k % 2 + at) % len(values[name])] for at, name in enumerate(TYPES)}
            typed = (f"CAST({text} AS {TYPES[name]})" for name, text in chosen.items())
            rows.append(f"({k}, {', '.join(typed)}{more})")
        return f"INSERT INTO e VALUES {', '.join(rows)}"

    for statement in (
        f"CREATE TABLE e (k INTEGER, {fields}, former VARCHAR)",
        insert(0, 30, ", 'o'"),
        *partitioned,
        insert(30, 21, ", NULL"),
        "DELETE FROM e WHERE k % 10 = 3",
        "ALTER TABLE e ALTER COLUMN i SET DATA TYPE BIGINT",
        "ALTER TABLE e RENAME COLUMN former TO old",
        "ALTER TABLE e ADD COLUMN new VARCHAR DEFAULT 'de'",
        insert(60, 40, ", 'o', NULL"),
        insert(110, 5, ", 'p', 'x'"),  # in the catalog
        "UPDATE e SET f = 7 WHERE k % 17 = 0",
    ):
        connection.execute(statement)
    connection.close()


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    return spark.newSession()


def copied(own: SparkSession, store: Store, folder: Path) -> None:
    """A view with the rows of the table in one plain file."""
    with store.open(own) as lake:
        lake.table("e").scan().to_native().coalesce(1).write.parquet(str(folder / "plain"))
    own.read.parquet(str(folder / "plain")).createOrReplaceTempView("plain")


def outcome(own: SparkSession, query: str) -> Counter[str] | str:
    """The rows of a query, or the class of its error."""
    try:
        return Counter(map(repr, own.sql(query).collect()))
    except PySparkException as error:
        return str(error.getCondition())


def differing(by_name: Counter[str] | str, plain: Counter[str] | str) -> object:
    """What is different, in short."""
    if isinstance(by_name, str) or isinstance(plain, str):
        return [side if isinstance(side, str) else side.total() for side in (by_name, plain)]
    return list(by_name - plain)[:3], list(plain - by_name)[:3]


@pytest.mark.timeout(3600 if PROVE else 300)
@pytest.mark.parametrize("keys", [*KEYS, *in_prove([(keys,) for keys in MORE_KEYS])], ids=" ".join)
def test_conditions_return_the_rows_of_a_plain_copy(own: SparkSession, tmp_path: Path, keys: list[str]) -> None:
    store = store_of(tmp_path)
    filled(store, keys)
    store.attach(own, use=False)
    wrong = {}
    copied(own, store, tmp_path)
    for zone in ZONES:
        own.conf.set("spark.sql.session.timeZone", zone)
        for condition in conditions():
            queries = [f"SELECT k FROM {table} WHERE {condition}" for table in ("dev.main.e", "plain")]
            by_name, plain = (outcome(own, query) for query in queries)
            if by_name != plain:
                wrong[zone, condition] = differing(by_name, plain)
    assert wrong == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("settings", [{}, *in_prove([({"spark.sql.adaptive.enabled": "false"},)])], ids=str)
def test_queries_return_the_rows_of_a_plain_copy(own: SparkSession, tmp_path: Path, settings: dict[str, str]) -> None:
    store = store_of(tmp_path)
    filled(store, KEYS[0])
    store.attach(own, use=False)
    for key, value in settings.items():
        own.conf.set(key, value)
    copied(own, store, tmp_path)
    queries = [query for query in QUERIES.strip().splitlines() if "ORDER BY k LIMIT" not in query]
    wrong = {}
    for query in queries if PROVE else queries[::2]:
        by_name, plain = (outcome(own, query.format(e=table)) for table in ("dev.main.e", "plain"))
        if by_name != plain or isinstance(plain, str):
            wrong[query] = differing(by_name, plain)
    assert wrong == {}
