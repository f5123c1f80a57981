"""What `lakeconf init` asks for and writes for a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class InitTemplate:
    """The fields of a backend in a new configuration.

    `lakeconf init` prompts for the fields in this order. The help of a prompt is the description of its field.

    Attributes:
        fields: The default of each field by its name; None if the user must give a value. The default of a secret is a
            variable, such as `${S3_SECRET}`.
        secret_parameters: The `secret_parameters` to write.
        without_parameters: If one of these fields is given, the `secret_parameters` are not written.
    """

    fields: Mapping[str, str | None]
    secret_parameters: Mapping[str, str] = field(default_factory=dict)
    without_parameters: frozenset[str] = frozenset()
