"""What is allowed in a configuration, and seldom meant."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from lakeconf.backends.secrecy import is_secret
from lakeconf.config.codes import Code
from lakeconf.config.file import Table
from lakeconf.config.inheritance import leaves
from lakeconf.config.load_store import Reading
from lakeconf.config.model import Config, init
from lakeconf.errors import ConfigError, Problem
from lakeconf.secret import masked


def warnings(source: Config | str | os.PathLike[str] | Table | None = None, *stores: str) -> list[Problem]:
    """What is suspicious in a configuration that can be used; connects to nothing.

    Args:
        source: A `Config`, or what `init` takes.
        *stores: The names of the stores to look at; all of them unless given.

    Returns:
        The warnings in the order of the file, each place once; none where the configuration cannot be read.
    """
    try:
        config = source if isinstance(source, Config) else init(source)
        if config.problems:
            return []
    except ConfigError:
        return []
    found = list(_of_config(config))
    for name in stores or config.names:
        reading = config.reading(name)
        found += [
            *_literal_secrets(config, name, reading),
            *_without_tls(config, reading),
            *_without_sslmode(config, reading),
        ]
        found += _bare_dollars(config, name)
    unique = {(one.code, one.key): one for one in found}
    return sorted(unique.values(), key=lambda one: (one.line or 0, one.column or 0))


def _of_config(config: Config) -> Iterator[Problem]:
    try:
        default = config.default_store
    except ConfigError:
        return
    if default is None and len(config.names) > 1:
        hint = f'write default_store = "{config.names[0]}" at the top, or name a store in every call'
        yield config.problem(Code.WITHOUT_DEFAULT, "there are several stores, and none is the default", (), hint=hint)


def _literal_secrets(config: Config, store: str, reading: Reading) -> Iterator[Problem]:
    for path, origin in reading.origins.items():
        key = path[-1] if path else None
        value = reading.value(path)
        if origin.has_literal and isinstance(key, str) and is_secret(path) and isinstance(value, str) and value:
            # The store that the file says it in, which others may extend.
            owner = origin.place[1] if len(origin.place) > 1 else store
            variable = f"{owner}_{key}".upper()
            hint = f'reference a variable instead: {key} = "${{{variable}}}"'
            part = "a secret" if origin.kind == "literal" else "part of a secret, or the default of one,"
            yield config.problem(Code.LITERAL_SECRET, f"{part} is in the file", origin.place, hint=hint)


def _without_tls(config: Config, reading: Reading) -> Iterator[Problem]:
    backend = reading.values.get("storage_backend")
    if not isinstance(backend, Mapping) or str(backend.get("use_ssl")).lower() not in ("false", "0"):
        return
    endpoint = str(backend.get("endpoint", ""))
    if not _is_loopback(endpoint):
        place = reading.origins["storage_backend", "use_ssl"].place
        origin = reading.origins.get(("storage_backend", "endpoint"))
        # The file may be a stranger's: the value of a variable is not repeated.
        known = endpoint if origin is None or origin.variable is None else f"${{{origin.variable}}}"
        message = f"credentials and data go to {known or 'the storage server'} without TLS"
        yield config.problem(
            Code.WITHOUT_TLS, message, place, hint="leave use_ssl out, or use a server on this machine"
        )


def _without_sslmode(config: Config, reading: Reading) -> Iterator[Problem]:
    """Libpq uses TLS if the server offers it, unless sslmode says more: whoever is between them can prevent it."""
    backend = reading.values.get("metadata_backend")
    if reading.store is None or not isinstance(backend, Mapping) or backend.get("type") != "postgres":
        return
    host = str(backend.get("host") or "")
    hosts = [one.strip() for one in host.split(",") if one.strip()]
    parameters = {key.lower(): value for key, value in (backend.get("secret_parameters") or {}).items()}
    if str(parameters.get("sslmode")) in ("require", "verify-ca", "verify-full"):
        return
    # A path is that of a socket on this machine.
    if hosts and not all(one.startswith("/") or _is_loopback(one if ":" not in one else f"[{one}]") for one in hosts):
        place = reading.origins["metadata_backend", "host"]
        known = host if place.variable is None else f"${{{place.variable}}}"
        message = f"the password and the catalog may go to {masked(known, config.secrets)} without TLS"
        hint = 'write secret_parameters = { sslmode = "verify-full", sslrootcert = "system" }'
        yield config.problem(Code.CATALOG_WITHOUT_TLS, message, place.place, hint=hint)


def _bare_dollars(config: Config, store: str) -> Iterator[Problem]:
    try:
        found = list(leaves(config.inheritance.tree(store)))
    except ConfigError:
        return
    for leaf in found:
        if type(leaf.value) is str and (name := re.fullmatch(r"\$([A-Za-z_]\w*)", leaf.value, re.ASCII)):
            message = "a variable is written with braces; without them the text stays as it is"
            hint = f'write "${{{name[1]}}}", or "$${name[1]}" if the dollar is meant'
            yield config.problem(Code.BARE_DOLLAR, message, leaf.place, hint=hint)


def _is_loopback(endpoint: str) -> bool:
    try:
        host = urlsplit(f"//{endpoint}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
