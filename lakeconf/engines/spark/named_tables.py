"""Tables by name: a lake is a catalog of Spark SQL, and Python answers what its class asks.

Spark loads the class `LakeCatalog`, which is compiled at run time. It gets the columns of a table and the frame of a
scan from Python, and puts the plan of this frame in the place of the table's name. So a query by name reads like
`Table.scan`.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakeconf.engines.spark.internals import (
    CATALOG_CLASS,
    catalog_classes,
    catalog_digest,
    configure,
    define_catalog,
    require_classic,
    serve,
)
from lakeconf.engines.spark.java_home import ensure_java
from lakeconf.engines.spark.spark_types import first_line
from lakeconf.errors import LakeconfError, SparkError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_DIGEST = "lakeconf-digest"  # the class `LakeProcess` reads it
_CONF = "spark.sql.catalog."
_RESERVED = frozenset(("spark_catalog", "system", "session", "global_temp", "builtin"))


class Answering(Protocol):
    """A lake that answers the requests of the catalog class."""

    def answer(self, method: str, values: Mapping[str, Any], frame: Any) -> Any:
        """The answer to a request: values for JSON, or a frame of Spark."""
        ...


def can_attach(spark: SparkSession, alias: str) -> bool:
    """False if a session cannot have a catalog of this name, or has another one."""
    if not hasattr(spark, "sparkContext") or not _is_name(alias):
        return False
    return spark.conf.get(_CONF + alias, None) in (None, CATALOG_CLASS)


def _is_name(alias: str) -> bool:
    return bool(_NAME.fullmatch(alias)) and alias.lower() not in _RESERVED


def attach(spark: SparkSession, alias: str, lake: Answering, *, use: bool) -> None:
    """Makes a lake a catalog of a session, and of those that its application starts later, such as those of clients."""
    require_classic(spark)
    hint = 'choose another alias: store.replace(alias="lake")'
    if not _is_name(alias):
        raise SparkError(f"{alias!r} cannot be the name of a catalog of Spark", hint=hint)
    if not can_attach(spark, alias):
        raise SparkError(f"the session has another catalog with the name {alias!r}", hint=hint)
    define_catalog(spark)
    key = _CONF + alias
    configure(spark, {f"{key}.lake": answering(spark, lake), key: CATALOG_CLASS})
    if use:
        spark.sql(f"USE `{alias}`")


def catalog_jar() -> bytes:
    """The JAR file with the catalog class, for an application that Python does not start."""
    ensure_java()
    classes, version = catalog_classes()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, code in sorted({**classes, _DIGEST: catalog_digest(version).encode()}.items()):
            archive.writestr(zipfile.ZipInfo(name), code)  # without the time
    return content.getvalue()


def answering(spark: SparkSession, lake: Answering) -> str:
    """The id of a lake that answers from now on."""
    return serve(spark, partial(_answered, lake))


def _answered(lake: Answering, method: str, values: Mapping[str, Any], frame: DataFrame | None) -> Any:
    """The answer to a request, or the text of an error, which Java raises as one of Spark's analysis."""
    try:
        return lake.answer(method, values, frame)
    except LakeconfError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except (PySparkException, Py4JError) as error:  # of a job of the statement
        return {"error": f"{type(error).__name__}: {first_line(error)}"}
