"""Amazon S3, and servers that are compatible with it."""

from __future__ import annotations

from typing import ClassVar, Literal

from lakeconf.backends.storage.object_storage import ObjectStorage


class S3Storage(ObjectStorage):
    """A bucket of Amazon S3, or of a compatible server named by `endpoint`."""

    scheme: ClassVar[str] = "s3"
    other_schemes: ClassVar[tuple[str, ...]] = ("s3a", "s3n")
    type: Literal["s3"] = "s3"
