"""The versions of Spark that lakeconf supports, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakeconf.errors import SparkError, SparkVersionError, UnsupportedError

# The tests run the newest of each: `make test-spark SPARK=4.0.5`.
TESTED = ("4.0", "4.1", "4.2", "4.3")


def check_version(spark: SparkSession) -> None:
    """Checks that the tests of lakeconf run the Spark version of a session."""
    version = getattr(spark, "version", None)
    if not isinstance(version, str):
        raise SparkError(
            f"{spark!r} is not a Spark session",
            hint="omit it to read with DuckDB: store.open(); or make a session: lakeconf.spark_session(store)",
        )
    if not version.startswith(tuple(f"{tested}." for tested in TESTED)):
        raise SparkVersionError(
            f"the Spark session has the version {version!r}, but lakeconf supports Spark {TESTED[0]} to {TESTED[-1]}: "
            "other versions may read or write different rows",
            hint="start the session with one of these (pip install 'lakeconf[spark]' installs the newest), or use "
            "DuckDB: store.open()",
        )


def keeps_structs(spark: SparkSession) -> bool:
    """False if Spark's reader returns NULL for a struct of which a file lacks all requested fields, as before 4.1."""
    return _release(spark.version) >= (4, 1)


def reads_file_with(types: Iterable[str]) -> bool:
    """False if Spark cannot read any column of a file with these types of DuckLake: GEOMETRY and VARIANT before 4.1."""
    return _release(pyspark.__version__) >= (4, 1) or {"geometry", "variant"}.isdisjoint(types)


def aliases_inherit(spark: SparkSession) -> bool:
    """True if an alias without metadata has those of its column, as before 4.1."""
    return _release(spark.version) < (4, 1)


def check_streams() -> None:
    """Checks that Spark passes limits and the start of a batch to a data source in Python, as since 4.2."""
    if _release(pyspark.__version__) < (4, 2):
        raise UnsupportedError(
            f"streams of the data source need Spark 4.2 or newer, and this is {pyspark.__version__}",
            hint="read the changes with lake.table(…).changes(first, last)",
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema with which Spark exchanges rows with Python, in drivers and executors."""
    from pyspark.sql.pandas.types import to_arrow_schema  # an unsupported version may lack it

    zone: dict[str, Any] = {"timezone": "UTC"} if _release(pyspark.__version__) >= (4, 2) else {"timestamp_utc": True}
    return to_arrow_schema(schema, **zone)


def _release(version: str) -> tuple[int, ...]:
    """The two numbers of a version: platforms add to it, as in `4.0.2-amzn-0`."""
    return tuple(map(int, version.split(".")[:2]))
