"""Clients of a Spark server name the tables of a lake, without lakeconf: by Spark Connect and by JDBC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from named_server import NamedServer, named_server
from server_project import Project, make_project

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
    with named_server(project.folder, "prod", hadoop_aws_settings) as started:
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
    output = server.by_jdbc("USE prod", *statements, "SELECT name, count(*) FROM raw.jdbc GROUP BY name ORDER BY 1")
    assert "merged,3\nmerged!,1\nv0,1\n" in output
    assert project.rows("SELECT * FROM raw.jdbc ORDER BY id") == ROWS
