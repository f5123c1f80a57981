"""A session that lakeconf starts: what it is given, and what others on the machine can see of it."""

from __future__ import annotations

import subprocess
import sys

START = """
import contextlib, os, pathlib
import lakeconf
from lakeconf.backends.metadata.sqlite import SQLiteMetadata
from lakeconf.backends.storage.s3 import S3Storage
from lakeconf.secret import Secret

storage = S3Storage(bucket="acme", key_id="AKIAPLANTED", secret=Secret("hunter2-planted"), region="eu-central-1")
storage.__dict__["spark_packages"] = dict
store = lakeconf.Store("prod", SQLiteMetadata(uri="/nonexistent/catalog"), storage)
settings = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1"}
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
spark.stop()
print("done")
"""


def test_a_secret_is_not_in_the_command_line_of_java() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("done\n"), done.stderr
    assert "hunter2-planted" not in done.stdout + done.stderr
