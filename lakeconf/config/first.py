"""A first configuration: one store of two backends, with variables in the place of secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from lakeconf.backends.base import is_secret_key
from lakeconf.config.model import STORE_NAME
from lakeconf.config.reading import allowed_name
from lakeconf.errors import LakeconfError, nearest

# What each backend needs, with what is likely right; None has to be given.
METADATA: Mapping[str, Mapping[str, str | None]] = MappingProxyType(
    {
        "sqlite": {"uri": ".lakeconf/catalog.sqlite"},
        "duckdb": {"uri": ".lakeconf/catalog.duckdb"},
        "postgres": {"host": "${PGHOST}", "database": "lake", "user": "${PGUSER}", "password": "${PGPASSWORD}"},
        "motherduck": {"database": "lake"},
    }
)
STORAGE: Mapping[str, Mapping[str, str | None]] = MappingProxyType(
    {
        "local": {"path": ".lakeconf/data"},
        "s3": {"bucket": None, "region": "us-east-1"},
        "r2": {"account_id": None, "bucket": None, "key_id": "${R2_KEY_ID}", "secret": "${R2_SECRET}"},
        "gcs": {"bucket": None, "key_id": "${GCS_KEY_ID}", "secret": "${GCS_SECRET}"},
    }
)
_COMMENTS = MappingProxyType(
    {
        "metadata_backend": "Where the catalog is: names of tables, snapshots, files.",
        "storage_backend": "Where the Parquet files are.",
    }
)
# A bucket of AWS is reached with the credentials that its tools use.
_CHAIN = 'secret_parameters = { provider = "credential_chain" }'


def first_configuration(store: str, metadata: str, storage: str | None, values: Mapping[tuple[str, str], str]) -> str:
    """The text of a lakeconf.toml with one store.

    Args:
        store: Its name.
        metadata: The type of the metadata backend.
        storage: The type of the storage backend; None where MotherDuck keeps the files.
        values: Fields by section and name, such as `("storage_backend", "bucket")`; the others are as likely right.

    Raises:
        LakeconfError: A name or a type is not allowed, a value is missing, or a secret is not a variable.
    """
    if not STORE_NAME.fullmatch(store):
        raise LakeconfError(f"{store!r} is not allowed as a store's name", hint=f"write it as {allowed_name(store)}")
    sections = {"metadata_backend": (METADATA, metadata), "storage_backend": (STORAGE, storage)}
    lines = [f'default_store = "{store}"']
    for section, (known, kind) in sections.items():
        if kind is None:
            continue
        if kind not in known:
            near = nearest(kind, known)
            raise LakeconfError(
                f"there is no {section} {kind!r}",
                hint=f"did you mean {near}?" if near else f"there are {', '.join(known)}",
            )
        lines += ["", f"# {_COMMENTS[section]}", f"[stores.{store}.{section}]", f'type = "{kind}"']
        fields = {**known[kind], **{name: value for (part, name), value in values.items() if part == section}}
        lines += [f"{name} = {json.dumps(_checked(section, name, value))}" for name, value in fields.items()]
        lines += [_CHAIN] if kind == "s3" and not {"key_id", "secret_name"} & fields.keys() else []
    return "\n".join(lines) + "\n"


def _checked(section: str, name: str, value: str | None) -> str:
    if value is None:
        raise LakeconfError(f"{section}.{name} has to be given", hint=f"--set {section}.{name}=…")
    if is_secret_key(name) and not value.startswith("${"):
        raise LakeconfError(
            f"{section}.{name} is a secret, and does not belong into the file",
            hint=f"name a variable that holds it: --set '{section}.{name}=${{MY_{name.upper()}}}'",
        )
    return value
