"""A client of Spark Connect, without lakeconf: a link that Python ignores; run as a script with `-S`."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def _answers(url: str, statements: Sequence[str]) -> list[Any]:
    """The rows or the error of each statement, in a session of its own."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(url).create()
    answers: list[Any] = []
    for statement in statements:
        try:
            answers.append([list(row) for row in spark.sql(statement).collect()])
        except PySparkException as error:
            answers.append(str(error))
    spark.stop()
    return answers


def main(packages: str, url: str, sessions: str) -> None:
    """Writes the answers of all sessions, which run at the same time."""
    sys.path.append(packages)
    lists = json.loads(sessions)
    with ThreadPoolExecutor(len(lists)) as pool:
        answers = list(pool.map(lambda statements: _answers(url, statements), lists))
    assert "lakeconf" not in sys.modules
    json.dump(answers, sys.stdout, default=str)


if __name__ == "__main__":
    main(*sys.argv[1:])
