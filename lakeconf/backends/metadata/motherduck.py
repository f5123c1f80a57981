"""A catalog in MotherDuck. Written from its documentation; never run against the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from lakeconf.backends.backend import MetadataBackend, StorageBackend, StoreNames, Text, described
from lakeconf.backends.store_options import StoreError, creates_nothing
from lakeconf.ducklake import metadata_database
from lakeconf.sql import Attach, CreateDatabase, Statement, Value


class MotherDuckMetadata(MetadataBackend):
    """A DuckLake database in MotherDuck; the token is only read from the environment variable `motherduck_token`.

    Source: https://motherduck.com/docs/integrations/file-formats/ducklake/
    """

    type: Literal["motherduck"] = "motherduck"
    database: Annotated[
        Text, described("Name of the MotherDuck database; also the alias of the store.", example="my_lake")
    ]
    region: Annotated[
        Text | None,
        described("Region of your own bucket, if the storage backend does not set one.", example="eu-central-1"),
    ] = None
    compute: Annotated[
        Literal["motherduck", "local"],
        described(
            "Where queries run: in MotherDuck, or on this machine, which then reads catalog and files. "
            "Spark needs `local`, and `local` needs your own bucket and the token of the database owner.",
            example="local",
        ),
    ] = "motherduck"

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("motherduck",)

    def refusal(self, storage: StorageBackend | None) -> str | None:
        if storage is None:
            if self.compute == "local":
                return 'with compute = "local" needs a storage_backend: only MotherDuck can read a managed lake'
            return None
        if not storage.location.startswith(("s3://", "r2://", "gs://")):
            return "supports s3, r2 or gcs storage, or none"
        return None

    @classmethod
    def default_alias(cls, store: str, fields: Mapping[str, Any]) -> str:
        # MotherDuck attaches a database under its own name.
        database = fields.get("database") if fields.get("compute", "motherduck") == "motherduck" else None
        return database if isinstance(database, str) and database else store

    def description(self) -> str:
        return f"{self.type} {self.database}"

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:  # noqa: ARG002 - the database is enough
        return {"metadata_path": f"md:{metadata_database(self.database)}"}

    def statements(
        self, names: StoreNames, storage: StorageBackend | None, attach_options: Mapping[str, Value]
    ) -> tuple[Statement, ...]:
        if self.compute == "local":
            return super().statements(names, storage, attach_options)
        self._check(names, attach_options)
        data_path: dict[str, Value] = {"data_path": storage.location} if storage is not None else {}
        region: dict[str, Value] = {"region": self.region} if self.region else {}
        secrets = () if storage is None else storage.secrets(names)
        return (
            Attach("md:", None),
            *(secret._replace(options=region | dict(secret.options), in_motherduck=True) for secret in secrets),
            *(() if creates_nothing(attach_options) else (CreateDatabase(self.database, data_path),)),
        )

    def _check(self, names: StoreNames, attach_options: Mapping[str, Value]) -> None:
        if names.alias != self.database:
            problem = f"the alias {names.alias!r} is not the database {self.database!r}"
            hint = "omit alias: MotherDuck attaches a database under its own name"
            raise StoreError(names.store, "alias", problem, hint=hint)
        # `lakeconf.store.for_reading` sets both options. MotherDuck attaches databases itself; the lake rejects writes.
        refused = sorted(attach_options.keys() - {"create_if_not_exists", "read_only"})
        if refused:
            problem = f"MotherDuck does not support the attach option {', '.join(refused)}"
            raise StoreError(names.store, "attach_options", problem, hint="remove it")
