"""Google Cloud Storage."""

from __future__ import annotations

from typing import ClassVar, Literal

from lakeconf.backends.storage.object_storage import ObjectStorage


class GCSStorage(ObjectStorage):
    """A bucket of Google Cloud Storage, reached with HMAC keys through its S3-compatible interface."""

    scheme: ClassVar[str] = "gs"
    other_schemes: ClassVar[tuple[str, ...]] = ("gcs",)
    type: Literal["gcs"] = "gcs"

    @property
    def secret_type(self) -> str:
        return "gcs"

    @property
    def s3_endpoint(self) -> str | None:
        return self.endpoint or "storage.googleapis.com"

    def _uses_path_style(self) -> bool:
        return self.url_style != "vhost"
