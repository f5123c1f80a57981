"""Hints for backend settings: what to write instead."""

from __future__ import annotations

import re

from lakeconf.backends.base import Backend
from lakeconf.config.toml_text import toml_value

_PROVIDER = 'write secret_parameters = { provider = "credential_chain" }, or set key_id and secret'


def field_fix(model: type[Backend], name: str) -> str:
    """Says how to write a key, with an example and its meaning.

    Args:
        model: The backend.
        name: The key.
    """
    field = model.model_fields[name]
    meaning = (field.description or "").partition(". ")[0].rstrip(".")
    meaning = meaning[:1].lower() + meaning[1:] if meaning[1:2].islower() else meaning
    if not field.examples:
        return f"set {name}: {meaning}" if meaning else f"choose another {name}"
    return f"write {name} = {toml_value(field.examples[0])}" + (f" ({meaning})" if meaning else "")


def settings_fix(model: type[Backend], section: str, key: str | None, fault: str) -> str:
    """Says how to resolve a conflict of keys.

    Args:
        model: The backend.
        section: The table of the backend, such as `stores.prod.storage_backend`.
        key: The key at which the conflict is reported, if any.
        fault: What is wrong.
    """
    address = re.search(r"such as (\S+://\S+)", fault)
    lacking = re.search(r"without (\w+)", fault)
    if "conflict" in fault and key is not None:
        return f"remove {key}, or the keys that it conflicts with"
    if address is not None and key is not None:
        return f'write {key} = "{address[1]}"'
    named = [*(lacking.groups() if lacking else ()), *([key] if key else re.findall(r"\w+", fault))]
    wanted = next((word for word in named if word in model.model_fields), None)
    return f"change the keys of [{section}]" if wanted is None else field_fix(model, wanted)


def parameter_fix(name: str) -> str:
    """Says how to name a parameter of a secret.

    Args:
        name: The invalid name.
    """
    allowed = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_")
    return f"rename it to {allowed}" if allowed else "remove it"


def credentials_fix(section: str, fault: str) -> str:
    """Says how to make credentials whole.

    Args:
        section: The table of the backend, such as `stores.prod.storage_backend`.
        fault: What is wrong.
    """
    moved = re.match(r"(\w+) is a key of the backend", fault)
    if moved is not None:
        return f"move {moved[1]} from secret_parameters to [{section}]"
    repeated = re.match(r"secret_parameters contain (\w+) twice", fault)
    if repeated is not None:
        return f"remove one {repeated[1]}: upper and lower case are the same"
    if "conflict with secret_parameters.provider" in fault:
        return "remove provider from secret_parameters, or remove key_id and secret"
    if "must contain a provider" in fault:
        return _PROVIDER
    if fault.startswith("incomplete credentials"):
        return "set all of them, or omit them all to use the existing secret that secret_name names"
    return "set all credentials, or omit them all to use the existing secret that secret_name names"
