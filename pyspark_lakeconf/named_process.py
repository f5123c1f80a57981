"""The process that answers for a catalog of Spark's SQL, in an application whose settings name the catalog.

The class `LakeProcess` starts it, waits for the first line of its output, and keeps its input open.
"""

from __future__ import annotations

import os
import signal
import sys

from lakeconf import LakeconfError, init
from lakeconf.engines.spark.internals import check_catalog, started_session
from lakeconf.engines.spark.start import configure_files
from lakeconf.lake.named_lake import answer_spark


def main(catalog: str, name: str, config: str, digest: str) -> None:
    """Answers until the JVM ends; what the process prints belongs to the log of the driver."""
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        store = init(config or None).get_store(name).replace(alias=catalog)
        spark = started_session()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a shell, for its queries
        check_catalog(spark, digest)
        configure_files(spark, store.spark_conf(packages=False))
        print("lake", answer_spark(store, spark), file=line, flush=True)
    except LakeconfError as error:
        text = f"{type(error).__name__}: {error}".replace("\n", "\0")
        print(text, file=line, flush=True)
        return
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
