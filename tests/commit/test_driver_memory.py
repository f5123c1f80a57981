"""The memory of the Spark driver does not grow with the number of rows that executors write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

JOB = """
import json, resource, sys
import lakeconf
from lakeconf.engines.spark.start import spark_session

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

store = lakeconf.init(json.loads(sys.argv[1])).get_store("dev")
settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
session = spark_session(store, settings=settings)
found = []
with store.open(session) as lake:
    for count in (10_000, 600_000):
        frame = session.range(0, count, 1, 4).selectExpr("id", "sha2(CAST(id AS STRING), 256) AS text")
        table = lake.create_table(f"raw.t{count}", frame)
        table.append(frame)
        table.overwrite(frame)
        table.delete(f"id < {count // 2}")
        found.append([table.scan().to_native().count(), peak()])
print(json.dumps(found))
"""
MEBIBYTES = 40


def test_driver_memory_is_constant_with_sixty_times_the_rows(tmp_path: Path) -> None:
    backends = {
        "metadata_backend": {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")},
        "storage_backend": {"type": "local", "path": str(tmp_path / "data")},
    }
    config = json.dumps({"stores": {"dev": backends}})
    done = subprocess.run([sys.executable, "-c", JOB, config], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (few, before), (many, after) = json.loads(done.stdout.splitlines()[-1])
    assert (few, many) == (5_000, 300_000)
    # Collecting the rows on the driver would take more than this.
    assert after - before < MEBIBYTES
