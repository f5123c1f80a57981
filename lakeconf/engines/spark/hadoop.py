"""The files of a lake in Hadoop: their URIs, and the settings with which a session reaches a bucket."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from lakeconf.backends.registry import hadoop_spelling
from lakeconf.engines.spark.internals import (
    Configuration,
    file_system_configuration,
    hadoop_configuration,
    hadoop_version,
)
from lakeconf.errors import SparkError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
_AWS = ("", "s3.amazonaws.com")
# The session keeps the settings without secrets with which a store first used a file system.
_FIRST_USE = "lakeconf.first-use."
# Path segments that Hadoop normalizes, and characters of its patterns.
_DETOUR = re.compile(r"/\.{0,2}/|/\.{1,2}$")
_PATTERN = re.compile(r"[\[\]{}*?\\]")


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Suppresses py4j's DEBUG messages, which contain everything that it sends and receives."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def spark_uri(uri: str) -> str:
    """Converts a path or URI of DuckDB to one of Hadoop, such as `s3a://`, not escaped, as its `Path` expects it."""
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return f"file://{_plain(uri)}" if uri.startswith("/") else uri
    spelled = hadoop_spelling(scheme)
    return uri if spelled is None else spelled(uri)


def _plain(path: str) -> str:
    """An absolute local path without `//`, `/./` and `/../`, as Hadoop normalizes it."""
    if not _DETOUR.search(path):
        return path
    # Hadoop would remove `folder/..` even if the folder is a symbolic link.
    plain = os.path.realpath(path) if "/../" in f"{path}/" else os.path.normpath(path)
    return "/" + plain.strip("/") + ("/" if path.endswith("/") else "")


def spark_paths(paths: Iterable[str]) -> list[str]:
    """Converts paths for Spark's readers and escapes the characters of Hadoop's patterns."""
    return [_PATTERN.sub(r"\\\g<0>", spark_uri(path)) for path in paths]


def catalog_uri(path: str, location: str) -> str:
    """The inverse of `spark_uri`: an unescaped Hadoop path as a path below the data path `location`."""
    place = spark_uri(location)
    full = "file://" + path.removeprefix("file:") if path.startswith("file:/") and "://" not in path else path
    if not full.startswith(place):
        raise SparkError(f"the file {path} is not below the data path {location}")
    return location + full.removeprefix(place)


def configure_session(spark: SparkSession, settings: Mapping[str, str | Secret]) -> None:
    """Adds Hadoop settings to a running session without exposing them in its command line, settings or event log."""
    configuration = hadoop_configuration(spark)
    with unlogged():
        for key, value in settings.items():
            configuration.set(key, _clear(value))


def check_session(spark: SparkSession, location: str, settings: Mapping[str, str | Secret]) -> None:
    """Checks that a session accesses the same files as the store.

    Hadoop keeps one file system per bucket, with the settings of its first use. The active settings are therefore
    compared as well.
    """
    uri = spark_uri(location)
    with unlogged():
        if uri.startswith("s3a://"):
            _check_bucket(spark, location, uri, settings)
        elif settings:
            _check_settings(spark, location, uri, settings)


def _check_settings(spark: SparkSession, location: str, uri: str, settings: Mapping[str, str | Secret]) -> None:
    configuration = hadoop_configuration(spark)
    expected = {key: _clear(value) for key, value in settings.items()}
    _refuse_different(location, expected, {key: configuration.get(key) for key in expected})
    _in_force(spark, uri)
    # Unlike S3A, other file systems show the settings of the session, and not those of their first use.
    public = {key: value for key, value in settings.items() if not isinstance(value, Secret)}
    record = _FIRST_USE + uri.partition("://")[2].partition("/")[0]
    first = json.loads(configuration.get(record) or "null") or public
    _refuse_stale(location, [key for key in {**first, **public} if first.get(key) != public.get(key)])
    configuration.set(record, json.dumps(public))


def _check_bucket(spark: SparkSession, location: str, uri: str, settings: Mapping[str, str | Secret]) -> None:
    bucket = uri.removeprefix("s3a://").partition("/")[0]
    prefix = f"fs.s3a.bucket.{bucket}."
    expected = {key.removeprefix(prefix): _clear(value) for key, value in settings.items()}
    configuration = hadoop_configuration(spark)
    actual = {
        name: configuration.get(prefix + name) or configuration.get(f"fs.s3a.{name}") for name in _names(expected)
    }
    _compare_endpoints(bucket, expected, actual)
    wrong = [name for name in expected if not _same(name, expected[name], actual[name])]
    if wrong:
        set_for_bucket = {prefix + name: configuration.get(prefix + name) for name in wrong}
        _refuse_different(location, {prefix + name: expected[name] for name in wrong}, set_for_bucket)
    in_force = _in_force(spark, uri)
    names = _names(expected)
    stale = [prefix + name for name in names if not _same(name, actual[name], in_force.get(f"fs.s3a.{name}"))]
    _refuse_stale(f"the bucket {bucket!r}", stale)


def _refuse_different(location: str, expected: Mapping[str, str], actual: Mapping[str, str | None]) -> None:
    """Rejects a session that lacks settings of the store or has others in their place."""
    wrong = [key for key in expected if expected[key] != actual[key]]
    missing = [key for key in wrong if not actual[key]]
    different = [key for key in wrong if key not in missing]
    parts = [f"{word}: {', '.join(keys)}" for word, keys in (("missing", missing), ("different", different)) if keys]
    if parts:
        raise SparkError(
            f"the Spark session does not reach {location} with the store's settings; {'; '.join(parts)}",
            hint="set them before the session starts: SparkSession.builder.config(map=store.spark_conf())",
        )


def _refuse_stale(place: str, keys: Sequence[str]) -> None:
    if keys:
        raise SparkError(
            f"the Spark session already used {place} with other settings, and Hadoop keeps the first; "
            f"different: {', '.join(keys)}",
            hint="start a new Spark session with SparkSession.builder.config(map=store.spark_conf())",
        )


def _names(expected: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys((*expected, "endpoint")))


def _compare_endpoints(bucket: str, expected: Mapping[str, str], actual: Mapping[str, Any]) -> None:
    ours, theirs = expected.get("endpoint"), actual["endpoint"]
    if not theirs or _same("endpoint", ours, theirs):
        return
    raise SparkError(
        f"the Spark session uses the bucket {bucket!r} at {theirs}, but the store uses it at {ours or 'AWS'}",
        hint="use separate Spark sessions for stores with the same bucket name at different endpoints",
    )


def _same(name: str, ours: str | None, theirs: str | None) -> bool:
    ours, theirs = (ours or "").strip(), (theirs or "").strip()
    if name == "endpoint":
        ours, theirs = (value.partition("://")[2] or value for value in (ours.rstrip("/"), theirs.rstrip("/")))
        return ours == theirs or (ours in _AWS and theirs in _AWS)
    if name == "aws.credentials.provider":
        providers = {part.strip() for part in theirs.split(",")}
        return all(part.strip() in providers for part in ours.split(","))
    return ours == theirs


def _in_force(spark: SparkSession, uri: str) -> Configuration:
    """The settings of the file system that Hadoop keeps for a bucket."""
    try:
        return file_system_configuration(spark, uri)
    except Py4JJavaError as error:
        message = str(error.java_exception.getMessage())
        if not re.search(r"Class \S+FileSystem not found", message):
            raise SparkError(f"the Spark session cannot use {uri}: {message}") from None
        name, module = ("S3A", "hadoop-aws") if uri.startswith("s3a://") else ("ABFS", "hadoop-azure")
        raise SparkError(
            f"the Spark session has no {name}, which Spark needs for {uri}",
            hint=f"start it with SparkSession.builder.config(map=store.spark_conf()), or with "
            f"spark.jars.packages=org.apache.hadoop:{module}:{hadoop_version(spark)}",
        ) from None


def _clear(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
