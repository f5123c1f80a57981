"""Data files on a network share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lakeconf.backends.backend import StorageBackend, Text
from lakeconf.errors import StorageError


class ShareStorage(StorageBackend):
    """A folder on a network share that every machine mounts at the same path. Writes fail if the share is not mounted.

    Without the mount, the mount point is an empty local folder, and files would be written there.
    """

    type: Literal["share"] = "share"
    mount: Annotated[Text, Field(description="Where the share is mounted.")]
    folder: Annotated[Text, Field(description="Folder of the Parquet files on the share.")] = "lake"
    marker: Annotated[Text, Field(description="A file on the share: it is there when the share is mounted.")]

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("mount",)

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    @property
    def location(self) -> str:
        return f"{self.mount.rstrip('/')}/{self.folder.strip('/')}/"

    def prepare(self, *, read_only: bool) -> None:
        marker = Path(self.mount, self.marker)
        if not marker.exists():
            raise StorageError(f"the share is not mounted at {self.mount}: {marker} is missing", hint="mount it")
        if not read_only:
            Path(self.location).mkdir(parents=True, exist_ok=True)
