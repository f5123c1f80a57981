"""Reads one store: checks its tables and composes its backends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lakeconf.backends.backend import MetadataBackend, StorageBackend
from lakeconf.backends.registry import metadata_backend, storage_backend
from lakeconf.backends.secrecy import is_secret
from lakeconf.backends.store_options import COMMITTERS, OPTIONS, RESERVED_NAMES, StoreError, option_fault
from lakeconf.config.backend_tables import build_backend, type_name, typed, unknown_key_hint
from lakeconf.config.codes import Code
from lakeconf.config.environment import Environment
from lakeconf.config.file import ConfigSource
from lakeconf.config.resolve import STORE_KEYS, Draft, Inheritance, Origin, Path, value_at
from lakeconf.config.toml_text import dotted
from lakeconf.errors import ConfigError, LakeconfError, Problem, listed, suggestion
from lakeconf.secret import HiddenText, Secret, hidden
from lakeconf.sql import CreateSecret
from lakeconf.store import Store

BackendOrNone = TypeVar("BackendOrNone", MetadataBackend, StorageBackend | None)
ALIAS = r"[a-z_][a-z0-9_]*"
_KINDS = {"key": Code.UNKNOWN_KEY, "type": Code.WRONG_TYPE, "value": Code.WRONG_VALUE}
_TABLES = {"attach_options": "{ read_only = true }", "maintenance": '{ deadline = "30m" }'}
# The tables at the top, each with what to write below it.
_TOP_TABLES = {
    "pipeline": 'write [pipeline] and add python = ["models.py"] below it',
    "stores": 'write [stores.dev.metadata_backend] and add type = "sqlite" below it',
}
TOP_KEYS = ("default_store", *_TOP_TABLES)
STORE_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class StoreReading(NamedTuple):
    """The result of reading a store."""

    store: Store | None  # the store; None if it has problems
    problems: tuple[Problem, ...]  # the problems, in the order of the file
    # The store's keys with variables resolved and secrets in clear text.
    values: Mapping[str, Any] = MappingProxyType({})
    origins: Mapping[Path, Origin] = MappingProxyType({})  # the origin of each value
    # The environment variables that were read, and their values.
    variables: Mapping[str, str | None] = MappingProxyType({})
    # The keys whose values are unknown, because an untrusted file references a variable.
    unresolved: frozenset[Path] = frozenset()
    # The store if the location of its catalog and files is known; its credentials may be unknown.
    located: Store | None = None
    secrets: tuple[CreateSecret, ...] = ()  # the secrets that the store creates in DuckDB

    def __repr__(self) -> str:
        return f"StoreReading({self.store!r}, {self.problems})"

    def value(self, path: Path) -> Any:
        """The value of a key, at any depth; None if it is not set."""
        return value_at(self.values, path)


def read_store(
    stores: Inheritance, name: str, environment: Environment | None, secrets: Sequence[Secret] = ()
) -> StoreReading:
    """Reads a store."""
    try:
        draft = Draft(stores, name, environment, secrets)
    except ConfigError as error:
        return StoreReading(None, error.problems)
    for key in draft.values:
        if key not in STORE_KEYS:
            draft.report(Code.UNKNOWN_KEY, "unknown key", (key,), hint=unknown_key_hint(key, STORE_KEYS))
    alias = _alias(draft)
    options, limits = _options(draft, "attach_options"), _options(draft, "maintenance")
    metadata = build_backend(draft, "metadata_backend", metadata_backend)
    storage = build_backend(draft, "storage_backend", storage_backend)
    if "metadata_backend" not in draft.values:
        hint = f'declare the catalog: [{dotted(("stores", name, "metadata_backend"))}] type = "sqlite" …'
        draft.report(Code.MISSING_KEY, "is missing", ("metadata_backend",), hint=hint)
    store = None
    # No store has an empty name, which is a problem of the file; see `structure_problems`.
    if name and metadata is not None and (storage is not None or "storage_backend" not in draft.values):
        about: dict[str, Any] = {
            "alias": alias,
            "attach_options": options,
            "maintenance": limits,
            "committer": _committer(draft),
            "branch_of": _branch_of(draft, stores, environment, secrets),
        }
        store = _composed(draft, metadata, storage, about)
    problems = tuple(in_order(draft.problems))
    # Without the environment, a store with variables has only placeholder values.
    is_known = all(is_secret(path) or path[-1] in ("user", "key_id") for path in draft.unresolved)
    located = store if is_known and not problems else None
    whole, unknown = None if draft.unresolved else located, frozenset(draft.unresolved)
    created = (
        ()
        if whole is None
        else tuple(statement for statement in whole.own_statements if isinstance(statement, CreateSecret))
    )
    return StoreReading(whole, problems, draft.values, draft.origins, draft.looked_up, unknown, located, created)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sorts problems by position and removes duplicates; problems without a position come first."""
    once: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        once.setdefault((problem.code, problem.line, problem.column, problem.key, problem.message), problem)
    return sorted(once.values(), key=lambda problem: (problem.line or 0, problem.column or 0))


def _text(draft: Draft, key: str) -> str | None:
    """The text of a key of the store; None if it is missing or unknown."""
    value = draft.values.get(key)
    if value is None or (key,) in draft.unresolved:
        return None
    if not isinstance(value, str):
        draft.report(Code.WRONG_TYPE, f"must be a string, not {type_name(value)}", (key,), hint="write it in quotes")
        return None
    return str(value)  # without its variable: stores are pickled


def _alias(draft: Draft) -> str:
    alias = _text(draft, "alias")
    if alias is None:
        return ""
    if not re.fullmatch(ALIAS, alias):
        draft.report(Code.ALIAS, f"invalid alias {alias!r}", ("alias",), hint=f'write it as "{allowed_name(alias)}"')
    elif alias in RESERVED_NAMES:
        draft.report(Code.ALIAS, f"DuckDB reserves {alias!r}", ("alias",), hint="choose another alias")
    return alias


def allowed_name(name: str) -> str:
    """Converts a name to a valid store name, which is also a valid alias."""
    import unicodedata  # only an error needs it

    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")
    return words if words[:1].isalpha() else f"s{words}" if words else "store"


def _committer(draft: Draft) -> str:
    committer = _text(draft, "committer")
    if committer in COMMITTERS:
        return committer
    if committer is not None:
        hint = f"use one of: {', '.join(COMMITTERS)}"
        draft.report(Code.WRONG_VALUE, "unknown committer", ("committer",), hint=hint)
    return COMMITTERS[0]


def _branch_of(
    draft: Draft, stores: Inheritance, environment: Environment | None, secrets: Sequence[Secret]
) -> Store | None:
    """The store of the lake that a store is a branch of."""
    name, key = _text(draft, "branch_of"), ("branch_of",)
    if name is None:
        return None
    if name not in stores.stores:
        hint = suggestion(name, stores.stores, f"use one of the stores: {listed(stores.stores)}")
        draft.report(Code.UNKNOWN_STORE, f"unknown store {name!r}", key, hint=hint)
        return None
    try:
        is_branch = "branch_of" in stores.merged(name).values
    except ConfigError:
        is_branch = False
    if is_branch:  # also a store that is a branch of itself
        hint = "name the store of a lake that is no branch"
        draft.report(Code.WRONG_VALUE, f"{name} is a branch itself", key, hint=hint)
        return None
    parent = read_store(stores, name, environment, secrets)
    draft.looked_up.update(parent.variables)
    if parent.problems:
        hint = f"run: lakeconf validate {name}"
        draft.report(Code.WRONG_VALUE, f"the store {name!r} has problems", key, hint=hint)
    elif parent.unresolved:
        draft.unresolved.add(key)
    return parent.located


def _options(draft: Draft, table: str) -> dict[str, Any]:
    """The valid options of a table."""
    options = draft.values.get(table, {})
    if not isinstance(options, dict):
        message = f"must be a table, not {type_name(options)}"
        draft.report(Code.WRONG_TYPE, message, (table,), hint=f"write {_TABLES[table]}")
        return {}
    checked: dict[str, Any] = {}
    for name, text in options.items():
        key, option = (table, name), OPTIONS[table].get(name)
        if key in draft.unresolved and option is not None:
            continue
        value = typed(text, {option.kind if option else str}) if draft.is_from_environment(key) else text
        fault = option_fault(table, name, value)
        if fault is None and value == "" and is_secret(key):
            draft.report(Code.WRONG_VALUE, "must not be empty", key, hint="set a value, or remove the option")
        elif fault is None:
            checked[name] = value
        elif key not in draft.unresolved or fault.kind == "key":
            code = Code.ATTACH_OPTION if table == "attach_options" else _KINDS[fault.kind]
            draft.report(code, fault.message, key, hint=fault.hint)
    return checked


def _with_hidden(backend: BackendOrNone, secrets: Sequence[Secret]) -> BackendOrNone:
    """Returns the backend; printing it masks values that are secrets elsewhere in the configuration."""
    if backend is None:
        return backend
    update = {name: hidden(value, secrets) for name, value in backend if isinstance(value, str | list | Mapping)}
    update = {name: value for name, value in update.items() if isinstance(value, HiddenText | list | Mapping)}
    return backend.model_copy(update=update) if update else backend


def _composed(
    draft: Draft, metadata: MetadataBackend, storage: StorageBackend | None, options: Mapping[str, Any]
) -> Store | None:
    refusal = metadata.refusal(storage)
    if refusal is not None:
        key = "metadata_backend" if storage is None else "storage_backend"
        hint = "change the type of one of the two"
        if storage is None:
            hint = f'write [{dotted(("stores", draft.name, "storage_backend"))}] and add type = "…" below it'
        draft.report(Code.PAIR, f"{metadata.type} {refusal}", (key,), hint=hint)
        return None
    if not options["alias"] and metadata.default_alias(draft.name, dict(metadata)) in RESERVED_NAMES:
        hint = f'set an alias: [{dotted(("stores", draft.name))}] alias = "lake"'
        draft.report(Code.ALIAS, f"DuckDB reserves {draft.name!r}", hint=hint)
    try:
        hide = (*metadata.secrets_held(), *(storage.secrets_held() if storage else ()), *draft.hidden)
        metadata, storage = _with_hidden(metadata, hide), _with_hidden(storage, hide)
        store = Store(draft.name, metadata, storage, hidden=draft.hidden, **options)
        names = [statement.name.lower() for statement in store.own_statements if isinstance(statement, CreateSecret)]
    except LakeconfError as error:  # a backend of another package may raise any
        key, message = (error.key, error.problem) if isinstance(error, StoreError) else ("", error.message)
        # Only what the file contains has a place: an alias may be the name of the store.
        place = tuple(key.split(".")) if key.split(".")[0] in draft.values else ()
        message = message if key in ("", "alias", ".".join(place)) else f"{key}: {message}"
        draft.report(Code.FIELDS, message, place, hint=error.hint or "remove it")
        return None
    if len(set(names)) < len(names):
        hint = "use a different secret_name for each backend"
        message = "both backends of the store use this secret_name"
        draft.report(Code.SHARED_SECRET, message, ("storage_backend", "secret_name"), hint=hint)
    return store


def structure_problems(source: ConfigSource) -> Iterator[Problem]:
    """Reports unknown keys, tables of the wrong type, and invalid store names."""
    problem, data = source.problem, source.data
    for key in data:
        if key not in TOP_KEYS:
            yield problem(Code.UNKNOWN_KEY, "unknown key", hint=unknown_key_hint(key, TOP_KEYS), key=(key,))
    for key, hint in _TOP_TABLES.items():
        table = data.get(key)
        if table is not None and not isinstance(table, Mapping):
            yield problem(Code.WRONG_TYPE, f"must be a table, not {type_name(table)}", hint=hint, key=(key,))
    stores = data.get("stores")
    if stores is None or stores == {}:
        yield problem(Code.MISSING_KEY, "no stores are declared", hint=_TOP_TABLES["stores"], key=("stores",))
    for name in stores if isinstance(stores, Mapping) else ():
        if not STORE_NAME.fullmatch(name):
            hint = f"rename it to {allowed_name(name)}: use lower-case letters, digits and single underscores"
            yield problem(Code.STORE_NAME, "invalid store name", hint=hint, key=("stores", name))
