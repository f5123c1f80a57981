"""An error about a codec that Spark lacks names the codec and the file; other errors are not about codecs."""

from __future__ import annotations

import pytest

from lakeconf.engines.spark.write.storage import missing_codec

# Messages of Spark 4.0 and of Spark 4.2.
MISSING = "Class org.apache.hadoop.io.compress.{}Codec was not found"
OTHER_WORDS = "java.lang.ClassNotFoundException: org.apache.hadoop.io.compress.{}Codec not found"
FILE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3a://b/a%20b/x.parquet. SQLSTATE: KD001\n"


@pytest.mark.parametrize("text", [MISSING, OTHER_WORDS])
def test_missing_codec_and_its_file_are_named(text: str) -> None:
    error = missing_codec(RuntimeError(FILE + text.format("Brotli")))
    assert error is not None
    assert error.message == (
        "Spark cannot read the file s3a://b/a%20b/x.parquet: it is compressed with BROTLI, and Spark has no such codec"
    )
    assert error.hint == (
        "read the table with DuckDB: store.open(); or set the lake's option parquet_compression to 'zstd' and write "
        "the table again"
    )


def test_missing_codec_of_an_unknown_file() -> None:
    error = missing_codec(RuntimeError(MISSING.format("Lzo")))
    assert error is not None
    assert error.message.startswith("Spark cannot read a file: it is compressed with LZO,")


@pytest.mark.parametrize("text", ["", FILE, "org.apache.hadoop.io.compress.BrotliCodec failed", "Codec was not found"])
def test_other_errors_are_not_about_codecs(text: str) -> None:
    assert missing_codec(RuntimeError(text)) is None
