"""Cloudflare R2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from lakeconf.backends.fields import Text
from lakeconf.backends.init_template import InitTemplate
from lakeconf.backends.storage.object_storage import ObjectStorage
from lakeconf.sql import Value


class R2Storage(ObjectStorage):
    """A bucket of Cloudflare R2."""

    scheme: ClassVar[str] = "r2"
    type: Literal["r2"] = "r2"
    account_id: Annotated[
        Text | None,
        Field(examples=["${R2_ACCOUNT_ID}"], description="Cloudflare account id; sets the endpoint."),
    ] = None

    @model_validator(mode="after")
    def _account_is_given(self) -> Self:
        if self.creates_secret and self.account_id is None and self.endpoint is None:
            raise ValueError("incomplete credentials: R2 needs account_id (or an endpoint)")
        return self

    @classmethod
    def init_template(cls) -> InitTemplate:
        keys = {"key_id": "${R2_KEY_ID}", "secret": "${R2_SECRET}"}
        return InitTemplate({"account_id": None, "bucket": None, **keys})

    def _own_options(self) -> Mapping[str, Value]:
        account: dict[str, Value] = {"account_id": self.account_id} if self.account_id is not None else {}
        return {**super()._own_options(), **account}

    @property
    def s3_endpoint(self) -> str | None:
        if self.endpoint is not None or self.account_id is None:
            return self.endpoint
        return f"{self.account_id}.r2.cloudflarestorage.com"

    def _uses_path_style(self) -> bool:
        return self.url_style != "vhost"
