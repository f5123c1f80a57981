"""Plants every secret value of a configuration, and searches all output and files of a run for it."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import html
import json
import logging
import pickle
import re
import secrets
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from jvm_calls import execution_of

import lakeconf
from lakeconf.cli.app import run as run_command
from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import FaultProxy, PostgresServer, S3Server

    from lakeconf import Config, Lake, Store

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{number}" for number in range(10)]})
WHOLE = """
[stores.dev.metadata_backend]
type = "postgres"
host = "127.0.0.1"
port = {postgres_port}
database = "{database}"
user = "{user}"
password = "${{PLANTED_PASSWORD}}"

[stores.dev.storage_backend]
type = "s3"
bucket = "{bucket}"
key_id = "a-key"
secret = "${{PLANTED_S3}}"
session_token = "${{PLANTED_TOKEN}}"
endpoint = "{endpoint}"
url_style = "path"
use_ssl = false

[stores.on_r2]
extends = "dev"
metadata_backend = {{ metadata_schema = "on_r2" }}
[stores.on_r2.storage_backend]
type = "r2"
bucket = "{r2_bucket}"
key_id = "a-key"
secret = "${{PLANTED_R2}}"
endpoint = "{endpoint}"
url_style = "path"
use_ssl = false

[stores.on_gcs.metadata_backend]
type = "sqlite"
uri = "gcs.sqlite"
[stores.on_gcs.storage_backend]
type = "gcs"
bucket = "{gcs_bucket}"
key_id = "a-key"
secret = "${{PLANTED_HMAC}}"
endpoint = "{endpoint}"
url_style = "path"
use_ssl = false

[stores.duck.metadata_backend]
type = "motherduck"
database = "shop"
[stores.duck.storage_backend]
type = "r2"
bucket = "acme"
account_id = "0123"
key_id = "a-key"
secret = "${{PLANTED_R2}}"
"""


@dataclass
class Heap:
    """All collected output, by source."""

    said: dict[str, str] = field(default_factory=dict)

    def add(self, where: str, *things: object) -> None:
        self.said[where] = self.said.get(where, "") + "\n".join(f"{thing}\n{thing!r}" for thing in things)

    def add_error(self, where: str, error: BaseException | None) -> None:
        while error is not None:
            self.add(where, error, error.args, getattr(error, "java_exception", ""))
            error = error.__cause__ or error.__context__


def forms(value: str) -> set[bytes]:
    """The forms in which a value may appear in a text: unchanged, escaped, or in base64 at any offset."""
    texts = {value, value.replace("'", "''"), urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value)}
    texts |= {json.dumps(value)[1:-1], html.escape(value), repr(value)[1:-1]}
    encoded = {text.encode() for text in texts}
    for offset in range(3):
        inside = base64.b64encode(b"\0" * offset + value.encode())
        # The first and the last group depend on the characters next to the value.
        middle = inside[4 * (offset > 0) : -4]
        encoded |= {middle, middle.translate(bytes.maketrans(b"+/", b"-_"))}
    return encoded


def shown(planted: Mapping[str, str], texts: Mapping[str, bytes]) -> list[str]:
    """Which planted values appear in which texts."""
    looked_for = {name: forms(value) for name, value in planted.items()}
    return sorted(
        f"{name} in {where}"
        for where, text in texts.items()
        for name, found in looked_for.items()
        if any(form in text for form in found)
    )


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A value for each secret, set in the environment; with characters that need escaping if the server allows them."""
    names = ("PLANTED_PASSWORD", "PLANTED_S3", "PLANTED_TOKEN", "PLANTED_R2", "PLANTED_HMAC", "motherduck_token")
    values = {name: f"{secrets.token_urlsafe(24)}/+={name[-2:]}" for name in names}
    values["PLANTED_PASSWORD"] = f"pass'word {values['PLANTED_PASSWORD']}"
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def config(
    planted: dict[str, str],
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_proxy: FaultProxy,
    s3_server: S3Server,
) -> Config:
    """One file with every kind of secret, on real servers; Postgres is behind a proxy."""
    database = postgres_server.create_database()
    user, _ = postgres_server.create_role(database)
    password = planted["PLANTED_PASSWORD"].replace("'", "''")
    postgres_server.sql(f"ALTER ROLE {user} PASSWORD '{password}'; ALTER DATABASE {database} OWNER TO {user}")
    postgres_server.sql(f"CREATE SCHEMA on_r2 AUTHORIZATION {user}", database)
    buckets = {name: s3_server.create_bucket() for name in ("bucket", "r2_bucket", "gcs_bucket")}
    place = {"postgres_port": postgres_proxy.port, "database": database, "user": user, "endpoint": s3_server.endpoint}
    file = tmp_path / "lakeconf.toml"
    file.write_text(WHOLE.format(**place, **buckets))
    return lakeconf.init(file)


@contextlib.contextmanager
def refusal(heap: Heap, where: str) -> Iterator[None]:
    with pytest.raises(LakeconfError) as caught:
        yield
    heap.add_error(where, caught.value)


def live(heap: Heap, store: Store, engine: SparkSession | None) -> None:
    """The whole lifecycle of a lake, and all its inspection methods."""
    where = f"{store.name} on {'DuckDB' if engine is None else 'Spark'}"
    name = f"raw.t{'' if engine is None else '_spark'}"
    with store.open(engine) as lake:
        table = lake.create_table(name, like=ROWS)
        table.append(ROWS)
        with lake.transaction("a message", author="me", extra={"run": 1}) as write:
            write.table(name).overwrite(ROWS.slice(5), where="id >= 5")
        table.update({"name": "changed"}, where="id = 3")
        table.delete("id < 2")
        frame = table.scan(where="id > 2")
        heap.add(where, lake, table, table.schema, lake.snapshots(), table.explain(), frame, frame.collect("pyarrow"))
        heap.add(f"{where}: plan", plan(frame.to_native()))
        heap.add(f"{where}: instance", *instance(lake))
        with refusal(heap, f"{where}: wrong column"):
            table.append(pa.table({"other": [1]}))
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)


def plan(native: Any) -> str:
    if hasattr(native, "_jdf"):
        return str(execution_of(native).toString())
    return str(native.explain())


def instance(lake: Lake) -> list[object]:
    queries = ("FROM duckdb_secrets()", "FROM duckdb_databases()", "FROM duckdb_settings()", "FROM duckdb_views()")
    return [lake.sql(query).collect("pyarrow").rows() for query in queries]


def describe(heap: Heap, config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that describes a configuration without opening a store."""
    for store in map(config.get_store, config.names):
        things = (store, store.metadata_backend, store.storage_backend, store.statements, store.secrets)
        heap.add(f"{store.name}: repr", *things, store.spark_conf())
        heap.add(f"{store.name}: preview", store.preview_sql(), store.preview_sql(portable=True))
        heap.add(f"{store.name}: pickle", pickle.dumps(store.metadata_backend), pickle.dumps(store.storage_backend))
    heap.add("config", config)
    monkeypatch.chdir(config.path.parent)  # type: ignore[union-attr]
    formats = (["stores", "--format", "json"], ["validate", "--format", "json"], ["stores", "dev"])
    for command in (["stores"], ["validate"], *formats, *(["preview-sql", "--store", name] for name in config.names)):
        assert run_command(command) == 0
        output = capsys.readouterr()
        heap.add(f"lakeconf {command}", output.out, output.err)


def fail(heap: Heap, config: Config, proxy: FaultProxy) -> None:
    """Errors while every secret is in use."""
    proxy.refuse()
    with refusal(heap, "server down"):
        config.get_store("dev").open()
    proxy.heal()
    with refusal(heap, "no database"):
        other(config, "dev", database="not_there").open()
    with refusal(heap, "wrong password"):
        other(config, "dev", user="nobody_here").open()
    with (
        refusal(heap, "no bucket"),
        other(config, "on_gcs", uri="other.sqlite", bucket="no-such-bucket").open() as lake,
    ):
        lake.create_table("t", like=ROWS).append(ROWS)


def other(config: Config, name: str, **changed: str) -> Store:
    """A store of the file, in which some keys have other values."""
    assert config.path is not None
    text = config.path.read_text()
    begin = text.index(f"[stores.{name}.metadata_backend]")
    above, table = text[:begin], text[begin:]
    for key, value in changed.items():
        table = re.sub(rf"(?m)^{key} = .*$", f'{key} = "{value}"', table, count=1)
    file = config.path.with_name("other.toml")
    file.write_text(above + table)
    return lakeconf.init(file).get_store(name)


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_no_output_or_file_contains_a_planted_secret(
    config: Config,
    planted: dict[str, str],
    spark: SparkSession,
    spark_event_log: Path,
    postgres_proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    heap = Heap()
    describe(heap, config, capfd, monkeypatch)
    for name, engine in (("dev", None), ("dev", spark), ("on_r2", spark), ("on_gcs", None)):
        store = config.get_store(name)
        assert store.storage_backend is not None
        configure_session(spark, store.storage_backend.hadoop_settings())
        live(heap, store, engine)
    fail(heap, config, postgres_proxy)
    # Positive control: text that an application puts into a plan must be found in the event log.
    control = f"control-{secrets.token_urlsafe(24)}"
    spark.range(1).selectExpr(f"'{control}' AS text").collect()
    heap.add("Spark's settings", *spark.sparkContext.getConf().getAll(), spark.conf.getAll)
    heap.add("log", caplog.text)
    output = capfd.readouterr()
    heap.add("output", output.out, output.err)
    texts = {where: text.encode() for where, text in heap.said.items()}
    for folder in (tmp_path, spark_event_log):
        texts |= {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    logs = {path: text for path, text in texts.items() if path.startswith(str(spark_event_log))}
    assert shown({"control": control}, logs)
    assert any("fs.s3a" in text or "raw" in text for text in heap.said.values())
    assert shown(planted, texts) == []


def test_the_search_finds_every_form_of_a_secret_and_the_causes_of_an_error(planted: dict[str, str]) -> None:
    value = planted["PLANTED_PASSWORD"]
    for text in (
        f"a {value} b",
        "'{}'".format(value.replace("'", "''")),
        f"https://h/?x={urllib.parse.quote(value, safe='')}",
        json.dumps({"x": value}),
        *(
            f"Authorization: {base64.b64encode(one.encode()).decode()}"
            for one in (value, f"u{value}@h", f"u:{value}@h")
        ),
    ):
        assert shown(planted, {"here": text.encode(), "there": b"nothing"}) == ["PLANTED_PASSWORD in here"]
    heap = Heap()
    outside = RuntimeError("outside")
    outside.__cause__ = ValueError(planted["PLANTED_S3"])
    heap.add_error("here", outside)
    assert shown(planted, {"here": heap.said["here"].encode()}) == ["PLANTED_S3 in here"]
