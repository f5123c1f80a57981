"""A process whose Spark runs statements on the tables of a lake by name; run as a script."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import writing_process
from pyspark.errors import AnalysisException
from writing_process import say

import lakeconf

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def start(config: dict[str, Any], spark: dict[str, str], statements: Sequence[str]) -> subprocess.Popen[str]:
    """Starts a process that has the lake as its catalog, and runs the statements after another line."""
    return writing_process.start(config, spark, __file__, statements=statements)


def carried_out(session: SparkSession, statements: Sequence[str]) -> list[int]:
    """The numbers of the statements that were carried out; the others were conflicts."""
    done = []
    for number, statement in enumerate(statements):
        try:
            session.sql(statement)
        except AnalysisException as error:
            if "CommitConflictError" not in str(error):
                raise
        else:
            done.append(number)
    return done


def main() -> None:
    """Prints when it is ready, and the numbers of the statements that were carried out."""
    task = json.loads(sys.stdin.readline())
    spark = lakeconf.spark_session(settings=task["spark"])
    lakeconf.init(task["config"]).get_store("dev").attach(spark)
    say("ready")
    sys.stdin.readline()
    say(json.dumps(carried_out(spark, task["statements"])))


if __name__ == "__main__":
    main()
