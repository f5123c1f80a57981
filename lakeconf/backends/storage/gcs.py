"""Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from lakeconf.backends.init_template import InitTemplate
from lakeconf.backends.storage.object_storage import ObjectStorage

# GCS has no bulk delete, no listing version 2 and no conditional PUT. Source:
# https://hadoop.apache.org/docs/stable/hadoop-aws/tools/hadoop-aws/third_party_stores.html
_DIFFERENT_FROM_S3: Mapping[str, str] = {
    "checksum.generation": "false",
    "committer.magic.enabled": "false",
    "create.conditional.enabled": "false",
    "list.version": "1",
    "multiobjectdelete.enable": "false",
    "optimized.copy.from.local.enabled": "false",
}


class GCSStorage(ObjectStorage):
    """A Google Cloud Storage bucket, accessed with HMAC keys through the S3-compatible interface."""

    scheme: ClassVar[str] = "gs"
    other_schemes: ClassVar[tuple[str, ...]] = ("gcs",)
    type: Literal["gcs"] = "gcs"

    @classmethod
    def init_template(cls) -> InitTemplate:
        return InitTemplate({"bucket": None, "key_id": "${GCS_KEY_ID}", "secret": "${GCS_SECRET}"})

    @property
    def secret_type(self) -> str:
        return "gcs"

    @property
    def s3_endpoint(self) -> str | None:
        return self.endpoint or "storage.googleapis.com"

    @property
    def s3_features(self) -> Mapping[str, str]:
        return _DIFFERENT_FROM_S3

    def _uses_path_style(self) -> bool:
        return self.url_style != "vhost"
