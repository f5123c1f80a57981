"""Files on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import field_validator

from lakeconf.backends.backend import StorageBackend, Text, described
from lakeconf.errors import StorageError, storage_errors


class LocalStorage(StorageBackend):
    """A local folder, or a folder that all machines mount at the same path."""

    type: Literal["local"] = "local"
    path: Annotated[
        Text, described("Folder of the Parquet files, relative to the configuration file.", example=".lakeconf/data")
    ]

    @field_validator("path")
    @classmethod
    def _has_no_backslash(cls, path: str) -> str:
        if "\\" in path:
            raise ValueError("must not contain a backslash: DuckLake takes it for a slash, and would write elsewhere")
        return path

    @classmethod
    def path_fields(cls) -> tuple[str, ...]:
        return ("path",)

    @property
    def extensions(self) -> tuple[str, ...]:
        return ()

    @property
    def location(self) -> str:
        return self.path.rstrip("/") + "/"

    def prepare(self, *, read_only: bool) -> None:
        path = Path(self.path)
        if path.exists() and not path.is_dir():
            raise StorageError(f"the data path {path} is a file", hint="set path to the folder of the Parquet files")
        if not read_only:
            hint = "check the permissions of the folder above it"
            with storage_errors(f"the data path {path} cannot be created", hint=hint):
                path.mkdir(parents=True, exist_ok=True)
