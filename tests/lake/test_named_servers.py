"""Clients of a Spark server name the tables of a lake, without lakeconf: by Spark Connect and by JDBC."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from doc_pages import named
from named_server import NamedServer, named_server
from server_process import HOST
from server_project import Project, make_project
from shell import run_shell

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import PostgresServer, S3Server

pytestmark = [pytest.mark.slow, pytest.mark.hadoop_aws]


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, s3_server: S3Server
) -> Iterator[Project]:
    with pytest.MonkeyPatch.context() as patch:
        yield make_project(tmp_path_factory.mktemp("servers"), patch, postgres_server, s3_server)


@pytest.fixture(scope="module")
def server(project: Project, hadoop_aws_settings: dict[str, str]) -> Iterator[NamedServer]:
    more = {"spark.sql.defaultCatalog": "prod", "spark.log.level": "DEBUG"}
    with named_server(project.folder, "prod", hadoop_aws_settings | more) as started:
        yield started


STATEMENTS = (
    "CREATE TABLE {t} PARTITIONED BY (part) AS SELECT id, id % 3 AS part, concat('v', id) AS name FROM range(9)",
    "INSERT INTO {t} VALUES (9, 0, 'nine'), (10, 1, NULL)",
    "MERGE INTO {t} AS t USING (SELECT id, 'merged' AS name FROM range(8, 12)) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
    "DELETE FROM {t} WHERE upper(name) = 'V1' OR id = 3",
    "UPDATE {t} SET name = concat(name, '!') WHERE part = 2",
)
ROWS: list[tuple[object, ...]] = [(0, 0, "v0"), (2, 2, "v2!"), (4, 1, "v4"), (5, 2, "v5!"), (6, 0, "v6"), (7, 1, "v7")]
ROWS += [(8, 2, "merged!"), (9, 0, "merged"), (10, 1, "merged"), (11, None, "merged")]


def test_a_client_of_spark_connect_reads_and_writes(server: NamedServer, project: Project) -> None:
    statements = [statement.format(t="prod.raw.connect") for statement in STATEMENTS]
    reads = ("SELECT * FROM prod.raw.connect ORDER BY id", "SELECT min(snapshot_id) FROM prod.raw.connect.history")
    (answers,) = server.by_connect([*statements, *reads])
    *written, ((created,),) = answers
    assert written == [[]] * 5 + [[list(row) for row in ROWS]]
    assert server.by_connect([f"SELECT count(*) FROM prod.raw.connect VERSION AS OF {created}"]) == [[[[9]]]]
    assert project.rows("SELECT * FROM raw.connect ORDER BY id") == ROWS


def test_a_client_of_jdbc_reads_and_writes(server: NamedServer, project: Project) -> None:
    statements = [statement.format(t="raw.jdbc") for statement in STATEMENTS]
    output = server.by_jdbc(*statements, "SELECT name, count(*) FROM raw.jdbc GROUP BY name ORDER BY 1")
    assert "merged,3\nmerged!,1\nv0,1\n" in output
    assert project.rows("SELECT * FROM raw.jdbc ORDER BY id") == ROWS


def test_the_changes_of_a_table_are_the_first_statement_of_a_session(server: NamedServer) -> None:
    server.by_connect(["CREATE TABLE prod.raw.changed AS SELECT 1 AS n"])
    first = "SELECT n, change_type FROM table_changes('prod.raw.changed', 0)"
    assert server.by_connect([first]) == [[[[1, "insert"]]]]


def test_clients_read_views_and_call_procedures(server: NamedServer, project: Project) -> None:
    """The first statement of a session can be one that Spark does not parse."""
    server.by_connect(["CREATE TABLE prod.raw.viewed AS SELECT id FROM range(3)"])
    with lakeconf.init(project.folder).get_store().open() as lake:
        lake.create_view("raw.doubled", "SELECT id * 2 AS twice FROM raw.viewed WHERE id > 0")
    first, *answers = server.by_connect(["OPTIMIZE prod.raw.viewed"], ["SELECT * FROM prod.raw.doubled ORDER BY 1"])
    assert "CALL prod.system.compact('raw.viewed')" in first[0]
    assert answers == [[[[2], [4]]]]
    output = server.by_jdbc("SELECT sum(twice) FROM raw.doubled", "CALL prod.system.compact('raw.viewed')")
    assert "6\n" in output
    assert "true" in output


SHOWN = (
    "SET -v",
    "SET",
    "SHOW TBLPROPERTIES prod.raw.shown",
    "SHOW TABLE EXTENDED IN prod.raw LIKE 'shown'",
    "DESCRIBE EXTENDED prod.raw.shown",
    "DESCRIBE NAMESPACE EXTENDED prod.raw",
    "SHOW CREATE TABLE prod.raw.shown",
    "EXPLAIN EXTENDED SELECT * FROM prod.raw.shown WHERE n > 0",
    "EXPLAIN FORMATTED SELECT * FROM prod.raw.shown.files",
    "EXPLAIN CODEGEN SELECT n + 1 FROM prod.raw.shown",
    "EXPLAIN EXTENDED MERGE INTO prod.raw.shown t USING prod.raw.shown s ON t.n = s.n WHEN MATCHED THEN DELETE",
    "SELECT *, input_file_name() FROM prod.raw.shown",
    "SELECT path FROM prod.raw.shown.files",
    "CALL prod.system.compact('raw.shown')",
    # errors
    "SELECT * FROM prod.raw.missing",
    "SELECT n / 0 FROM prod.raw.shown",
    "SELECT raise_error(n) FROM prod.raw.shown",
    "INSERT INTO prod.raw.shown SELECT raise_error('stop')",
    "CREATE TABLE prod.raw.shown (n INT)",
    "ALTER TABLE prod.raw.shown SET TBLPROPERTIES (a = 'b')",
    "CALL prod.system.restore('raw.shown', version => 999999)",
    "SELECT * FROM parquet.`{path}`",
)


def test_no_statement_shows_a_secret(server: NamedServer, project: Project) -> None:
    server.by_connect(["CREATE TABLE prod.raw.shown AS SELECT 1 AS n", "DELETE FROM prod.raw.shown WHERE n * 2 = 8"])
    ((path,),) = project.rows("SELECT data_file FROM ducklake_list_files('prod', 'shown', schema => 'raw')")
    removed = str(path).replace("s3://", "s3a://").replace(".parquet", "-removed.parquet")
    statements = [statement.replace("{path}", removed) for statement in SHOWN]
    (answers,) = server.by_connect(statements)
    failed = [isinstance(answer, str) for answer in answers]
    first_error = SHOWN.index("SELECT * FROM prod.raw.missing")
    assert failed == [False] * first_error + [True] * (len(SHOWN) - first_error)
    assert any("fs.s3a" in str(answer) or "spark.hadoop" in str(answer) for answer in answers)
    project.assert_no_secret(text=f"{answers} {server.by_jdbc(*statements)}")


def test_two_clients_write_at_the_same_time(server: NamedServer, project: Project) -> None:
    """An UPDATE is done or a conflict: none is lost."""
    server.by_connect(["CREATE TABLE prod.raw.shared AS SELECT 0 AS id, 0 AS n"])
    updates = ["UPDATE prod.raw.shared SET n = n + 1 WHERE id = 0"] * 4
    clients = []
    for number in (1, 2):
        own = f"prod.raw.own_{number}"
        statements = [f"CREATE TABLE {own} AS SELECT 1 AS n", f"INSERT INTO {own} VALUES (2)"]
        clients.append([*statements, *[f"INSERT INTO prod.raw.shared VALUES ({number}, 0)"] * 3, *updates])
    with ThreadPoolExecutor() as pool:
        (first,), (second,) = pool.map(server.by_connect, clients)
    conflicts = [answer for answer in (*first, *second) if answer != []]
    assert len(conflicts) < len(updates) * 2
    assert all("CommitConflictError" in str(answer) for answer in conflicts)
    assert all(answer == [] for answer in (*first[:5], *second[:5]))
    done = 2 * len(updates) - len(conflicts)
    shared = "SELECT id, max(n), count(*) FROM raw.shared GROUP BY id ORDER BY id"
    assert project.rows(shared) == [(0, done, 1), (1, 0, 3), (2, 0, 3)]
    assert project.rows("SELECT * FROM raw.own_1 ORDER BY n") == project.rows("SELECT * FROM raw.own_2 ORDER BY n")
    project.assert_no_secret()


# A filter of a query, which changes the table while the statement runs.
OTHER_WRITER = """
import sys
import lakeconf
with lakeconf.init({folder!r}).get_store().open() as lake:
    lake.execute("UPDATE raw.contested SET n = n + 10 WHERE id = 0")
sys.stdout.write(sys.stdin.read())
"""


def test_a_change_between_plan_and_commit_is_a_conflict_with_a_hint(server: NamedServer, project: Project) -> None:
    script = project.folder / "other_writer.py"
    script.write_text(OTHER_WRITER.format(folder=str(project.folder)))
    source = f"SELECT TRANSFORM(id) USING '{sys.executable} {script}' AS (id BIGINT) FROM range(1)"
    merge = (
        f"MERGE INTO prod.raw.contested t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 1)"
    )
    overwrite = f"INSERT OVERWRITE prod.raw.contested SELECT t.id, t.n FROM prod.raw.contested t JOIN ({source}) s"
    (answers,) = server.by_connect(["CREATE TABLE prod.raw.contested AS SELECT id, 0 AS n FROM range(2)", merge])
    output = server.by_jdbc(overwrite)
    for text in (answers[1], output):
        assert "CommitConflictError: raw.contested was read at snapshot" in text
        assert "hint: read the table again, and repeat the statement" in text
    assert project.rows("SELECT id, n % 10, n >= 20 FROM raw.contested ORDER BY id") == [(0, 0, True), (1, 0, False)]


DBT_FILES = {
    "dbt_project.yml": """
        {name: shop, version: "1.0", profile: shop, flags: {send_anonymous_usage_stats: false},
         models: {+file_format: iceberg, +materialized: incremental}, seeds: {+file_format: iceberg},
         snapshots: {+file_format: iceberg}}
    """,
    "profiles.yml": """
        {shop: {target: lake, outputs: {lake: {type: spark, method: thrift, host: "{HOST}", port: {PORT}, user: dbt,
         schema: shop, threads: 3, poll_interval: 1}}}}
    """,
    "models/orders.sql": """
        {{ config(materialized="table", partition_by="day") }}
        SELECT id, customer, CAST(price AS DECIMAL(9, 2)) AS price, day FROM {{ ref("raw_orders") }}
    """,
    "models/appended.sql": """
        SELECT id, price FROM {{ ref("orders") }}
        {% if is_incremental() %} WHERE id > (SELECT max(id) FROM {{ this }}) {% endif %}
    """,
    "models/merged.sql": """
        {{ config(incremental_strategy="merge", unique_key="customer") }}
        SELECT customer, sum(price) AS spent FROM {{ ref("orders") }} GROUP BY customer
    """,
    "models/overwritten.sql": """
        {{ config(incremental_strategy="insert_overwrite", partition_by="day") }}
        SELECT count(*) AS orders, day FROM {{ ref("orders") }}
        {% if is_incremental() %} WHERE day > DATE '2024-01-01' {% endif %} GROUP BY day
    """,
    "models/tests.yml": """
        models: [{name: orders, columns: [{name: id, data_tests: [unique, not_null]}]}]
    """,
    "snapshots/history.sql": """
        {% snapshot history %}
        {{ config(target_schema="shop", unique_key="customer", strategy="check", check_cols=["spent"]) }}
        SELECT * FROM {{ ref("merged") }}
        {% endsnapshot %}
    """,
}
SEED = "id,customer,price,day\n1,ann,10,2024-01-01\n2,bob,20,2024-01-02\n3,ann,30,2024-01-02\n"
CHANGED_SEED = SEED.replace(",20,", ",25,") + "4,cid,5,2024-01-02\n"


def test_a_project_of_dbt_spark_is_built_twice(server: NamedServer, project: Project) -> None:
    folder = project.folder / "dbt"
    files = DBT_FILES | {"seeds/raw_orders.csv": SEED} | named("spark-sql.md", "sql")
    files["profiles.yml"] = files["profiles.yml"].replace("{HOST}", HOST).replace("{PORT}", str(server.thrift_port))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = f"cd {folder} && dbt build --profiles-dir ."
    output = run_shell(command)
    (folder / "seeds" / "raw_orders.csv").write_text(CHANGED_SEED)
    output += run_shell(command)
    assert project.rows("SELECT id, price::INTEGER, day::VARCHAR FROM shop.orders ORDER BY ALL") == [
        (1, 10, "2024-01-01"),
        (2, 25, "2024-01-02"),
        (3, 30, "2024-01-02"),
        (4, 5, "2024-01-02"),
    ]
    assert project.rows("SELECT id, price::INTEGER FROM shop.appended ORDER BY ALL") == [
        (1, 10),
        (2, 20),
        (3, 30),
        (4, 5),
    ]
    merged = [("ann", 40), ("bob", 25), ("cid", 5)]
    assert project.rows("SELECT customer, spent::INTEGER FROM shop.merged ORDER BY ALL") == merged
    days = [(1, "2024-01-01"), (3, "2024-01-02")]
    assert project.rows("SELECT orders, day::VARCHAR FROM shop.overwritten ORDER BY day") == days
    history = "SELECT customer, spent::INTEGER, dbt_valid_to IS NULL FROM shop.history ORDER BY ALL"
    assert project.rows(history) == [("ann", 40, True), ("bob", 20, False), ("bob", 25, True), ("cid", 5, True)]
    (folder / "models" / "seen.sql").write_text("{{ config(materialized='view') }} SELECT 1 AS one")
    assert "views" in run_shell(f"! ({command} --select seen)")
    project.assert_no_secret(text=output)
