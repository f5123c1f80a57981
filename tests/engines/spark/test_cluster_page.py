"""Runs the job of docs/cluster.md with its spark-submit command, on executors in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
from doc_pages import block, named
from spark_classes import java_options

import lakeconf
from lakeconf.engines.spark.start import ensure_java


def test_cluster_page_job_runs_on_separate_executors(project: Path) -> None:
    toml = project / "lakeconf.toml"
    toml.write_text(toml.read_text().replace("dev", "prod"))
    sales = pa.table({"day": ["monday", "monday", "tuesday"], "amount": [1, 2, 4]})
    with lakeconf.init(project).get_store("prod").open() as lake:
        lake.create_table("raw.sales", sales)
        lake.table("raw.sales").append(sales)
    (project / "job.py").write_text(named("cluster.md", "python")["job.py"])
    ensure_java()
    programs = [str(Path(sys.executable).parent), str(Path(pyspark.__file__).parent / "bin"), os.environ["PATH"]]
    environment = {"PATH": os.pathsep.join(programs), "PYSPARK_PYTHON": sys.executable}
    environment["SPARK_MASTER"] = "local-cluster[2,1,1024]"
    environment["JDK_JAVA_OPTIONS"] = java_options()
    done = subprocess.run(
        ["sh", "-ec", block("cluster.md", "sh", "spark.jars.")],  # noqa: S607 - the shell of the page
        cwd=project,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done marts.revenue 2\n"
    with lakeconf.init(project).get_store("prod").open() as lake:
        assert sorted(lake.table("marts.revenue").scan().collect("pyarrow").rows()) == [("monday", 3), ("tuesday", 4)]
        assert lake.snapshots()[-1].extra_info is not None
        assert "app-" in str(lake.snapshots()[-1].extra_info)
