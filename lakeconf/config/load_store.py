"""Reads one store: `extends` followed, variables resolved, backends made, and everything that is wrong taken down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lakeconf.backends.attach_options import ATTACH_OPTIONS, attach_option_problem
from lakeconf.backends.base import MetadataBackend, StorageBackend
from lakeconf.backends.registry import metadata_backend, storage_backend
from lakeconf.backends.secrecy import is_secret
from lakeconf.config.backend import build_backend, type_name, typed, unknown_key_hint
from lakeconf.config.codes import Code
from lakeconf.config.inheritance import STORE_KEYS, Inheritance, Path
from lakeconf.config.store_builder import Draft, Origin
from lakeconf.errors import ConfigError, LakeconfError, Problem
from lakeconf.secret import HiddenText, Secret, hidden
from lakeconf.sql import CreateSecret
from lakeconf.store import Store

BackendOrNone = TypeVar("BackendOrNone", MetadataBackend, StorageBackend | None)

ALIAS = r"[a-z_][a-z0-9_]*"
# Databases and schemas that every connection to DuckDB has.
_OPTION_HINTS = {
    bool: "write true or false, without quotes",
    int: "write a whole number, without quotes",
    str: "write it between quotes",
    object: "the names of META_ options are in the documentation of the catalog's database",
}
RESERVED_ALIASES = ("information_schema", "main", "memory", "pg_catalog", "system", "temp")


class Reading(NamedTuple):
    """What came of reading a store.

    Attributes:
        store: The store; None where something is wrong.
        problems: What is wrong, in the order of the file.
        values: Its keys with variables resolved, secrets in clear.
        origins: Where each of them came from.
        variables: The variables that were looked up, and what they held.
    """

    store: Store | None
    problems: tuple[Problem, ...]
    values: Mapping[str, Any] = MappingProxyType({})
    origins: Mapping[Path, Origin] = MappingProxyType({})
    variables: Mapping[str, str | None] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"Reading({self.store!r}, {self.problems})"

    @property
    def secrets(self) -> tuple[CreateSecret, ...]:
        """The secrets that the store creates."""
        statements = self.store.statements if self.store is not None else ()
        return tuple(statement for statement in statements if isinstance(statement, CreateSecret))

    def value(self, path: Path) -> Any:
        """The value of a key, at any depth; None where it is not given."""
        found: Any = self.values
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found


def read_store(
    stores: Inheritance, name: str, environment: Mapping[str, str] | None, secrets: Sequence[Secret] = ()
) -> Reading:
    """Reads a store.

    Args:
        stores: The stores.
        name: The store's name; there is one.
        environment: The variables, by name; None if they are not to be looked at.
        secrets: The secrets of the whole configuration.
    """
    try:
        tree = stores.tree(name)
    except ConfigError as error:
        return Reading(None, error.problems)
    draft = Draft(stores.source, name, tree, environment, secrets)
    for key in draft.values:
        if key not in STORE_KEYS:
            draft.report(Code.UNKNOWN_KEY, "unknown key", (key,), hint=unknown_key_hint(key, STORE_KEYS))
    alias = _alias(draft)
    options = _attach_options(draft)
    metadata = build_backend(draft, "metadata_backend", metadata_backend)
    storage = build_backend(draft, "storage_backend", storage_backend)
    if "metadata_backend" not in draft.values:
        hint = f'say where the catalog is: [stores.{name}.metadata_backend] type = "sqlite" …'
        draft.report(Code.MISSING_KEY, "is missing", ("metadata_backend",), hint=hint)
    store = None
    if metadata is not None and (storage is not None or "storage_backend" not in draft.values):
        store = _composed(draft, metadata, storage, alias, options)
    problems = tuple(in_order(draft.problems))
    # In a file that is not trusted the placeholders of variables make no store.
    whole = not problems and not draft.unresolved
    return Reading(store if whole else None, problems, draft.values, draft.origins, draft.looked_up)


def in_order(problems: list[Problem]) -> list[Problem]:
    """The problems in the order of the file, each once; those without a place come first."""
    once: dict[tuple[object, ...], Problem] = {}
    for found in problems:
        once.setdefault((found.code, found.line, found.column, found.key, found.message), found)
    return sorted(once.values(), key=lambda problem: (problem.line or 0, problem.column or 0))


def _alias(draft: Draft) -> str | None:
    alias = draft.values.get("alias")
    key = ("alias",)
    if alias is None or key in draft.unresolved:
        return None
    if not isinstance(alias, str):
        draft.report(Code.WRONG_TYPE, f"should be a text, not {type_name(alias)}", key, hint="write it between quotes")
        return None
    # What a variable holds is not repeated, not even in small letters.
    unknown = draft.is_from_environment(key)
    if not re.fullmatch(ALIAS, alias):
        hint = "use small letters, digits and underscores" if unknown else f'write it as "{allowed_name(alias)}"'
        draft.report(Code.ALIAS, "is not allowed" if unknown else f"{alias!r} is not allowed", key, hint=hint)
    elif alias in RESERVED_ALIASES:
        name = "database of that name" if unknown else repr(alias)
        draft.report(Code.ALIAS, f"every connection to DuckDB has a {name} already", key, hint="choose another alias")
    return str(alias)


def allowed_name(name: str) -> str:
    """The nearest name that is allowed for a store, and so for an alias."""
    import unicodedata  # only an error needs it

    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")
    return words if words[:1].isalpha() else f"s{words}" if words else "store"


def _attach_options(draft: Draft) -> dict[str, Any]:
    options = draft.values.get("attach_options", {})
    if not isinstance(options, dict):
        message = f"should be a table, not {type_name(options)}"
        draft.report(Code.WRONG_TYPE, message, ("attach_options",), hint="write { read_only = true }")
        return {}
    checked: dict[str, Any] = {}
    for name, given in options.items():
        key = ("attach_options", name)
        if key in draft.unresolved:
            continue
        value = typed(given, {ATTACH_OPTIONS.get(name, str)}) if draft.is_from_environment(key) else given
        if name not in ATTACH_OPTIONS and not name.startswith("meta_"):
            hint = unknown_key_hint(name, ATTACH_OPTIONS)
            draft.report(Code.ATTACH_OPTION, "unknown attach option", key, hint=hint)
        elif value == "" and is_secret(key):
            draft.report(Code.WRONG_VALUE, "must not be empty", key, hint="give a value, or leave the option away")
        elif (problem := attach_option_problem(name, value)) is not None:
            draft.report(Code.ATTACH_OPTION, problem, key, hint=_OPTION_HINTS[ATTACH_OPTIONS.get(name, object)])
        else:
            checked[name] = value
    return checked


def _with_hidden(backend: BackendOrNone, secrets: Sequence[Secret]) -> BackendOrNone:
    """The backend, in which values that are secrets elsewhere are masked when it is printed."""
    if backend is None:
        return backend
    fields = {name: getattr(backend, name) for name in type(backend).model_fields}
    given = {name: value for name, value in fields.items() if isinstance(value, str | Mapping)}
    update = {name: hidden(value, secrets) for name, value in given.items()}
    update = {name: value for name, value in update.items() if isinstance(value, HiddenText | Mapping)}
    return backend.model_copy(update=update) if update else backend


def _composed(
    draft: Draft,
    metadata: MetadataBackend,
    storage: StorageBackend | None,
    alias: str | None,
    options: dict[str, Any],
) -> Store | None:
    refusal = metadata.refusal(storage)
    if refusal is not None:
        key = "metadata_backend" if storage is None else "storage_backend"
        hint = "change the type of one of the two"
        if storage is None:
            hint = f'write [stores.{draft.name}.storage_backend] and under it type = "…"'
        draft.report(Code.PAIR, f"{metadata.type} {refusal}", (key,), hint=hint)
        return None
    if alias is None and metadata.default_alias(draft.name) in RESERVED_ALIASES:
        hint = f'give the store an alias: [stores.{draft.name}] alias = "lake"'
        draft.report(Code.ALIAS, f"every connection to DuckDB has a {draft.name!r} already", hint=hint)
    try:
        hide = (*metadata.secrets_held(), *(storage.secrets_held() if storage else ()), *draft.hidden)
        metadata, storage = _with_hidden(metadata, hide), _with_hidden(storage, hide)
        store = Store(draft.name, metadata, storage, alias=alias, attach_options=options, hidden=draft.hidden)
        names = [statement.name.lower() for statement in store.statements if isinstance(statement, CreateSecret)]
    except LakeconfError as error:
        message = error.message.removeprefix(f"stores.{draft.name}: ")
        named = [key for key in ("alias", "attach_options") if key in draft.values and key.split("_")[0] in message]
        hint = error.hint or "leave it away"
        draft.report(Code.FIELDS, message, tuple(named[:1]), hint=hint)
        return None
    if len(set(names)) < len(names):
        hint = "give each backend a secret_name of its own"
        message = "both backends of the store have this secret_name"
        draft.report(Code.SHARED_SECRET, message, ("storage_backend", "secret_name"), hint=hint)
    return store
