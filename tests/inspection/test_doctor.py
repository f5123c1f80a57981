"""`lakeconf doctor`: its results for stores that work and stores that do not."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from diagnosis import STEPS, diagnosed, local
from local_stores import in_bucket, on_postgres

import lakeconf
from lakeconf.cli.app import run
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.inspection import doctor

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from servers import PostgresServer, S3Server


def statuses(steps: dict[str, doctor.Step]) -> list[str]:
    return [step.status for step in steps.values()]


def on_servers(postgres: PostgresServer, s3: S3Server, **changed: Any) -> dict[str, Any]:
    metadata = {**on_postgres(postgres), "metadata_schema": "lake"}
    storage = in_bucket(s3)
    return {
        "metadata_backend": metadata | {key: changed[key] for key in changed if key in metadata},
        "storage_backend": storage | {key: changed[key] for key in changed if key in storage},
    }


def test_local_store(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lakeconf.init(project).get_store("dev").open().close()
    before = sorted(project.rglob("*"))
    assert run(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:20].strip("✓-! ") for line in lines[:-1] if "hint:" not in line] == list(STEPS)
    assert lines[-1] == "dev works"
    assert "✓ version             DuckLake 1.0, 1 snapshot" in lines
    assert "- clock               the metadata backend has no server that can be asked" in lines
    assert sorted(project.rglob("*")) == before


def test_missing_lake_is_not_created(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(project.rglob("*"))
    assert run(["doctor", "--store", "dev", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["store"], found["ok"]) == ("dev", True)
    assert [step["name"] for step in found["steps"]] == list(STEPS)
    catalog = found["steps"][2]
    assert catalog["found"] == f"none yet: the first write creates {project / 'catalog.sqlite'}"
    assert sorted(project.rglob("*")) == before


def test_store_on_servers(postgres_server: PostgresServer, s3_server: S3Server) -> None:
    config = on_servers(postgres_server, s3_server)
    steps = diagnosed(config)
    assert statuses(steps)[:7] == ["ok", "ok", "ok", "skipped", "ok", "ok", "skipped"]
    assert steps["catalog"].found == "none yet: the first write creates it"
    lakeconf.init({"stores": {"dev": config}}).get_store("dev").open().close()
    steps = diagnosed(config)
    assert statuses(steps)[:7] == ["ok"] * 7
    assert steps["clock"].found == "this machine and the catalog's server differ by 0 s"
    assert s3_server.objects(config["storage_backend"]["bucket"]) == []
    secrets = (postgres_server.password, s3_server.keys.secret)
    assert not any(secret in str(step) for step in steps.values() for secret in secrets)


def test_wrong_password_and_missing_bucket(postgres_server: PostgresServer, s3_server: S3Server) -> None:
    steps = diagnosed(on_servers(postgres_server, s3_server, password="planted-wrong-password"))
    assert statuses(steps)[:7] == ["ok", "ok", "failed", "skipped", "ok", "ok", "skipped"]
    assert "password authentication failed" in steps["catalog"].found
    assert steps["catalog"].hint == "check `user` and `password` of the metadata backend"
    assert steps["version"].found == "after 'catalog' failed"
    assert "planted-wrong-password" not in str(steps)
    steps = diagnosed(on_servers(postgres_server, s3_server, bucket="no-such-bucket"))
    assert statuses(steps)[4:6] == ["failed", "skipped"]
    assert "NoSuchBucket" in steps["data path readable"].found
    assert steps["data path readable"].hint == "create the bucket, or check `bucket`, `region` and `endpoint`"


def test_user_with_read_access_only(postgres_server: PostgresServer, s3_iam_server: S3Server) -> None:
    assert s3_iam_server.read_only
    config = on_servers(postgres_server, s3_iam_server)
    config["storage_backend"] |= {"key_id": s3_iam_server.read_only.key_id, "secret": s3_iam_server.read_only.secret}
    steps = diagnosed(config)
    assert statuses(steps)[4:6] == ["ok", "failed"]
    assert str(steps["data path writable"].hint).startswith("permit this on the bucket to the credentials")
    assert s3_iam_server.read_only.secret not in str(steps)


def test_folder_that_is_not_writable(tmp_path: Path) -> None:
    config = local(tmp_path)
    config["storage_backend"]["path"] = "/proc/lakeconf"
    steps = diagnosed(config)
    assert steps["data path writable"].status == "failed"
    assert "cannot be written" in steps["data path writable"].found
    assert steps["data path writable"].hint == "check its owner and its permissions"


def test_read_only_store_is_not_written_to(tmp_path: Path) -> None:
    lakeconf.init({"stores": {"dev": local(tmp_path)}}).get_store("dev").open().close()
    before = sorted((tmp_path / "data").rglob("*"))
    steps = diagnosed({**local(tmp_path), "attach_options": {"read_only": True}})
    assert (steps["data path writable"].status, steps["data path writable"].found) == (
        "skipped",
        "the store is read-only",
    )
    assert statuses(steps)[:4] == ["ok"] * 4
    assert sorted((tmp_path / "data").rglob("*")) == before


def test_clock_and_settings_of_the_server(
    postgres_server: PostgresServer, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = on_servers(postgres_server, s3_server)
    lakeconf.init({"stores": {"dev": config}}).get_store("dev").open().close()
    assert diagnosed(config)["server"].status == "ok"
    database = config["metadata_backend"]["database"]
    postgres_server.sql(f"ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '5s'")
    for hours, status in ((0, "ok"), (0.05, "warning"), (1, "failed")):

        class Wrong(dt.datetime):
            difference = dt.timedelta(hours=hours)

            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return super().now(tz) + cls.difference

        monkeypatch.setattr("lakeconf.inspection.doctor_lake.datetime", Wrong)
        found = diagnosed(config)
        assert found["clock"].status == status
        assert (found["server"].status, found["server"].found) == (
            "warning",
            "the server ends transactions that are idle for 5 s: a long commit would fail",
        )


def test_probe_file_that_cannot_be_removed_is_reported(
    postgres_server: PostgresServer, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = on_servers(postgres_server, s3_server)
    rows = Connection.rows

    def refused(self: Any, sql: str, parameters: Any = None) -> Any:
        if "cleanup_old_files" in sql:
            raise LakeconfError("HTTP 403")
        return rows(self, sql, parameters)

    monkeypatch.setattr(Connection, "rows", refused)
    step = diagnosed(config)["data path writable"]
    (left,) = s3_server.objects(config["storage_backend"]["bucket"])
    assert step.status == "failed"
    assert (
        f"s3://{config['storage_backend']['bucket']}/{left} was written, but could not be read and removed"
        in step.found
    )
    assert "remove it" in str(step.hint)


def test_unexpected_exception_is_a_failed_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise ValueError("a package of somebody else")

    monkeypatch.setattr(doctor, "ensure_java", broken)
    assert diagnosed(local(tmp_path))["spark"].found == "ValueError: a package of somebody else"
