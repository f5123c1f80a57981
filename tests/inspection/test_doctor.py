"""`lakeconf doctor`: its steps, files, servers and probe; conformance/test_broken_lakes.py has its verdicts."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lake_parts import data_path_of, session_of
from local_stores import config_of, in_bucket, on_postgres
from plain_sql import run_plain

import lakeconf
from lakeconf.cli.app import run
from lakeconf.connection.connection import Connection, connect, load_extension, remove_files
from lakeconf.errors import LakeconfError
from lakeconf.inspection import doctor
from lakeconf.inspection.doctor_lake import make_folders, read_and_remove
from lakeconf.sql import literal
from lakeconf.transfer.repair_catalog import examine_catalog, repair_catalog

if TYPE_CHECKING:
    from servers import PostgresServer, S3Server


STEPS = (
    *("extensions", "secrets", "catalog", "version", "data path readable", "data path writable"),
    *("clock", "server", "marker", "files", "statistics", "spark"),
)


def diagnosed(config: dict[str, Any]) -> dict[str, doctor.StepResult]:
    steps = doctor.diagnose(store(config))
    assert tuple(step.name for step in steps) == STEPS
    return {step.name: step for step in steps}


def local(folder: Path) -> dict[str, Any]:
    backends: dict[str, Any] = config_of(folder)["stores"]["dev"]
    return backends


def store(config: dict[str, Any]) -> lakeconf.Store:
    return lakeconf.init({"stores": {"dev": config}}).get_store("dev")


@pytest.fixture
def on_servers(postgres_server: PostgresServer, s3_server: S3Server) -> dict[str, Any]:
    return {"metadata_backend": on_postgres(postgres_server), "storage_backend": in_bucket(s3_server)}


@pytest.mark.slow
def test_local_store_and_missing_lake(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(project.rglob("*"))
    assert run(["doctor", "--store", "dev", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["store"], found["ok"]) == ("dev", True)
    assert [step["name"] for step in found["steps"]] == list(STEPS)
    assert found["steps"][2]["found"] == f"none yet: the first write creates {project / 'catalog.sqlite'}"
    assert sorted(project.rglob("*")) == before
    lakeconf.init(project).get_store("dev").open().close()
    before = sorted(project.rglob("*"))
    assert run(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:20].strip("✓-! ") for line in lines[:-1] if "hint:" not in line] == list(STEPS)
    assert lines[-1] == "dev works"
    assert "✓ version             DuckLake 1.0, 1 snapshot" in lines
    assert "- clock               only PostgreSQL catalogs have a server to ask" in lines
    assert sorted(project.rglob("*")) == before


def test_read_only_store_is_not_written_to(tmp_path: Path) -> None:
    store(local(tmp_path)).open().close()
    before = sorted((tmp_path / "data").rglob("*"))
    steps = diagnosed({**local(tmp_path), "attach_options": {"read_only": True}})
    writable = steps["data path writable"]
    assert (writable.status, writable.found) == ("skipped", "the store is read-only")
    assert [step.status for step in steps.values()][:4] == ["ok"] * 4
    assert sorted((tmp_path / "data").rglob("*")) == before


@pytest.mark.slow
def test_clock_and_settings_of_the_server(
    on_servers: dict[str, Any], postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(on_servers).open().close()
    assert diagnosed(on_servers)["server"].status == "ok"
    database = on_servers["metadata_backend"]["database"]
    postgres_server.sql(f"ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '5s'")
    for hours, status in ((0, "ok"), (0.05, "warning"), (1, "failed")):

        class ShiftedClock(dt.datetime):
            difference = dt.timedelta(hours=hours)

            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return super().now(tz) + cls.difference

        monkeypatch.setattr("lakeconf.inspection.doctor_lake.datetime", ShiftedClock)
        found = diagnosed(on_servers)
        assert found["clock"].status == status
        ends = "the server ends transactions that are idle for 5 s: a long commit would fail"
        assert (found["server"].status, found["server"].found) == ("warning", ends)


def test_probe_file_that_cannot_be_removed_is_reported(
    on_servers: dict[str, Any], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Connection.rows

    def refused(self: Any, sql: str, parameters: Any = None) -> Any:
        if "cleanup_old_files" in sql:
            raise LakeconfError("HTTP 403")
        return rows(self, sql, parameters)

    monkeypatch.setattr(Connection, "rows", refused)
    step, bucket = diagnosed(on_servers)["data path writable"], on_servers["storage_backend"]["bucket"]
    (left,) = s3_server.objects(bucket)
    assert step.status == "warning"
    assert step.found == f"s3://{bucket}/{left} was written and read, but could not be removed: HTTP 403"
    assert "--role writer" in str(step.hint)


def test_unexpected_exception_is_a_failed_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise ValueError("a package of somebody else")

    monkeypatch.setattr(doctor, "ensure_java", broken)
    assert diagnosed(local(tmp_path))["spark"].found == "ValueError: a package of somebody else"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["local", "s3"])
def test_missing_and_unknown_files(where: str, tmp_path: Path, s3_server: S3Server) -> None:
    # DuckDB reads brackets in a path as a glob pattern.
    config = local(tmp_path / "a[b]")
    if where == "s3":
        config["storage_backend"] = in_bucket(s3_server)
    dev = store(config)
    with dev.open() as lake:
        table = lake.create_table("raw.events", like={"day": "DATE", "id": "BIGINT"}, partitioned_by=["day"])
        rows = dev.connect().sql("SELECT DATE '2024-01-01' + (range % 2)::INTEGER AS day, range AS id FROM range(9)")
        table.append(rows.to_arrow_table())
        table.delete("id = 3")
        lake.create_table("raw.dropped", rows.to_arrow_table())
        run_plain(lake, "DROP TABLE dev.raw.dropped")
        needed = table.files()[0].path
        connection, root = session_of(lake).writer, data_path_of(lake)
        found = diagnosed(config)["files"]
        assert (found.status, found.found.endswith(", and no others")) == ("ok", True), found
        unknown = f"{root}raw/stray.parquet"
        connection.execute(f"COPY (SELECT 1 AS a) TO '{unknown}' (FORMAT parquet)")
        found = diagnosed(config)["files"]
        assert (found.status, found.found) == ("warning", f"the catalog does not know 1 file ({unknown})")
        remove_files(connection, [needed])
    found = diagnosed(config)["files"]
    assert (found.status, found.found) == ("failed", f"snapshots need 1 file ({needed}), missing below {root}")


def test_unreachable_server(tmp_path: Path) -> None:
    for host, message in (
        ("127.0.0.1", "PostgreSQL at 127.0.0.1:1 refused the connection"),
        ("127.0.0.1,::1", "PostgreSQL at 127.0.0.1:1, ::1:1 "),
        ("nowhere.invalid", "the host nowhere.invalid of PostgreSQL cannot be resolved: "),
        ("/nowhere", "PostgreSQL at /nowhere/.s.PGSQL.1 cannot be used: No such file or directory"),
    ):
        access = {"host": host, "port": 1, "database": "lake", "user": "u", "password": "planted-1"}
        steps = diagnosed(local(tmp_path) | {"metadata_backend": {"type": "postgres", **access}})
        found = steps["catalog"]
        assert (found.status, found.found.startswith(message)) == ("failed", True), found.found
        assert steps["version"].found == "after 'catalog' failed"
        assert found.hint == "check that the server is running, and check `host` and `port` of the metadata backend"


@pytest.mark.slow
def test_statistics_that_hide_rows_from_duckdb(tmp_path: Path) -> None:
    config = local(tmp_path)
    dev = store(config)
    with dev.open() as lake:
        lake.create_table('raw."a.b"', {"s": "VARCHAR"}).append(lake.sql("SELECT 'zz' AS s"))
    assert diagnosed(config)["statistics"].found == "the bounds of all columns cover their files"
    with contextlib.closing(sqlite3.connect(config["metadata_backend"]["uri"])) as catalog, catalog:
        for table in ("ducklake_file_column_stats", "ducklake_table_column_stats"):
            catalog.execute(f"UPDATE {table} SET min_value = NULL, max_value = NULL")
    found = diagnosed(config)["statistics"]
    assert found.status == "warning"
    assert 'columns of raw."a.b" (s)' in found.found
    assert found.hint == "run: lakeconf verify --catalog --repair --backup-to PLACE"
    repair_catalog(dev, str(tmp_path / "backups"), examine_catalog(dev))
    assert diagnosed(config)["statistics"].status == "ok"


def test_only_the_probe_is_removed(tmp_path: Path) -> None:
    """The name of the folder is a pattern for DuckDB."""
    folder = tmp_path / "it's [a]"
    folder.mkdir()
    (folder / "other.parquet").write_text("mine")
    probe = f"{folder}/probe.parquet"
    with connect() as connection:
        load_extension(connection, "ducklake")
        for scheme in ("", "file://"):
            connection.execute(f"COPY (SELECT 42 AS probe) TO {literal(probe)} (FORMAT parquet)")
            read_and_remove(connection, f"{scheme}{probe}")
            assert [path.name for path in folder.iterdir()] == ["other.parquet"]
        Path(probe).write_text("not Parquet")
        with pytest.raises(LakeconfError) as failed:
            read_and_remove(connection, probe)
    start = f"{probe} was written, but could not be read: "
    assert failed.value.message.startswith(start)
    assert len(failed.value.message) > len(start)
    assert str(failed.value.hint).startswith("remove it; ")
    assert Path(probe).exists()


def test_missing_folders_are_created_and_listed_from_the_top(tmp_path: Path) -> None:
    wanted = tmp_path / "b" / "c"
    assert make_folders(wanted) == [tmp_path / "b", wanted]
    assert wanted.is_dir()
    assert make_folders(tmp_path / "d") == [tmp_path / "d"]
