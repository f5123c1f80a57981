"""Decides which configured values may be shown: those on a list. All others are secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lakeconf.errors import LakeconfError
from lakeconf.secret import Secret
from lakeconf.sql import Value

# Parameters of DuckDB secrets that contain no credentials. `refresh_info` is a table, whose keys are checked as well.
# Source: https://duckdb.org/docs/stable/core_extensions/httpfs/s3api, …/aws, …/azure and …/postgres
READABLE_PARAMETERS = frozenset(
    {
        *("account_id", "assume_role_arn", "chain", "endpoint", "key_id", "kms_key_id", "profile", "provider"),
        *("refresh", "refresh_info", "region", "requester_pays", "scope", "url_compatibility_mode", "url_style"),
        *("use_ssl", "validation", "verify_ssl"),
        *("application_name", "connect_timeout", "database", "dbname", "host", "hostaddr", "port", "user"),
        *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "passfile", "sslcert"),
        *("sslmode", "sslrootcert", "target_session_attrs", "tcp_user_timeout"),
        *("client_certificate_path", "client_id", "object_id", "resource_id", "tenant_id"),
    }
)
READABLE_META_OPTIONS = frozenset({"meta_busy_timeout", "meta_journal_mode", "meta_schema"})
_SECRET_KEY = re.compile(r"secret|password|passphrase|token|credential|headers|sslkey|key$", re.IGNORECASE)
_NOT_SECRET_KEY = re.compile(
    r"^(key_id|kms_key_id|password_command|password_ttl|secret_name|secret_parameters)$", re.IGNORECASE
)
_USERINFO = re.compile(r"://[^/\s]*@|\b(password|passwd|pwd)\s*=", re.IGNORECASE)
# A token in the query of a URI, such as the signature of a shared access signature of Azure.
_SIGNED = re.compile(r"[?&][^=&\s]*(sig|token|secret|credential|key)[^=&\s]*=", re.IGNORECASE)
_IN_STORE = "remove it from the URI: the storage backend of the store has the credentials"


def is_secret(path: Sequence[str]) -> bool:
    """True if the value at a path in a store's table is a secret."""
    if not path:
        return False
    section, *below = path
    if section == "attach_options":
        return bool(below) and _is_secret_option(below[0])
    if len(below) > 1:
        return below[0] != "secret_parameters" or not all(is_readable_parameter(key) for key in below[1:])
    return is_secret_key(path[-1])


def is_secret_key(key: str) -> bool:
    """True if the name of a backend's key implies a secret value, such as `password`."""
    return bool(_SECRET_KEY.search(key)) and not _NOT_SECRET_KEY.match(key)


def is_readable_parameter(key: str) -> bool:
    """True if a parameter of CREATE SECRET contains no credentials."""
    return key.lower() in READABLE_PARAMETERS


def guard_parameters(parameters: Mapping[str, Any]) -> dict[str, Value]:
    """Wraps all parameters of CREATE SECRET in `Secret`, at every depth, unless their key may be shown."""
    return {key: _guarded(value, readable=is_readable_parameter(key)) for key, value in parameters.items()}


def guard_options(options: Mapping[str, Any]) -> dict[str, Value]:
    """Wraps ATTACH options that are passed to the catalog's database in `Secret`, unless their key may be shown."""
    return {key: _guarded(value, readable=not _is_secret_option(key)) for key, value in options.items()}


def holds_credentials(key: str, text: str) -> bool:
    """True if a value that is shown contains a user or a password, as in `scheme://user:password@host`."""
    is_token = key == "database" and "motherduck_token=" in text
    return is_token or bool(_USERINFO.search(text)) or (key in ("host", "endpoint", "account_id") and "@" in text)


def place_fault(place: str) -> str | None:
    """What is wrong with a URI that has credentials, which messages and plans would show; None for other places."""
    if "://" in place and (holds_credentials("", place) or _SIGNED.search(place)):
        return "the URI contains a user, a password or a token"
    return None


def check_place(place: str) -> None:
    """Raises an error for a URI with credentials."""
    wrong = place_fault(place)
    if wrong is not None:
        raise LakeconfError(wrong, hint=_IN_STORE)


def _is_secret_option(key: str) -> bool:
    name = key.lower()
    return (name.startswith("meta_") and name not in READABLE_META_OPTIONS) or is_secret_key(name)


def _guarded(value: Any, *, readable: bool) -> Value:
    if isinstance(value, Mapping):
        # Nothing below a hidden key may be shown.
        return {key: _guarded(item, readable=readable and is_readable_parameter(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_guarded(item, readable=readable) for item in value]
    # A boolean reveals nothing, and an empty string is refused elsewhere.
    if readable or isinstance(value, bool | Secret) or value == "":
        return value  # type: ignore[no-any-return]
    return Secret(str(value), variable=getattr(value, "variable", None))
