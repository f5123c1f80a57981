"""The MD5 of files: of local ones by reading them, of those on S3 as the store tells it with their sizes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError, StorageError
from lakeconf.sql import files_sql

# DuckDB shows what a store answers in this log only. It stays in memory, and ends with the question.
_RECORD = "CALL enable_logging('HTTP', storage = 'memory')"
_ANSWERS = """
    SELECT request.url, response.headers FROM duckdb_logs_parsed('HTTP')
    WHERE request.type = 'HEAD' AND response.status = 'OK_200'
"""
_STOP = ("CALL disable_logging()", "CALL truncate_duckdb_logs()")
# The ETag of a file that was uploaded as a whole. A file in parts has another, and so has Azure.
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_THREADS = 4


@contextlib.contextmanager
def told_checksums(connection: Connection, paths: Iterable[str]) -> Iterator[dict[str, str]]:
    """A mapping that has, at the end, the MD5 of those paths on S3 whose sizes were asked for meanwhile."""
    told = dict[str, str]()
    remote = [path for path in paths if "://" in path]
    if not remote:
        yield told
        return
    connection.execute(_RECORD)
    try:
        yield told
        answers = dict(_answers(connection))
        told |= {path: answers[key] for path in remote if (key := _key(path)) in answers}
    finally:
        for statement in _STOP:
            with contextlib.suppress(LakeconfError):
                connection.execute(statement)


def _answers(connection: Connection) -> Iterator[tuple[str, str]]:
    """The keys in a bucket that the log has, each with its MD5."""
    for url, headers in connection.rows(_ANSWERS):
        tags = (value for name, value in dict(headers).items() if name.casefold() == "etag")
        if (match := _MD5.fullmatch(next(tags, ""))) is not None:
            key = unquote(urlsplit(url).path).removeprefix("/")
            yield key, match[1]
            yield key.partition("/")[2], match[1]  # where the path begins with the bucket


def _key(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[2]


def local_checksums(paths: Iterable[str]) -> dict[str, str]:
    """The MD5 of the content of those paths that are files of this machine."""
    local = [path for path in paths if "://" not in path]
    with ThreadPoolExecutor(_THREADS, "lakeconf-checksum") as pool:
        return dict(zip(local, pool.map(_of_file, local), strict=True))


def _of_file(path: str) -> str:
    try:
        # It must not be a link to a file elsewhere.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise StorageError(f"the file {path} cannot be read: {error.strerror}", hint="run the command again") from error


def read_checksum(connection: Connection, path: str) -> str:
    """The MD5 of a file's content, which is read."""
    if "://" not in path:
        return _of_file(path)
    ((checksum,),) = connection.rows(f"SELECT md5(content) FROM {files_sql('read_blob', path)}")  # noqa: S608
    return str(checksum)


def differ(sides: Mapping[str, Connection], told: Mapping[str, str]) -> bool:
    """True if two files have other contents, according to what their stores tell: one that knows none is trusted.

    An encrypted bucket tells something else than an MD5: only what was read is a difference.
    """
    checksums = [told.get(path) for path in sides]
    if None in checksums or len(set(checksums)) == 1:
        return False
    return len({read_checksum(connection, path) for path, connection in sides.items()}) > 1
