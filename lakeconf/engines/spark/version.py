"""The version of Spark that lakeconf supports, and the check of a session against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.errors import SparkError, SparkVersionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The tests run this version. Older versions read some nested values differently.
TESTED = "4.3"


def check_version(spark: SparkSession) -> None:
    """Checks that the tests of lakeconf run the Spark version of a session.

    Args:
        spark: The user's session.

    Raises:
        SparkVersionError: The session has another version.
        SparkError: It is no session.
    """
    version = getattr(spark, "version", None)
    if not isinstance(version, str):
        raise SparkError(
            f"{spark!r} is not a Spark session",
            hint="omit it to read with DuckDB: store.open(); or make a session: lakeconf.spark_session(store)",
        )
    if not version.startswith(f"{TESTED}."):
        raise SparkVersionError(
            f"the Spark session has the version {version!r}, but lakeconf supports Spark {TESTED}.x only: "
            "other versions may read or write different rows",
            hint=f"start the session with Spark {TESTED} (pip install 'lakeconf[spark]' installs it), or use DuckDB: "
            "store.open()",
        )
