"""The Hadoop of the installed Spark, to find the package with which it accesses a storage service."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path


def hadoop_without(module: str) -> str | None:
    """The version of Hadoop in the installed Spark; None without Spark, or if it has the module, such as hadoop-aws."""
    names = [path.name for path in _spark_jars().glob("hadoop-*.jar")]
    client = next(filter(None, (re.fullmatch(r"hadoop-client-api-(.+)\.jar", name) for name in names)), None)
    return None if client is None or any(name.startswith(f"{module}-") for name in names) else client[1]


def _spark_jars() -> Path:
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home, "jars")
    pyspark = importlib.util.find_spec("pyspark")
    return Path(pyspark.origin).parent / "jars" if pyspark and pyspark.origin else Path("jars")
