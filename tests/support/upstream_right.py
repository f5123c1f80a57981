"""Issues of DuckLake whose reproductions give the right rows with the tested version.

Each is the shortest form of what the issue says; closed ones are here because a new version could bring them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLUSH = "CALL ducklake_flush_inlined_data('{lake}')"
_REWRITE = "CALL ducklake_rewrite_data_files('{lake}', 't', delete_threshold => 0)"
_MERGE = "CALL ducklake_merge_adjacent_files('{lake}')"
_EXPIRE = "CALL ducklake_expire_snapshots('{lake}', older_than => now())"
_CLEAN = "CALL ducklake_cleanup_old_files('{lake}', cleanup_all => true)"
_LIMIT = "CALL {lake}.set_option('data_inlining_row_limit', "


class Right(NamedTuple):
    """A reproduction. `{lake}` is the name of the lake, `{folder}` a folder for other files."""

    made: Sequence[str]  # the statements that make the lake
    asked: str  # the query whose rows were wrong
    right: Sequence[tuple[Any, ...]]
    inlined: int = 0  # the limit of inlined rows


def _restated(*made: str) -> list[str]:
    """Rows that are deleted and inserted again and again, with a flush in between."""
    steps = [*made]
    for turn in range(6):
        insert = f"INSERT INTO {{lake}}.t SELECT i % 3, i, {turn} FROM range(8) AS r(i)"
        steps += ["BEGIN", "DELETE FROM {lake}.t WHERE id < 8", insert, "COMMIT", *([_FLUSH] if turn % 2 else [])]
    return steps


RIGHT = {
    "189": Right(
        [
            "CREATE TABLE {lake}.t (id INT)",
            *(f"INSERT INTO {{lake}}.t VALUES ({row_id})" for row_id in (1, 2, 3)),
            "DELETE FROM {lake}.t WHERE id = 2",
            _MERGE,
        ],
        "FROM {lake}.t ORDER BY id",
        [(1,), (3,)],
    ),
    "525": Right(
        [
            "CREATE TABLE {lake}.t (i INT)",
            *(f"COPY (SELECT 1::INT AS i WHERE false) TO '{{folder}}/{name}.parquet'" for name in "ef"),
            *(f"CALL ducklake_add_data_files('{{lake}}', 't', '{{folder}}/{name}.parquet')" for name in "ef"),
            _MERGE,
        ],
        "SELECT count(*) FROM {lake}.t",
        [(0,)],
    ),
    "527": Right(
        [
            "CREATE TABLE {lake}.a (i INT)",
            "INSERT INTO {lake}.a VALUES (1)",
            "ALTER TABLE {lake}.a RENAME TO t",
            "INSERT INTO {lake}.t VALUES (2)",
            _EXPIRE,
            _CLEAN,
        ],
        "FROM {lake}.t ORDER BY i",
        [(1,), (2,)],
    ),
    "530": Right(
        [
            "CREATE TABLE {lake}.a (i INT)",
            "ALTER TABLE {lake}.a RENAME TO t",
            _EXPIRE,
            "INSERT INTO {lake}.t VALUES (1)",
        ],
        "FROM {lake}.t",
        [(1,)],
    ),
    "536": Right(
        ["CREATE TABLE {lake}.t (i INT)", *(f"INSERT INTO {{lake}}.t VALUES ({i})" for i in range(9)), _MERGE],
        "SELECT count(*), sum(i)::INT, (SELECT count(*) FROM ducklake_list_files('{lake}', 't')) FROM {lake}.t",
        [(9, 36, 1)],
    ),
    "597": Right(
        [
            "CREATE TABLE {lake}.t (i INT)",
            "BEGIN",
            "INSERT INTO {lake}.t VALUES (1), (2)",
            "UPDATE {lake}.t SET i = 3 WHERE i = 1",
            "DELETE FROM {lake}.t WHERE i = 2",
            "COMMIT",
        ],
        "FROM {lake}.t",
        [(3,)],
        inlined=10,
    ),
    "673": Right(
        [
            "CREATE TABLE {lake}.t (i INT)",
            "INSERT INTO {lake}.t VALUES (1), (2)",
            "DELETE FROM {lake}.t WHERE i = 2",
            _FLUSH,
        ],
        "FROM {lake}.t AT (VERSION => 2) ORDER BY i",
        [(1,), (2,)],
        inlined=10,
    ),
    "709": Right(
        ["CREATE TABLE {lake}.t (i INT)", "INSERT INTO {lake}.t FROM range(5)", _FLUSH],
        "SELECT record_count FROM __ducklake_metadata_{lake}.ducklake_table_stats",
        [(5,)],
        inlined=10,
    ),
    "785": Right(
        [
            "CREATE TABLE {lake}.t (ts TIMESTAMP, x INT)",
            "ALTER TABLE {lake}.t SET PARTITIONED BY (year(ts))",
            "MERGE INTO {lake}.t AS t USING (SELECT '2026-02-20' AS ts, 42 AS x) AS s ON t.ts = s.ts "
            "WHEN NOT MATCHED THEN INSERT",
        ],
        "SELECT partition_value FROM __ducklake_metadata_{lake}.ducklake_file_partition_value",
        [("2026",)],
    ),
    "815": Right(
        [
            "CREATE TABLE {lake}.t (i INT)",
            "INSERT INTO {lake}.t VALUES (1)",
            "CREATE TABLE {lake}.u (i INT)",
            _EXPIRE,
            "CALL ducklake_delete_orphaned_files('{lake}', cleanup_all => true)",
        ],
        "FROM {lake}.t",
        [(1,)],
    ),
    "865": Right(
        [
            "CREATE TABLE {lake}.t AS SELECT i AS k, 'a' AS h FROM range(200000) AS r(i)",
            "CREATE TEMP TABLE given AS SELECT i * 3 AS k, 'b' AS h FROM range(60000) AS r(i)",
            "UPDATE {lake}.t AS t SET h = g.h FROM given AS g WHERE t.k = g.k",
        ],
        "SELECT count(*), count(DISTINCT k), count(DISTINCT rowid), count(*) FILTER (h = 'b') FROM {lake}.t",
        [(200000, 200000, 200000, 60000)],
    ),
    "867": Right(
        [
            "CREATE TABLE {lake}.n (id INT, v VARCHAR)",
            "INSERT INTO {lake}.n VALUES (1, '1.5')",
            "CREATE TABLE {lake}.t (id INT, v VARCHAR)",
            "INSERT INTO {lake}.t VALUES (1, 'alpha')",
            "UPDATE __ducklake_metadata_{lake}.ducklake_table_column_stats SET min_value = NULL, max_value = NULL "
            "WHERE table_id = 2",
        ],
        "SELECT id FROM {lake}.t WHERE v = 'alpha'",
        [(1,)],
    ),
    "917": Right(
        _restated("CREATE TABLE {lake}.t (part INT, id INT, v INT)"),
        "SELECT (SELECT count(*) FROM {lake}.t), count(*), sum(v)::INT FROM {lake}.t WHERE id >= 0",
        [(8, 8, 40)],
        inlined=10,
    ),
    "973": Right(
        [
            "CREATE TABLE {lake}.t (a INT, b INT)",
            "ALTER TABLE {lake}.t SET SORTED BY (a)",
            "BEGIN",
            "ALTER TABLE {lake}.t ALTER COLUMN b SET DEFAULT 42",
            "ALTER TABLE {lake}.t RENAME COLUMN a TO c",
            "COMMIT",
            "INSERT INTO {lake}.t VALUES (3, 30), (1, 10)",
        ],
        "SELECT c FROM {lake}.t",
        [(1,), (3,)],
    ),
    "1004": Right(
        [
            "CREATE TABLE {lake}.t (id INT, p INT, q INT, v INT)",
            "ALTER TABLE {lake}.t SET PARTITIONED BY (p, q)",
            *(
                f"MERGE INTO {{lake}}.t AS t USING (SELECT i AS id, i % 6 AS p, i % 2 AS q, {turn} AS v FROM "
                f"range({10 * turn}, {10 * turn + 30}) AS r(i)) AS s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT BY NAME"
                for turn in range(3)
            ),
        ],
        "SELECT count(*), count(DISTINCT id), sum(v)::INT FROM {lake}.t",
        [(50, 50, 70)],
    ),
    "1014": Right(
        [
            "COPY (SELECT 1 AS id, NULL::VARCHAR AS tag) TO '{folder}/p' (FORMAT PARQUET, PARTITION_BY (tag))",
            "CREATE TABLE {lake}.t (id INT, tag VARCHAR)",
            "ALTER TABLE {lake}.t SET PARTITIONED BY (tag)",
            "CALL ducklake_add_data_files('{lake}', 't', '{folder}/p/*/*.parquet', hive_partitioning => true)",
        ],
        "SELECT id FROM {lake}.t WHERE tag IS NULL",
        [(1,)],
    ),
    "1067": Right(
        [
            "CREATE TABLE {lake}.t (i INT)",
            "INSERT INTO {lake}.t VALUES (1)",
            "DELETE FROM {lake}.t",
            "INSERT INTO {lake}.t VALUES (2)",
            _EXPIRE,
            _CLEAN,
        ],
        "FROM {lake}.t",
        [(2,)],
        inlined=10,
    ),
    "1074": Right(
        [
            "CREATE TABLE {lake}.t AS SELECT i FROM range(100) AS r(i)",
            f"{_LIMIT}100)",
            "DELETE FROM {lake}.t WHERE i = 0",
            f"{_LIMIT}0)",
            "DELETE FROM {lake}.t WHERE i = 1",
            "DELETE FROM {lake}.t WHERE i = 2",
        ],
        "SELECT count(*) FROM {lake}.t AT (VERSION => 3)",
        [(98,)],
    ),
    "1085": Right(
        ["CREATE TABLE {lake}.t AS FROM range(100) AS r(i)", "DELETE FROM {lake}.t WHERE i < 5", _REWRITE],
        "SELECT count(*), min(i) FROM {lake}.t",
        [(95, 5)],
        inlined=10,
    ),
    "1237": Right(
        ["CREATE TABLE {lake}.t (i INT)", "INSERT INTO {lake}.t VALUES (1)", _FLUSH, _EXPIRE],
        "FROM {lake}.t",
        [(1,)],
        inlined=10,
    ),
    "1241": Right(
        [
            "CREATE TABLE {lake}.t (i INT)",
            "INSERT INTO {lake}.t FROM range(100)",
            "INSERT INTO {lake}.t FROM range(100)",
            "DELETE FROM {lake}.t WHERE i < 10",
            _REWRITE,
        ],
        "SELECT count(*), min(i) FROM {lake}.t",
        [(180, 10)],
    ),
    "1247": Right(
        [
            "CREATE TABLE {lake}.t AS FROM range(100) AS r(i)",
            "BEGIN",
            "DELETE FROM {lake}.t",
            "INSERT INTO {lake}.t FROM range(200, 210)",
            "COMMIT",
        ],
        "SELECT i FROM {lake}.t WHERE i > 208",
        [(209,)],
    ),
    "1266": Right(
        [
            "CREATE TABLE {lake}.t (part INT, i INT)",
            "ALTER TABLE {lake}.t SET PARTITIONED BY (part)",
            "INSERT INTO {lake}.t SELECT i % 4, i FROM range(400) AS r(i)",
            "DELETE FROM {lake}.t WHERE i % 5 = 0",
            _FLUSH,
        ],
        "SELECT count(*), sum(i)::INT FROM {lake}.t",
        [(320, 64000)],
        inlined=1000,
    ),
    "1364": Right(
        _restated("CREATE TABLE {lake}.t (part INT, id INT, v INT)", "ALTER TABLE {lake}.t SET PARTITIONED BY (part)"),
        "SELECT (SELECT count(*) FROM {lake}.t), count(*), sum(v)::INT FROM {lake}.t WHERE id >= 0",
        [(8, 8, 40)],
        inlined=10,
    ),
    "1411": Right(
        ["CREATE TABLE {lake}.t (v FLOAT)", "INSERT INTO {lake}.t VALUES (NULL)", "INSERT INTO {lake}.t VALUES (0.5)"],
        "SELECT min(v), max(v), count(*) FILTER (v > 0.1) FROM {lake}.t",
        [(0.5, 0.5, 1)],
    ),
}
