"""Warns about valid settings that are probably mistakes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from lakeconf.backends.secrecy import is_secret
from lakeconf.backends.server import is_loopback
from lakeconf.config.codes import Code
from lakeconf.config.config import Config, init
from lakeconf.config.file import Table
from lakeconf.config.read_store import StoreReading
from lakeconf.config.resolve import value_at
from lakeconf.errors import ConfigError, Problem
from lakeconf.secret import masked


def warnings(source: Config | str | os.PathLike[str] | Table | None = None, *stores: str) -> list[Problem]:
    """Finds settings of a valid configuration that are probably mistakes, without connecting to anything."""
    try:
        config = source if isinstance(source, Config) else init(source)
        if config.problems:
            return []
    except ConfigError:
        return []
    problems = list(_of_config(config))
    for name in stores or config.names:
        reading = config.reading(name)
        problems += [
            *_literal_secrets(config, name, reading),
            *_without_tls(config, reading),
            *_catalog_without_tls(config, name, reading),
        ]
        problems += _bare_dollars(config, name)
    # The secret of an unresolved `$NAME` is a variable with a typing error: one problem, not two.
    dollars = {problem.key for problem in problems if problem.code == Code.BARE_DOLLAR.code}
    unique = {
        (problem.code, problem.key): problem
        for problem in problems
        if problem.code != Code.LITERAL_SECRET.code or problem.key not in dollars
    }
    return sorted(unique.values(), key=lambda problem: (problem.line or 0, problem.column or 0))


def _of_config(config: Config) -> Iterator[Problem]:
    try:
        default = config.default_store
    except ConfigError:
        return
    if default is None and len(config.names) > 1:
        hint = f'write default_store = "{config.names[0]}" at the top, or name a store in every call'
        yield config.problem(Code.WITHOUT_DEFAULT, "several stores are declared, but no default_store", (), hint=hint)


def _literal_secrets(config: Config, store: str, reading: StoreReading) -> Iterator[Problem]:
    for path, origin in reading.origins.items():
        key = path[-1] if path else None
        value = reading.value(path)
        if origin.has_literal and isinstance(key, str) and is_secret(path) and isinstance(value, str) and value:
            # The store that declares the key; other stores may inherit it.
            owner = origin.place[1] if len(origin.place) > 1 else store
            variable = f"{owner}_{key}".upper()
            hint = f'reference a variable instead: {key} = "${{{variable}}}"'
            part = "a secret" if origin.kind == "literal" else "part of a secret, or its default value"
            yield config.problem(Code.LITERAL_SECRET, f"the file contains {part}", origin.place, hint=hint)


def _without_tls(config: Config, reading: StoreReading) -> Iterator[Problem]:
    backend = reading.values.get("storage_backend")
    if not isinstance(backend, Mapping) or str(backend.get("use_ssl")).lower() not in ("false", "0"):
        return
    endpoint = str(backend.get("endpoint", ""))
    if not is_loopback(endpoint) and ("storage_backend", "endpoint") not in reading.unresolved:
        place = reading.origins["storage_backend", "use_ssl"].place
        origin = reading.origins.get(("storage_backend", "endpoint"))
        # Do not show the value of a variable: the file may be untrusted.
        shown = endpoint if origin is None or origin.variable is None else f"${{{origin.variable}}}"
        message = f"credentials and data go to {shown or 'the storage server'} without TLS"
        yield config.problem(Code.WITHOUT_TLS, message, place, hint="remove use_ssl, or use a server on this machine")


def _catalog_without_tls(config: Config, store: str, reading: StoreReading) -> Iterator[Problem]:
    """Warns if connections to the catalog's server may lack TLS."""
    server = None if reading.store is None else reading.store.metadata_backend.server()
    if server is None or server.address is None or server.tls_hint is None:
        return
    origin = reading.origins.get(("metadata_backend", "host"))
    shown = server.address.host if origin is None or origin.variable is None else f"${{{origin.variable}}}"
    message = f"nothing verifies that the server is {masked(shown, config.secrets)}, which gets the password"
    place = ("stores", store, "metadata_backend") if origin is None else origin.place
    yield config.problem(Code.CATALOG_WITHOUT_TLS, message, place, hint=server.tls_hint)


def _bare_dollars(config: Config, store: str) -> Iterator[Problem]:
    try:
        merged = config.inheritance.merged(store)
    except ConfigError:
        return
    for path, place in merged.places.items():
        text = value_at(merged.values, path)
        if isinstance(text, str) and (name := re.fullmatch(r"\$([A-Za-z_]\w*)(/.*)?", text, re.ASCII)):
            message = "a variable without braces is not resolved"
            rest = "/…" if name[2] else ""
            hint = f'write "${{{name[1]}}}{rest}", or "$${name[1]}{rest}" for a literal dollar sign'
            yield config.problem(Code.BARE_DOLLAR, message, place, hint=hint)
