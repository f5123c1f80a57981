"""Reads the tables of backends; errors of pydantic become problems with places and fixes."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from lakeconf.backends.backend import Backend
from lakeconf.backends.registry import UnknownTypeError
from lakeconf.config.codes import Code
from lakeconf.config.resolve import STORE_KEYS, Draft
from lakeconf.config.toml_text import dotted, toml_value
from lakeconf.errors import nearest, suggestion
from lakeconf.secret import Secret

BackendType = TypeVar("BackendType", bound=Backend)
# A scheme has at least two letters: C:\lake is a path.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+:|:memory:"
# Python raises an error for integers of many digits; nothing configurable has more than 20.
_INTEGER = r"[+-]?[0-9]{1,20}"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_PARAMETERS = "use a non-empty string, a number, true or false, a list of strings, or a table of strings"
_TYPE_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    dict: "a table",
    list: "a list",
}
# Parameters of libpq, and what other tools call a key.
_LIBPQ = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey"})
_ALIASES = {
    **dict.fromkeys(("access_key_id", "access_key"), "key_id"),
    **dict.fromkeys(("secret_access_key", "secret_key"), "secret"),
    "dbname": "database",
}


def field_fix(name: str, field: FieldInfo) -> str:
    """Says how to write a key, with an example and its meaning."""
    meaning = (field.description or "").partition(". ")[0].rstrip(".")
    meaning = meaning[:1].lower() + meaning[1:] if meaning[1:2].islower() else meaning
    if not field.examples:
        return f"set {name}: {meaning}" if meaning else f"choose another {name}"
    return f"write {name} = {toml_value(field.examples[0])}" + (f" ({meaning})" if meaning else "")


class _KeyFault(NamedTuple):
    """A pydantic error without the rejected value."""

    kind: str
    key: tuple[str, ...]
    text: str
    context: Mapping[str, Any]


def build_backend(draft: Draft, section: str, find: Callable[[str], type[BackendType]]) -> BackendType | None:
    """Builds a backend."""
    table = draft.values.get(section)
    if table is None:
        return None
    if not isinstance(table, dict):
        hint = f'write [{dotted(("stores", draft.name, section))}] and add type = "…" below it'
        draft.report(Code.WRONG_TYPE, f"must be a table, not {type_name(table)}", (section,), hint=hint)
        return None
    model = _model(draft, section, table, find)
    if model is None:
        return None
    backend, faults = _validated(model, _prepared(draft, section, table, model))
    for fault in faults:
        _report(draft, section, model, fault)
    return backend


def type_name(value: object) -> str:
    """Returns the TOML type of a value, with its article."""
    return next((name for kind, name in _TYPE_NAMES.items() if isinstance(value, kind)), "a date or time")


def typed(text: Any, allowed: set[type]) -> Any:
    """Converts an environment variable's text to a type that the key allows; returns other values unchanged."""
    if not isinstance(text, str) or str in allowed or Secret in allowed:
        return text
    if bool in allowed and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    if int in allowed and re.fullmatch(_INTEGER, text):
        return int(text)
    if float in allowed and re.fullmatch(_NUMBER, text):
        return float(text)
    return text


def unknown_key_hint(key: str, keys: typing.Iterable[str]) -> str:
    """Suggests the nearest known key, or lists all of them."""
    keys = tuple(keys)
    if key in _LIBPQ and "secret_parameters" in keys:
        return f"write secret_parameters = {{ {key} = … }}"
    alias = _ALIASES.get(key.lower().removeprefix("aws_"), key)
    return suggestion(alias if alias in keys else key, keys, f"use one of: {', '.join(keys)}")


def _model(
    draft: Draft, section: str, table: Mapping[str, Any], find: Callable[[str], type[BackendType]]
) -> type[BackendType] | None:
    key = (section, "type")
    type_of_backend = table.get("type")
    if key in draft.unresolved:
        return None
    if not isinstance(type_of_backend, str):
        code, problem = Code.WRONG_TYPE, f"must be a string, not {type_name(type_of_backend)}"
        if type_of_backend is None:
            code, problem = Code.MISSING_KEY, "is missing"
        draft.report(code, problem, key, hint=_types_hint(find))
        return None
    try:
        return find(str(type_of_backend))
    except UnknownTypeError as error:
        draft.report(Code.UNKNOWN_TYPE, error.message, key, hint=error.hint)
        return None


def _types_hint(find: Callable[[str], type[BackendType]]) -> str | None:
    try:
        find("")
    except UnknownTypeError as error:
        return error.hint
    return None


def _prepared(draft: Draft, section: str, table: Mapping[str, Any], model: type[Backend]) -> dict[str, Any]:
    """Returns the table with environment values converted to their types and relative paths made absolute."""
    values = dict(table)
    for name, value in table.items():
        key = (section, name)
        if name in model.model_fields and draft.is_from_environment(key):
            values[name] = typed(value, _types_in(model.model_fields[name].annotation))
        if name not in model.path_fields() or key in draft.unresolved or not isinstance(value, str) or not value:
            continue
        if re.match(_SCHEME, value):
            hint = f"remove the scheme; relative paths start from the folder of {draft.file_name}"
            draft.report(Code.WRONG_VALUE, "must be a local path, not a URI", key, hint=hint)
        else:
            values[name] = draft.absolute(value)
    return values


def _types_in(annotation: Any) -> set[type]:
    if typing.get_origin(annotation) is Annotated:
        return _types_in(typing.get_args(annotation)[0])
    inner = typing.get_args(annotation)
    return {inner_type for part in inner for inner_type in _types_in(part)} if inner else {annotation}


def _validated(model: type[BackendType], values: dict[str, Any]) -> tuple[BackendType | None, list[_KeyFault]]:
    try:
        return model.model_validate(values), []
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
    faults: dict[tuple[str, ...], _KeyFault] = {}
    for detail in errors:
        # Below a key of secret_parameters, pydantic reports one error for each member of the union.
        key = tuple(str(part) for part in detail["loc"][:2])
        context = detail.get("ctx", {})
        text = str(context["error"]) if "error" in context else detail["msg"]
        kind = "parameter" if key in faults and len(key) > 1 else detail["type"]
        faults[key] = _KeyFault(kind, key, text, context)
    # Report a misspelt key once, not again as a missing key.
    unknown = [fault.key[0] for fault in faults.values() if fault.kind == "extra_forbidden"]
    meant = {nearest(key.lower(), model.model_fields) for key in unknown}
    return None, [fault for fault in faults.values() if fault.kind != "missing" or fault.key[0] not in meant]


def _report(draft: Draft, section: str, model: type[Backend], fault: _KeyFault) -> None:
    key = (section, *fault.key)
    is_unknown = fault.kind == "extra_forbidden"
    if not is_unknown and any(key[:length] in draft.unresolved for length in range(1, len(key) + 1)):
        return
    if not fault.key:
        _report_whole(draft, section, model, fault)
        return
    name = fault.key[0]
    if is_unknown:
        draft.report(Code.UNKNOWN_KEY, "unknown key", key, hint=_unknown_hint(draft, name, model))
        return
    fix = fault.context.get("hint") or field_fix(name, model.model_fields[name])
    if fault.kind == "missing":
        draft.report(Code.MISSING_KEY, "is missing", key, hint=fix)
    elif fault.kind == "parameter":
        draft.report(Code.WRONG_VALUE, "is not a valid CREATE SECRET parameter value", key, hint=_PARAMETERS)
    else:
        code = Code.WRONG_TYPE if fault.kind.endswith("_type") else Code.WRONG_VALUE
        # A sentence of pydantic begins with "Input should be"; a dictionary is a table in TOML.
        message = re.sub(r"^\w+ should ", "must ", fault.text).replace("dictionary", "table")
        draft.report(code, message, key, hint=fix)


def _unknown_hint(draft: Draft, key: str, model: type[Backend]) -> str:
    if key in STORE_KEYS and nearest(key, model.model_fields) is None:
        return f"move it to [{dotted(('stores', draft.name))}]: this key belongs to the store"
    return unknown_key_hint(key, model.model_fields)


def _report_whole(draft: Draft, section: str, model: type[Backend], fault: _KeyFault) -> None:
    """Reports an error of the whole table at the first of its keys that the table contains."""
    # A backend of another package may raise a ValueError, which names no keys.
    keys = fault.context.get("keys", tuple(draft.values[section]))
    named = [key for key in keys if key in draft.values[section]]
    if any((section, key) in draft.unresolved for key in named):
        return
    table = dotted(("stores", draft.name, section))
    hint, first_key = fault.context.get("hint"), fault.context.get("wanted") or next(iter(keys), None)
    if "keys" not in fault.context:
        named, hint = [], f"change the keys of [{table}]"
    elif hint is not None:
        hint = hint.replace("{table}", table)
    elif first_key is not None:
        hint = field_fix(first_key, model.model_fields[first_key])
    code = Code.CREDENTIALS if fault.context.get("credentials") else Code.FIELDS
    draft.report(code, fault.text, (section, *named[:1]), hint=hint)
