"""The test servers behave as other tests assume: real protocols, enforced credentials, real faults."""

from __future__ import annotations

import contextlib
import socket
import struct
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import duckdb
import pytest
from certificates import make_certificate

from lakeconf.connection.connection import Connection, load_extension

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import FaultProxy, PostgresServer, S3Keys, S3Server


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in ("ducklake", "postgres_scanner", "httpfs"):
            load_extension(Connection(connection), name)
        connection.execute("SET http_retries = 0")
        yield connection


def use_postgres(
    con: duckdb.DuckDBPyConnection, server: PostgresServer, database: str, *, port: int = 0, options: str = ""
) -> None:
    con.execute(
        f"CREATE OR REPLACE SECRET pg (TYPE postgres, HOST '{server.host}', PORT {port or server.port}, "
        f"DATABASE '{database}', USER '{server.user}', PASSWORD ? {options})",
        [server.password],
    )


def use_s3(con: duckdb.DuckDBPyConnection, server: S3Server, *, keys: S3Keys | None = None, port: int = 0) -> None:
    keys = keys or server.keys
    endpoint = f"127.0.0.1:{port}" if port else server.endpoint
    con.execute(
        f"CREATE OR REPLACE SECRET s (TYPE s3, KEY_ID ?, SECRET ?, ENDPOINT '{endpoint}', URL_STYLE 'path', "
        f"USE_SSL {server.ca is not None}, REGION '{server.region}')",
        [keys.key_id, keys.secret],
    )


def check_lake(con: duckdb.DuckDBPyConnection, data_path: str, database: str | None = None) -> None:
    """Creates a DuckLake, writes to it, and reads the rows back."""
    catalog, options = ("postgres:", ", META_SECRET 'pg'") if database else (":memory:", "")
    con.execute(f"ATTACH 'ducklake:{catalog}' AS lake (DATA_PATH '{data_path}', DATA_INLINING_ROW_LIMIT 0 {options})")
    con.execute("CREATE TABLE lake.t AS SELECT range AS i FROM range(100)")
    con.execute("DELETE FROM lake.t WHERE i < 10")
    assert con.execute("SELECT count(*), sum(i) FROM lake.t").fetchone() == (90, sum(range(10, 100)))


@pytest.mark.parametrize(("secret_type", "scheme"), [("r2", "r2"), ("gcs", "gs"), ("gcs", "gcs")])
def test_ducklake_on_r2_and_gcs(
    con: duckdb.DuckDBPyConnection, s3_server: S3Server, secret_type: str, scheme: str
) -> None:
    bucket = s3_server.create_bucket()
    con.execute(
        f"CREATE SECRET s (TYPE {secret_type}, KEY_ID 'k', SECRET 's', ENDPOINT '{s3_server.endpoint}', "
        "URL_STYLE 'path', USE_SSL false)"
    )
    check_lake(con, f"{scheme}://{bucket}/")
    assert s3_server.objects(bucket)


def test_postgres_role_can_be_read_only(postgres_server: PostgresServer, con: duckdb.DuckDBPyConnection) -> None:
    database = postgres_server.create_database()
    postgres_server.sql("CREATE TABLE t AS SELECT 1 AS i", database)
    name, password = postgres_server.create_role(database, read_only=True)
    con.execute(
        f"CREATE SECRET pg (TYPE postgres, HOST '127.0.0.1', PORT {postgres_server.port}, DATABASE '{database}', "
        f"USER '{name}', PASSWORD '{password}')"
    )
    con.execute("ATTACH '' AS pg (TYPE postgres, SECRET pg)")
    assert con.execute("SELECT * FROM pg.t").fetchall() == [(1,)]
    with pytest.raises(duckdb.Error, match="permission denied"):
        con.execute("INSERT INTO pg.t VALUES (2)")


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_postgres_accepts_tls_connections(
    con: duckdb.DuckDBPyConnection, postgres_tls_server: PostgresServer, mode: str
) -> None:
    options = f", SSLMODE '{mode}', SSLROOTCERT '{postgres_tls_server.ca}'"
    use_postgres(con, postgres_tls_server, "postgres", options=options)
    con.execute("ATTACH '' AS pg (TYPE postgres, SECRET pg)")
    assert con.execute("SELECT * FROM postgres_query('pg', 'SELECT 1')").fetchall() == [(1,)]


def test_postgres_tls_client_checks_the_authority(
    con: duckdb.DuckDBPyConnection, postgres_tls_server: PostgresServer, tmp_path: Path
) -> None:
    other = make_certificate(tmp_path).ca
    use_postgres(con, postgres_tls_server, "postgres", options=f", SSLMODE 'verify-ca', SSLROOTCERT '{other}'")
    with pytest.raises(duckdb.Error, match="certificate verify failed"):
        con.execute("ATTACH '' AS pg (TYPE postgres, SECRET pg)")


def test_postgres_tls_server_rejects_unencrypted_connections(
    con: duckdb.DuckDBPyConnection, postgres_tls_server: PostgresServer
) -> None:
    use_postgres(con, postgres_tls_server, "postgres", options=", SSLMODE 'disable'")
    with pytest.raises(duckdb.Error, match="no encryption"):
        con.execute("ATTACH '' AS pg (TYPE postgres, SECRET pg)")


def test_s3_over_tls_with_a_private_authority(con: duckdb.DuckDBPyConnection, s3_tls_server: S3Server) -> None:
    bucket = s3_tls_server.create_bucket()
    use_s3(con, s3_tls_server)
    with pytest.raises(duckdb.Error, match=r"(?i)certificate"):
        con.execute(f"COPY (SELECT 1 AS i) TO 's3://{bucket}/a.parquet'")
    con.execute(f"SET ca_cert_file = '{s3_tls_server.ca}'")
    check_lake(con, f"s3://{bucket}/")


def test_s3_checks_signatures_and_permissions(con: duckdb.DuckDBPyConnection, s3_iam_server: S3Server) -> None:
    bucket, good = s3_iam_server.create_bucket(), s3_iam_server.keys
    assert s3_iam_server.read_only
    use_s3(con, s3_iam_server)
    check_lake(con, f"s3://{bucket}/")
    write = f"COPY (SELECT 1 AS i) TO 's3://{bucket}/a.parquet'"
    con.execute(write)

    use_s3(con, s3_iam_server, keys=good._replace(secret="wrong"))
    with pytest.raises(duckdb.Error, match="SignatureDoesNotMatch"):
        con.execute(write)
    use_s3(con, s3_iam_server, keys=good._replace(key_id="wrong"))
    with pytest.raises(duckdb.Error, match="InvalidAccessKeyId"):
        con.execute(write)
    use_s3(con, s3_iam_server, keys=s3_iam_server.read_only)
    assert con.execute(f"FROM 's3://{bucket}/a.parquet'").fetchall() == [(1,)]
    with pytest.raises(duckdb.Error, match="AccessDenied"):
        con.execute(write)


def get(proxy: FaultProxy, *, method: str = "GET") -> int:
    """The status of one request through the proxy; raises an OSError if there is no response."""
    request = urllib.request.Request(f"http://127.0.0.1:{proxy.port}/", method=method)
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_proxy_forwards_and_logs_requests(s3_proxy: FaultProxy) -> None:
    assert get(s3_proxy) == 200
    assert [tuple(request) for request in s3_proxy.requests] == [("GET", "/", None, False)]


def test_proxy_responds_in_place_of_the_server(s3_proxy: FaultProxy) -> None:
    s3_proxy.answer(503, method="GET", times=2)
    assert [get(s3_proxy, method="HEAD"), get(s3_proxy), get(s3_proxy), get(s3_proxy)] == [200, 503, 503, 200]
    assert [request.injected for request in s3_proxy.requests] == [None, 503, 503, None]


def test_proxy_refuses_connections_until_healed(s3_proxy: FaultProxy) -> None:
    s3_proxy.refuse()
    with pytest.raises(urllib.error.URLError, match="refused"):
        get(s3_proxy)
    s3_proxy.heal()
    assert get(s3_proxy) == 200


def test_proxy_resets_after_a_number_of_bytes(s3_proxy: FaultProxy, s3_server: S3Server) -> None:
    s3_proxy.reset_after(100_000)
    bucket = s3_server.create_bucket()
    url = f"http://127.0.0.1:{s3_proxy.port}/{bucket}/a"
    request = urllib.request.Request(url, data=b"x" * 1_000_000, method="PUT")
    with pytest.raises(OSError, match=r"(?i)reset|broken pipe|closed"):
        urllib.request.urlopen(request, timeout=5)  # noqa: S310
    assert s3_proxy.fired == 1
    assert s3_server.objects(bucket) == []


def test_proxy_resets_existing_connections(postgres_proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", postgres_proxy.port), timeout=5) as client:
        client.sendall(struct.pack("!ii", 8, 80877103))
        assert client.recv(1) == b"N", "asked whether it speaks TLS, the server says no and waits for what comes next"
        postgres_proxy.drop_connections()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@pytest.mark.parametrize(("forward", "rows"), [(False, 0), (True, 1)])
def test_proxy_loses_a_commit_or_its_reply(
    con: duckdb.DuckDBPyConnection,
    postgres_server: PostgresServer,
    postgres_proxy: FaultProxy,
    *,
    forward: bool,
    rows: int,
) -> None:
    database = postgres_server.create_database()
    postgres_server.sql("CREATE TABLE t (i int)", database)
    use_postgres(con, postgres_server, database, port=postgres_proxy.port)
    con.execute("ATTACH '' AS pg (TYPE postgres, SECRET pg)")
    con.execute("BEGIN")
    con.execute("INSERT INTO pg.t VALUES (1)")
    postgres_proxy.reset_on(b"COMMIT", forward=forward)
    with pytest.raises(duckdb.Error):
        con.execute("COMMIT")
    assert postgres_proxy.fired == 1
    assert postgres_server.sql("SELECT count(*) FROM t", database) == str(rows)
    with contextlib.suppress(duckdb.Error):
        con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM pg.t").fetchone() == (rows,)
