"""The error for files that are compressed with a codec that Spark lacks."""

from __future__ import annotations

import re

from lakeconf.engines.spark.internals import error_texts
from lakeconf.errors import UnsupportedError

# Parquet names the missing class of a codec. Spark has no class for Brotli.
_MISSING = re.compile(r"org\.apache\.hadoop\.io\.compress\.(\w+)Codec (was )?not found")
# Spark names the file that a task was reading.
_FILE = re.compile(r"error while reading file (\S+\.parquet)")


def missing_codec(error: BaseException) -> UnsupportedError | None:
    """Finds out whether a job failed because Spark lacks the codec of a file.

    Args:
        error: The error of Spark.

    Returns:
        The error to raise instead; None if the job failed for another reason.
    """
    texts = error_texts(error)
    codec = next(filter(None, map(_MISSING.search, texts)), None)
    if codec is None:
        return None
    file = next(filter(None, map(_FILE.search, texts)), None)
    name = "a file" if file is None else f"the file {file[1]}"
    return UnsupportedError(
        f"Spark cannot read {name}: it is compressed with {codec[1].upper()}, and Spark has no such codec",
        hint="read the table with DuckDB: store.open(); or set the lake's option parquet_compression to 'zstd' and "
        "write the table again",
    )
