"""Amazon S3, and servers that are compatible with it."""

from __future__ import annotations

from typing import ClassVar, Literal

from lakeconf.backends.init_template import InitTemplate
from lakeconf.backends.storage.object_storage import ObjectStorage


class S3Storage(ObjectStorage):
    """A bucket of Amazon S3, or of a compatible server named by `endpoint`."""

    scheme: ClassVar[str] = "s3"
    other_schemes: ClassVar[tuple[str, ...]] = ("s3a", "s3n")
    type: Literal["s3"] = "s3"

    @classmethod
    def init_template(cls) -> InitTemplate:
        # For AWS, the default is the credentials that the AWS tools use.
        return InitTemplate(
            {"bucket": None, "region": "us-east-1"},
            secret_parameters={"provider": "credential_chain"},
            without_parameters=frozenset({"key_id", "secret_name"}),
        )
