"""A session that lakeconf starts: its settings, and what other users of the machine can see of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lakeconf.engines.spark.start import loopback_address

START = """
import contextlib, os, pathlib
import lakeconf
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.secret import Secret

storage = S3Storage(bucket="acme", key_id="AKIAPLANTED", secret=Secret("hunter2-planted"), region="eu-central-1")
storage.__dict__["spark_packages"] = dict
store = lakeconf.Store("prod", SQLiteMetadata(uri="/nonexistent/catalog"), storage)
settings = {"spark.master": "local[1]", "spark.ui.port": "0"}
spark = lakeconf.spark_session(store, settings=settings)
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
assert hadoop.get("fs.s3a.bucket.acme.secret.key") == "hunter2-planted"
assert hadoop.get("fs.s3a.bucket.acme.endpoint.region") == "eu-central-1"
lines = []
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    with contextlib.suppress(OSError):  # it may have ended since
        lines += [path.read_bytes()] if path.parent.name != str(os.getpid()) else []
java = [line for line in lines if b"java" in line and b"fs.s3a.bucket.acme.endpoint.region" in line]
assert java, "the settings that are not secret stand there"
assert not any(b"hunter2-planted" in line for line in java)
assert not any("hunter2-planted" in value for _, value in spark.sparkContext.getConf().getAll())
# Of the java process that this one has started, which addresses does it listen on?
java = pathlib.Path("/proc", str(spark.sparkContext._gateway.proc.pid))
sockets = {os.readlink(fd) for fd in (java / "fd").iterdir() if os.path.lexists(fd)}
tables = [line.split() for name in ("tcp", "tcp6") for line in (java / "net" / name).read_text().splitlines()[1:]]
listening = {fields[1].split(":")[0] for fields in tables if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets}
assert listening, "it listens on some"
assert listening <= {"0100007F", "0000000000000000FFFF00000100007F"}, listening
assert "SPARK_LOCAL_IP" not in os.environ
spark.stop()
print("done")
"""


def test_secret_is_not_in_the_command_line_of_java() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("done\n"), done.stderr
    assert "hunter2-planted" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ({"spark.master": "spark://host:7077"}, {}),
        ({"spark.master": "yarn"}, {}),
        ({"spark.remote": "sc://host"}, {}),
        ({"spark.driver.host": "10.0.0.7"}, {}),
        ({"spark.driver.bindAddress": "0.0.0.0"}, {}),  # noqa: S104 - a user's choice
        ({}, {"SPARK_LOCAL_IP": "10.0.0.7"}),
        ({}, {"SPARK_HOME": "/opt/spark"}),
        ({}, {"SPARK_CONF_DIR": "/etc/spark"}),
        ({}, {"SPARK_REMOTE": "sc://host"}),
        ({}, {"MASTER": "yarn"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}),
    ],
)
def test_address_set_by_the_user_is_kept(
    settings: dict[str, str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_LOCAL_IP", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "MASTER", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    with loopback_address({"spark.driver.host": "localhost"}):
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in os.environ
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with loopback_address(settings):
        assert os.environ.get("SPARK_LOCAL_IP") == variables.get("SPARK_LOCAL_IP")
    assert os.environ.get("SPARK_LOCAL_IP") == variables.get("SPARK_LOCAL_IP")
