"""The types of fields that backends share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from lakeconf.backends.secrecy import guard_parameters
from lakeconf.logs import escaped
from lakeconf.secret import Secret
from lakeconf.sql import Value

_REFERENCE = "Name of the DuckDB secret. Without credentials, the name of an existing secret."
_CHAIN = {"provider": "credential_chain"}


def _no_control(text: str) -> str:
    # A line break would add a line to files that lakeconf writes for other tools.
    if escaped(text) != text:
        raise ValueError("must not contain control characters, such as line ends")
    return text


def _option_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("the name of an option must contain only letters, digits and underscores")
    return text


def _secret_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("the name of a secret must contain only letters, digits and underscores")
    if text.lower().startswith("lakeconf_"):
        raise ValueError("names that start with lakeconf_ are reserved for secrets that lakeconf creates")
    return text


Text = Annotated[str, Field(min_length=1), AfterValidator(_no_control)]
OptionName = Annotated[str, AfterValidator(_option_name)]
SecretName = Annotated[
    str,
    AfterValidator(_secret_name),
    Field(examples=["lake_secret"], description=_REFERENCE),
]
ParameterValue = bool | int | float | Text | list[Text] | dict[str, Text]


def _guard_checked(value: Any, check: ValidatorFunctionWrapHandler) -> dict[str, Value]:
    # pydantic returns plain strings, but a secret must keep the name of its variable.
    check(_plain(value))
    return guard_parameters(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.reveal() if isinstance(value, Secret) else value


SecretParameters = Annotated[
    dict[OptionName, ParameterValue],
    WrapValidator(_guard_checked),
    Field(examples=[_CHAIN], description="Additional parameters of DuckDB's CREATE SECRET."),
]
