"""Catalogs in a PostgreSQL database."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ValidatorFunctionWrapHandler, WrapValidator, model_validator

from lakeconf.backends.backend import (
    ALL_CREDENTIALS,
    ANY_CREDENTIALS,
    MetadataBackend,
    Role,
    SecretName,
    SecretParameters,
    StoreNames,
    Text,
    described,
    fault,
)
from lakeconf.backends.metadata.password_command import DEFAULT_TTL, PasswordFile
from lakeconf.backends.server import DEFAULT_SCHEMA, CatalogServer, ServerAddress
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.secret import Secret
from lakeconf.sql import CreateSecret, Value, identifier, literal

# https://www.postgresql.org/docs/current/libpq-envars.html: variables with credentials or their location.
_REMOVED = ("PGPASSWORD", "PGSERVICE", "PGSYSCONFDIR", "PGSSLPASSWORD")
# A path below a device: nobody can create it.
_NO_FILE = os.path.join(os.devnull, "lakeconf")
_REPLACED = ("PGPASSFILE", "PGSERVICEFILE")
DEFAULT_PORT = 5432


@contextlib.contextmanager
def hidden_credentials() -> Iterator[None]:
    """Hides the passwords of this process and its user from libpq, so that SQL cannot send them to a server.

    It changes the environment of the whole process, and restores it at the end.
    """
    before = {name: os.environ.get(name) for name in (*_REMOVED, *_REPLACED)}
    for name in _REMOVED:
        os.environ.pop(name, None)
    for name in _REPLACED:
        os.environ[name] = _NO_FILE
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def default_password(host: str, port: int, database: str, user: str) -> str | None:
    """The password that libpq would use for a connection without a configured password."""
    password = os.environ.get("PGPASSWORD")
    if password:
        return password
    path = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if path.stat().st_mode & 0o077 or not path.is_file():
            return None  # like libpq, ignore a file that others can read
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    login = (host, str(port), database, user)
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", field) for field in re.split(r"(?<!\\):", line)]
        if len(fields) == 5 and all(field in ("*", value) for field, value in zip(fields, login, strict=False)):
            return fields[4]
    return None


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.split(command) if isinstance(command, str) else command)


def _checked_command(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    # The errors of pydantic name the types, one for each.
    with contextlib.suppress(ValueError):
        command = check(value)
        if any(_words(command)[:1]):
            return command
    message = "must be a program with its arguments, all of them strings that are not empty, without control characters"
    raise fault(message, hint='write password_command = ["program", "argument"]')


Command = Annotated[Text | list[Text], WrapValidator(_checked_command)]


class PostgresMetadata(MetadataBackend):
    """A catalog in PostgreSQL, for concurrent reads and writes from several machines."""

    type: Literal["postgres"] = "postgres"
    secret_name: SecretName | None = None
    host: Annotated[Text | None, described("Host name or address of the server.", example="${PGHOST}")] = None
    port: Annotated[int | None, described("Port of the server; default 5432.", example=5432, ge=1, le=65535)] = None
    database: Annotated[Text | None, described("Name of the database.", example="lake")] = None
    user: Annotated[Text | None, described("Name of the role.", example="lake")] = None
    password: Annotated[
        Secret | None,
        described(
            "Password of the role; use a variable, such as `${LAKE_PG_PASSWORD}`.", example="${LAKE_PG_PASSWORD}"
        ),
    ] = None
    password_command: Annotated[
        Command | None,
        described(
            "Command that prints the password, in place of `password`; it runs without a shell.",
            example=["aws", "rds", "generate-db-auth-token", "--hostname", "…"],
        ),
    ] = None
    password_ttl: Annotated[
        int | None,
        described("Seconds after which the command runs again; default 600.", example=DEFAULT_TTL, ge=1, le=86_400),
    ] = None
    metadata_schema: Annotated[
        Text,
        described("Schema of the catalog's tables; stores with different schemas are separate lakes.", example="lake"),
    ] = DEFAULT_SCHEMA
    secret_parameters: SecretParameters = {}

    @model_validator(mode="after")
    def _credentials_are_whole(self) -> Self:
        present = [name for name in ("host", "database", "user") if getattr(self, name) is not None]
        missing = [name for name in ("host", "database", "user") if getattr(self, name) is None]
        if present and missing:
            message = f"incomplete credentials: {', '.join(present)} without {', '.join(missing)}"
            raise fault(message, *present, hint=ALL_CREDENTIALS, credentials=True)
        if present:
            return self
        for name in ("password", "password_command", "port"):
            if getattr(self, name) is not None:
                message = f"incomplete credentials: {name} without host, database and user"
                raise fault(message, name, hint=ALL_CREDENTIALS, credentials=True)
        if self.secret_parameters:
            message = "secret_parameters need host, database and user: lakeconf does not change existing secrets"
            raise fault(message, "secret_parameters", hint=ANY_CREDENTIALS, credentials=True)
        if self.secret_name is None:
            message = "no credentials: set host, database and user, or the secret_name of an existing secret"
            raise fault(message, hint=ANY_CREDENTIALS, credentials=True)
        return self

    @model_validator(mode="after")
    def _command_is_the_only_password(self) -> Self:
        if self.password_command is None:
            if self.password_ttl is not None:
                raise fault("password_ttl without password_command", "password_ttl", hint="remove password_ttl")
            return self
        if self.has_fixed_password:
            message = "password_command conflicts with password and passfile: set only one of them"
            hint = "remove password, or password_command"
            raise fault(message, "password_command", "password", hint=hint, credentials=True)
        return self

    @property
    def has_fixed_password(self) -> bool:
        """True if the configuration has a password or a file of passwords."""
        return self.password is not None or not {"password", "passfile"}.isdisjoint(
            map(str.lower, self.secret_parameters)
        )

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("postgres_scanner",)

    def secrets(self, names: StoreNames) -> tuple[CreateSecret, ...]:
        if self.host is None:
            return ()
        fields = ("host", "port", "database", "user", "password")
        credentials = {name: value for name in fields if (value := getattr(self, name)) is not None}
        options = credentials | self.secret_parameters
        server = self.server().address
        if self.password_command is not None and server is not None:
            command, ttl = _words(self.password_command), self.password_ttl or DEFAULT_TTL
            # The client prefers PGPASSWORD to the file, unless there is a password, even an empty one.
            options |= {"port": server.port, "password": "", "passfile": PasswordFile(command, ttl, server)}
        key = f"stores.{names.store}.metadata_backend"
        return (CreateSecret(self.secret_name or names.metadata_secret, "postgres", options, key=key),)

    def ducklake_options(self, names: StoreNames) -> Mapping[str, Value]:
        return {
            "metadata_path": "",
            "metadata_schema": self.metadata_schema,
            "metadata_parameters": {"TYPE": "postgres", "SECRET": self.secret_name or names.metadata_secret},
        }

    def with_own_credentials(self) -> Self:
        own = self.has_fixed_password or self.password_command is not None
        if own or self.host is None or self.database is None or self.user is None:
            return self
        password = default_password(self.host, self.port or DEFAULT_PORT, self.database, self.user)
        return self if not password else self.model_copy(update={"password": Secret(password)})

    def server(self) -> CatalogServer:
        parameters = {key.lower(): value for key, value in self.secret_parameters.items()}
        address = None
        if self.host is not None and self.database is not None and self.user is not None:
            address = ServerAddress(self.host, self.port or DEFAULT_PORT, self.database, self.user)
        return CatalogServer(
            name=f"secret {self.secret_name}",
            address=address,
            secret=self.secret_name,
            verifies_server=parameters.get("sslmode") == "verify-full",
        )

    def grants(self, role: Role, name: str) -> str:
        address = self.server().address
        if address is None:
            raise UnsupportedError(
                f"the store refers to the secret {self.secret_name}: it is not known which role owns the catalog",
                hint="set host, database and user in the metadata backend",
            )
        if name == address.user:
            raise LakeconfError(
                f"the role {name!r} owns the catalog already: it needs no grants", hint="name another role: --to NAME"
            )
        grantee, owner, database = identifier(name), identifier(address.user), identifier(address.database)
        schema = identifier(self.metadata_schema)
        lines = [f"-- A new role: CREATE ROLE {grantee} LOGIN; then \\password {grantee}"]
        lines.append(f"GRANT CONNECT ON DATABASE {database} TO {grantee};")
        if role == "reader":
            lines += (
                f"GRANT USAGE ON SCHEMA {schema} TO {grantee};",
                f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {grantee};",
                f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema}",
                f"    GRANT SELECT ON TABLES TO {grantee};",
            )
        else:
            # Each commit changes all tables of the catalog, and DuckLake creates and drops tables of inlined rows. With
            # one owner, every role can read and drop them.
            lines.append(f"GRANT {owner} TO {grantee};")
            lines.append(f"ALTER ROLE {grantee} IN DATABASE {database} SET role = {literal(address.user)};")
        return "\n".join(lines)
