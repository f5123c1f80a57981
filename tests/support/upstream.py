"""Open issues of DuckLake and DuckDB that change, lose, double or hide rows, and their lines in the documentation."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_lake import AttachedLake

# Issues that were read, or tried by hand, with this version: they change no rows, or only raise errors. Tests reproduce
# those of `upstream_right.py`. What #650 says is not known: no copy of it could be found.
TRIED = "1.5.5"
READ = (
    "84",
    "120",
    "625",
    "740",
    "749",
    "813",
    "873",
    "956",
    "961",
    "964",
    "999",
    "1054",
    "1055",
    "1070",
    "1080",
    "1111",
    "1129",
    "1135",
    "1137",
    "1141",
    "1158",
    "1251",
    "1299",
    "1308",
    "1310",
    "1331",
    "1419",
)
# Races of clients of a PostgreSQL catalog, which did not occur in test_races.py.
RACES = {
    "376": "concurrent commits fail",
    "1094": "inserts that commit at once lose statistics, so that a condition misses rows",
    "1198": "inserts that commit at once are internal errors",
    "1283": "tables that are replaced at once exceed the number of retries",
}
# Issues that nobody can run into through lakeconf: it registers only its own files, writes no table of the catalog,
# and does not read what a client with another name of the lake reads.
NOT_REACHED = {
    "1082": "registered files in folders of others",
    "1133": "a view whose table has the name of the lake is an error under another name",
    "1291": "registered files in the wrong partition",
    "1295": "registered files with NULLs in NOT NULL columns",
    "1298": "registered files without the column of a partition key",
    "1302": "a copied deletion vector is not removed",
    "1335": "a catalog whose next file id is too low",
    "1473": "a catalog whose statistics were set to NULL",
}


@dataclass(frozen=True)
class Entry:
    """An issue whose reproduction gives wrong rows."""

    number: int
    sentence: str  # its line in docs/limits.md
    made: Sequence[str] = ()  # the statements that make the lake; `{lake}` is its name
    asked: str = ""  # the query whose rows are wrong
    wrong: Sequence[tuple[Any, ...]] = ()
    right: Sequence[tuple[Any, ...]] = ()
    kind: str = "duckdb"  # the catalog
    options: str = ", DATA_INLINING_ROW_LIMIT 0"
    repository: str = "ducklake"
    steps: Callable[[AttachedLake], None] | None = None  # what needs more than one connection
    tested_in: str = ""  # the module that tests lakeconf, if it is not this one

    @property
    def name(self) -> str:
        return f"{self.repository}#{self.number}"

    @property
    def line(self) -> str:
        """The line of the documentation."""
        return f"- [{self.name}](https://github.com/duckdb/{self.repository}/issues/{self.number}): {self.sentence}"


def _two_deletes(lake: AttachedLake) -> None:
    with lake.connection.cursor() as small, lake.connection.cursor() as large:
        for cursor, count in ((small, 5), (large, 20)):
            cursor.execute("BEGIN")
            cursor.execute(f"DELETE FROM lake.t WHERE id < {count}")
        small.execute("COMMIT")
        large.execute("COMMIT")


def _two_upserts(lake: AttachedLake) -> None:
    with lake.connection.cursor() as first, lake.connection.cursor() as second:
        for cursor in (first, second):
            cursor.execute("BEGIN")
            cursor.execute("DELETE FROM lake.t WHERE id = 1")
            cursor.execute("INSERT INTO lake.t VALUES (1)")
        first.execute("COMMIT")
        second.execute("COMMIT")


def _commit_that_fails(lake: AttachedLake) -> None:
    def renamed(former: str, name: str) -> None:
        lake.rows(f"CALL quack_query_by_name('__ducklake_metadata_lake', 'ALTER TABLE {former} RENAME TO {name}')")

    renamed("ducklake_data_file", "away")
    with contextlib.suppress(LakeconfError):
        lake.run("INSERT INTO lake.t VALUES (1)")
    renamed("away", "ducklake_data_file")


def _expired_under_a_delete(lake: AttachedLake) -> None:
    with lake.connection.cursor() as open_transaction:
        open_transaction.execute("BEGIN")
        open_transaction.rows("FROM lake.t")
        lake.run(
            "INSERT INTO lake.t VALUES (2)",
            "CALL ducklake_merge_adjacent_files('lake')",
            "CREATE TABLE lake.other (id INTEGER)",
            "CALL ducklake_expire_snapshots('lake', versions => [3, 4])",
        )
        open_transaction.execute("DELETE FROM lake.t WHERE id = 1")
        open_transaction.execute("COMMIT")


_SORTED = [
    "CREATE TABLE {lake}.t (id INTEGER, v DOUBLE)",
    "ALTER TABLE {lake}.t SET SORTED BY (v ASC)",
    "INSERT INTO {lake}.t VALUES (1, 9), (2, 10)",
    "DELETE FROM {lake}.t WHERE id = 1",
]
PROMOTED = [
    "CREATE TABLE {lake}.t (id INTEGER, v INTEGER)",
    "INSERT INTO {lake}.t VALUES (1, 2)",
    "ALTER TABLE {lake}.t ALTER v SET DATA TYPE DOUBLE",
]
WITH_NAN = ["CREATE TABLE {lake}.t (id INTEGER, v DOUBLE)", "INSERT INTO {lake}.t VALUES (1, 1), (2, 'nan')"]
MERGED_TWICE = [
    "CREATE TABLE {lake}.t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS r(id, v)",
    "CREATE TEMP TABLE given AS SELECT * FROM (VALUES (1, 'A'), (3, 'c')) AS r(id, v)",
    "BEGIN",
    "MERGE INTO {lake}.t AS t USING given AS g ON t.id = g.id WHEN MATCHED THEN UPDATE SET v = g.v "
    "WHEN NOT MATCHED THEN INSERT VALUES (g.id, g.v)",
    "MERGE INTO {lake}.t AS t USING given AS g ON t.id = g.id WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "COMMIT",
]
DOUBLED = [
    "CREATE TABLE {lake}.t AS FROM range(100) AS r(id)",
    "DELETE FROM {lake}.t WHERE id = 3",
    "CALL ducklake_flush_inlined_data('{lake}')",
    "DELETE FROM {lake}.t WHERE id = 4",
    "CALL ducklake_rewrite_data_files('{lake}', 't', delete_threshold => 0)",
    "CALL ducklake_flush_inlined_data('{lake}')",
]
ENTRIES = (
    Entry(
        1001,
        "plain DuckDB stores NULL in structs, lists and maps that are NOT NULL.",
        ["CREATE TABLE {lake}.t (id INTEGER, v INTEGER[] NOT NULL)", "INSERT INTO {lake}.t VALUES (1, NULL)"],
        "FROM {lake}.t",
        wrong=[(1, None)],
        tested_in="tests/write/test_execute.py",
    ),
    Entry(
        1072,
        "rows of a table with deletion vectors cannot be changed; reading versions that have lost theirs is an error.",
        tested_in="tests/upstream/test_deletion_vectors.py",
    ),
    Entry(
        1073,
        "in a transaction, earlier versions show its changes; reading a changed table with AT is an error.",
        [
            "CREATE TABLE {lake}.t AS FROM range(9) AS r(id)",
            "BEGIN",
            "DELETE FROM {lake}.t WHERE id = 1",
        ],
        "SELECT count(*) FROM {lake}.t AT (VERSION => 1)",
        wrong=[(8,)],
        right=[(9,)],
    ),
    Entry(
        1186,
        "128-bit integers, intervals and times with an offset are stored inexactly in Parquet, so lakeconf does not "
        "write them to files.",
        ["CREATE TABLE {lake}.t (v HUGEINT)", "INSERT INTO {lake}.t VALUES (123456789012345678901234567890)"],
        "FROM {lake}.t",
        wrong=[(123456789012345677877719597056,)],
        right=[(123456789012345678901234567890,)],
        tested_in="tests/write/test_writes.py",
    ),
    Entry(
        1215,
        "two plain clients that delete the same rows at once can bring rows back: deletes are errors until a "
        "compaction; queries on DuckDB do not notice it.",
        ["CREATE TABLE {lake}.t AS SELECT i AS id FROM range(100) AS r(i)"],
        "SELECT count(*) FROM {lake}.t WHERE id < 20",
        wrong=[(19,)],
        right=[(0,)],
        options="",
        steps=_two_deletes,
    ),
    Entry(
        1264,
        "for `<>`, plain DuckDB misses NaN beside one other number in a file; see the bucket keys.",
        WITH_NAN,
        "SELECT id FROM {lake}.t WHERE v <> 1",
        right=[(2,)],
    ),
    Entry(
        1267,
        "a commit to a Quack catalog is not one transaction: if a statement fails, those before it stay. "
        '`type = "quack"` is an error.',
        ["CREATE TABLE {lake}.t (id INTEGER)"],
        "SELECT max(snapshot_id) FROM {lake}.snapshots()",
        wrong=[(2,)],
        right=[(1,)],
        kind="quack",
        steps=_commit_that_fails,
        tested_in="tests/backends/test_registry.py",
    ),
    Entry(
        1377,
        "plain DuckDB applies today's statistics to older snapshots; lakeconf does not.",
        [
            "CREATE TABLE {lake}.t (v INTEGER)",
            "INSERT INTO {lake}.t VALUES (NULL), (1)",
            "DELETE FROM {lake}.t WHERE v IS NULL",
            "CALL ducklake_rewrite_data_files('{lake}', 't', delete_threshold => 0)",
        ],
        "SELECT count(*) FROM {lake}.t AT (VERSION => 2) WHERE v IS NULL",
        wrong=[(0,)],
        right=[(1,)],
    ),
    Entry(
        1383,
        "rows with NULL in the catalog since a `DROP NOT NULL` cannot be compacted: copy them to a new table.",
    ),
    Entry(
        1385,
        "a flush by plain DuckDB can bring deleted rows of sorted tables back. Compactions of lakeconf leave such "
        "rows in the catalog.",
        [*_SORTED, "CALL ducklake_flush_inlined_data('{lake}')"],
        "FROM {lake}.t",
        wrong=[(1, 9.0)],
        right=[(2, 10.0)],
        kind="sqlite",
        options=", DATA_INLINING_ROW_LIMIT 100, META_JOURNAL_MODE 'WAL'",
    ),
    Entry(
        1387,
        "plain DuckDB's change feed repeats updates if a transaction changed a table twice; lakeconf's does not.",
        MERGED_TWICE,
        "SELECT rowid, count(*) FROM ducklake_table_changes('{lake}', 'main', 't', 2, 2) GROUP BY ALL ORDER BY ALL",
        wrong=[(0, 4), (1, 1), (3, 1)],
        right=[(0, 2), (1, 1), (3, 1)],
    ),
    Entry(
        1393,
        "two plain clients that delete nothing and insert one key both succeed.",
        ["CREATE TABLE {lake}.t (id INTEGER)", "INSERT INTO {lake}.t SELECT 100 + i FROM range(50) AS r(i)"],
        "SELECT count(*) FROM {lake}.t WHERE id = 1",
        wrong=[(2,)],
        right=[(1,)],
        options="",
        steps=_two_upserts,
    ),
    Entry(
        1406,
        "a flush after a rewrite by plain DuckDB doubles rows of earlier versions; reading these is an error.",
        DOUBLED,
        "SELECT count(id) FROM {lake}.t AT (VERSION => 4)",
        wrong=[(198,)],
        right=[(98,)],
        options=", DATA_INLINING_ROW_LIMIT 10",
    ),
    Entry(
        1414,
        "plain DuckDB misses rows older than a bucket key. lakeconf finds them, or raises an error until "
        "`table.overwrite(table.scan())`.",
        [
            "CREATE TABLE {lake}.t (id INTEGER)",
            "INSERT INTO {lake}.t SELECT i FROM range(24) AS r(i)",
            "ALTER TABLE {lake}.t SET PARTITIONED BY (bucket(4, id))",
        ],
        "FROM {lake}.t WHERE id = 1",
        right=[(1,)],
        tested_in="tests/lake/test_bucket_keys.py",
    ),
    Entry(
        1435,
        "catalogs in SQLite and PostgreSQL lose quotes, dates and other values in structs: with "
        "`data_inlining_row_limit`, lakeconf raises an error.",
        ["CREATE TABLE {lake}.t (v STRUCT(f VARCHAR))", "INSERT INTO {lake}.t VALUES ({{'f': 'it''s'}})"],
        "SELECT v.f FROM {lake}.t",
        wrong=[("its",)],
        right=[("it's",)],
        kind="sqlite",
        options=", DATA_INLINING_ROW_LIMIT 100, META_JOURNAL_MODE 'WAL'",
    ),
    Entry(
        1472,
        "a delete by plain DuckDB is lost if its table is merged and these snapshots expire meanwhile.",
        ["CREATE TABLE {lake}.t (id INTEGER)", "INSERT INTO {lake}.t VALUES (1)"],
        "FROM {lake}.t ORDER BY id",
        wrong=[(1,), (2,)],
        right=[(2,)],
        steps=_expired_under_a_delete,
    ),
    Entry(
        24900,
        "plain DuckDB misses rows older than the promotion of a column; see the bucket keys.",
        PROMOTED,
        "SELECT id FROM {lake}.t WHERE v > 1.5",
        right=[(1,)],
        repository="duckdb",
    ),
)
