"""Translates errors of duckdb to errors of lakeconf, removes secrets, and finds the place of an error in SQL."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakeconf.ducklake import MIGRATE, refused_version
from lakeconf.errors import (
    CatalogError,
    CatalogLockedError,
    CatalogMissingError,
    CatalogVersionError,
    CommitConflictError,
    CommitError,
    ConnectionFailed,
    FileMissingError,
    LakeconfError,
    QueryError,
    SchemaError,
    SnapshotNotFoundError,
    StorageError,
    UnknownNameError,
    UnsupportedError,
)
from lakeconf.secret import Secret, scrub

# A cast that refuses a value raises an error in the query. Its text starts with this word, followed by the reason.
REFUSED_VALUE = "LAKECONF_REFUSED"
_NO_ANSWER = "no answer from the server"
# DuckLake's messages if another commit came first.
_GAVE_UP = re.compile(r"maximum retry count")
_RACE = re.compile(r"(?i)primary key|unique|duplicate|conflict|concurrent|deadlock|ducklake_snapshot")
# What object storage answers to a token that has expired, to DuckDB and to Hadoop.
_EXPIRED = r"\b(ExpiredToken|RequestExpired)"
# Ordered: the first pattern that the message matches decides.
_BY_MESSAGE: tuple[tuple[str, type[LakeconfError], str | None], ...] = (
    (r"^(Catalog|Binder) Error: .* does not exist", UnknownNameError, None),
    (
        r"file system operations are disabled",
        StorageError,
        "read files with store.connect(), or load them first (lakeconf load): such a query reads the lake only",
    ),
    (r"prepared (statement )?parameter", QueryError, "write the value in place of the parameter: SQL takes none"),
    (r"creating a new DuckLake is explicitly disabled", CatalogMissingError, None),
    (
        r"DATA_PATH parameter .* does not match",
        CatalogError,
        "set override_data_path = true in attach_options if you moved or copied all files of the lake to the path of "
        "the store; otherwise use the path of the catalog (docs/operations.md: Move a lake)",
    ),
    (
        r'unrecognized configuration parameter "sqlite_disable_multithreaded_scans"',
        ConnectionFailed,
        "update DuckDB's extension sqlite_scanner, which reads a catalog in more than one state: pip install "
        "--upgrade 'lakeconf[bundled]', or FORCE INSTALL sqlite_scanner in DuckDB",
    ),
    (r"No snapshot found at ", SnapshotNotFoundError, "list the snapshots: lake.snapshots(), or lakeconf snapshots"),
    (r"catalog version|AUTOMATIC_MIGRATION|DuckLake Extension .* requires", CatalogError, None),
    (
        r"exists, but it is not a valid DuckDB database|file is not a database|not an error",
        CatalogError,
        "check `type` and `uri` of the metadata backend: the file is not a catalog of this type",
    ),
    (
        r"optional pointer that is not set|Lists must have a single child entry",
        CatalogError,
        "run `lakeconf doctor`: a column in the catalog may have lost its fields",
    ),
    (r"disk image is malformed", CatalogError, "restore the catalog from a backup: its file is damaged"),
    (r"database or disk is full", CatalogError, "free space and try again: the disk of the catalog file is full"),
    (
        r"Read-only file system",
        StorageError,
        "open the lake with read_only=True, or set read_only = true in attach_options: its file system is read-only",
    ),
    (
        r"readonly database|disk I/O error",
        CatalogError,
        "check permissions and free disk space: the catalog file or its folder cannot be written",
    ),
    (
        r"\A[^\n]*(Failed to download extension|automatically install the required extension|IO Error: Extension \")",
        ConnectionFailed,
        "run INSTALL for this extension in DuckDB where its extension server can be reached; for extensions that a "
        "store needs, pip install 'lakeconf[bundled]' is enough",
    ),
    (
        r"ALTER on a table with transaction-local inlined data is not supported",
        UnsupportedError,
        "change the nested field first, or commit the rows first: the transaction has written them to the catalog",
    ),
    # Patterns for errors that name a file come before patterns for whole sentences, because a file can have any name.
    (
        r"certificate.* for HTTP",
        StorageError,
        "set `ca_cert_file` of the storage backend for a private certificate authority",
    ),
    (
        rf"{_EXPIRED}|token (included in the request )?(is|has) expired",
        StorageError,
        "renew the credentials, which have expired, and open the lake again",
    ),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken",
        StorageError,
        "check key_id, secret and session_token of the storage backend",
    ),
    (
        r"Secret Validation Failure",
        StorageError,
        'set key_id = "${AWS_ACCESS_KEY_ID}" and secret in the storage backend, or the variables of the process: the '
        "provider has found no credentials",
    ),
    (
        r"failed with (code ')?ContainerNotFound",
        StorageError,
        "create the container, or check `account`, `container` and `endpoint`",
    ),
    (r"failed with (code ')?(BlobNotFound|PathNotFound|ResourceNotFound)", FileMissingError, None),
    (
        r"failed with (code ')?AuthorizationPermissionMismatch",
        StorageError,
        "permit this on the container to the credentials of the storage backend, or use other credentials",
    ),
    (
        r"failed with (code ')?(Auth[a-z]+(Failure|Failed)|InvalidAuthenticationInfo|NoAuthenticationInformation)"
        r"|\bof Base64 encoded string|\AInvalid Input Error: A invalid connection string",
        StorageError,
        "check account_key, sas_token or secret_parameters of the storage backend: they are wrong or too old",
    ),
    (
        r"Fail to get a new connection for: https?:",
        StorageError,
        "check that the storage server is running, and check `account`, `endpoint` and `use_ssl`",
    ),
    (r"NoSuchBucket", StorageError, "create the bucket, or check `bucket`, `region` and `endpoint`"),
    (r"HTTP (code )?404", FileMissingError, None),
    (
        r"HTTP (code )?403",
        StorageError,
        "permit this on the bucket to the credentials of the storage backend, or use other credentials",
    ),
    (r"HTTP (code )?(503|429|500)", StorageError, "try again later: the storage server is overloaded or failing"),
    (
        r"error for HTTP [A-Z]+ to",
        StorageError,
        "check that the storage server is running, and check `endpoint` and `use_ssl`",
    ),
    (r"No space left|File too large", StorageError, "free space and try again: the disk is full"),
    (
        r"Unique file handle conflict",
        ConnectionFailed,
        "close the lake with this catalog first: this process has its file open; or use SQLite or Postgres",
    ),
    (r"database is locked", CatalogLockedError, "try again: another process is writing"),
    (
        r"Could not set lock on file",
        ConnectionFailed,
        "close it there: one process can open a DuckDB file, or several with read_only=True; or use a catalog in "
        "SQLite or PostgreSQL, which several processes can write to",
    ),
    (
        r"password authentication failed|no password supplied",
        ConnectionFailed,
        "check `user` and `password` of the metadata backend, or what its `password_command` prints",
    ),
    (r"FATAL: +database .* does not exist", ConnectionFailed, "create the database, or check `database`"),
    (
        r"Unable to connect to Postgres|could not connect|connection to server|Connection refused"
        r"|server closed the connection|SSL (error|connection)|Could not establish connection"
        rf"|terminating connection|could not receive data|could not send data|{_NO_ANSWER}",
        ConnectionFailed,
        "check that the server is running, and check `host` and `port` of the metadata backend",
    ),
    # A statement on the catalog's tables that runs before COMMIT, such as in a flush of inlined rows.
    (r"could not serialize access", CatalogLockedError, "try again: another process is writing"),
    (
        # At the statement, or at the commit if two writers create it at the same time.
        r"\ACatalog Error: (Table|View|Schema) with name .* already exists!|attempting to create (table|view|schema) "
        r"|Cannot rename table .*, since .* already exists",
        CommitConflictError,
        "call lake.refresh() and use what exists, which another writer may have created, or choose another name",
    ),
    (r"[Cc]onflict|has been altered by another|attempting to .* another transaction", CommitConflictError, None),
    (r"Failed to (attach|probe|initialize|load|migrate) DuckLake", CatalogError, None),
    (r"Failed to commit", CommitError, None),
    (r"HTTP|No such file|No files found|Permission denied|Cannot open file|Cannot write to", StorageError, None),
)
_BY_CLASS: dict[str, type[LakeconfError]] = {
    "HTTPException": StorageError,
    "IOException": StorageError,
    "PermissionException": StorageError,
    "ConnectionException": ConnectionFailed,
    "TransactionException": CommitError,
    "ConstraintException": SchemaError,
    "ConversionException": SchemaError,
    "TypeMismatchException": SchemaError,
    "OutOfRangeException": SchemaError,
}
# The errors of duckdb and Arrow if a frame or function written in Python is interrupted. Values of the data never occur
# in these places.
_INTERRUPTED = re.compile(
    r"(?s)\A(Invalid Input Error: Python exception occurred while executing the UDF: )?KeyboardInterrupt: "
    r"|Detail: Python exception: Traceback \(most recent call last\):.*\nKeyboardInterrupt(: [^\n]*)?\s*\Z"
)
# The same for `sys.exit()`.
_EXITED = re.compile(
    r"(?s)\A(Invalid Input Error: Python exception occurred while executing the UDF: )?SystemExit: (?P<udf>[^\n]*)"
    r"|Detail: Python exception: Traceback \(most recent call last\):.*\nSystemExit(: (?P<code>[^\n]*))?\s*\Z"
)
# Messages of SQLite and of PostgreSQL's client that contain no value of the statement.
_WITHOUT_VALUES = re.compile(
    r"(database( table)? is locked|disk I/O error|database or disk is full|attempt to write a readonly database"
    r"|database disk image is malformed|unable to open database file|file is not a database|not an error|interrupted"
    r"|(UNIQUE|PRIMARY KEY|NOT NULL) constraint failed: [\w., ]+|no such table: \w+"
    r"|(server closed the connection|SSL (error|connection)|could not (connect|receive data|send data)"
    r"|terminating connection|no connection to the server|connection to server)[^\n\"]*)"
)
# DuckDB proposes options of its reader, and shows all its settings.
_CSV = re.compile(r"(?s)\A(?P<what>[A-Z][A-Za-z ]+: CSV Error on Line.*?)\n\s*\n.*?\n\s*file = (?P<file>[^\n]*)")
_POSITION = "lakeconf_position"


@contextlib.contextmanager
def translated_errors(secrets: Iterable[Secret] = ()) -> Iterator[None]:
    """Translates errors of duckdb to errors of lakeconf, and removes `secrets` from them."""
    try:
        yield
    except BaseException as error:
        translated = translation(error, secrets)
        if translated is None:
            raise
        raise translated from error


def mentions(error: LakeconfError, text: str) -> bool:
    """True if the message of an error names a file or a table: such errors of DuckDB have no other place for it."""
    return text in error.message


def translation(error: BaseException, secrets: Iterable[Secret]) -> BaseException | None:
    """The error to raise in place of one of duckdb, without `secrets`; None for any other error."""
    import duckdb

    if not isinstance(error, duckdb.Error):
        return KeyboardInterrupt() if isinstance(error, RuntimeError) and is_interrupt(error) else None
    error.args = (_scrubbed(str(error), secrets),)
    if _INTERRUPTED.search(str(error)):
        return KeyboardInterrupt()
    ended = _EXITED.search(str(error))
    return _translate(error) if ended is None else SystemExit(_exit_code(ended["udf"] or ended["code"] or ""))


@contextlib.contextmanager
def errors_of_arrow() -> Iterator[None]:
    """Raises DuckDB's error in place of Arrow's, which has its message but not its class, while rows are streamed."""
    import duckdb

    try:
        yield
    except OSError as error:
        classes = {name.lower(): name for name in dir(duckdb) if name.endswith("Exception")}
        kind = str(error).partition(" Error: ")[0].replace(" ", "").lower()
        raise getattr(duckdb, classes.get(f"{kind}exception", "Error"))(str(error)) from None


def _exit_code(text: str) -> int | str | None:
    """The argument of `sys.exit()`."""
    if text in ("", "None"):
        return None
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def is_interrupt(error: BaseException) -> bool:
    """True for an exception that a signal such as Ctrl-C raises, inside or outside a query."""
    # duckdb raises this instead of the exception of the signal handler.
    of_duckdb = isinstance(error, RuntimeError) and str(error) == "Query interrupted"
    return of_duckdb or isinstance(error, KeyboardInterrupt)


def _without_statement(text: str) -> str:
    """An error of PostgreSQL without the statement, which contains encryption keys and bounds of the data."""
    cut = re.sub(r"(\bquery \").*(\": (ERROR|FATAL|PANIC):)", r"\1…\2", text, flags=re.DOTALL)
    if cut == text:
        reason = _WITHOUT_VALUES.match(text.rpartition('": ')[2])
        # If a connection breaks while another statement waits, the next error has no reason.
        shown = f'…": {reason[0]}' if reason else f'…": {_NO_ANSWER}' if text.endswith('": ') else '…"'
        return re.sub(r"(Failed to [a-z ]*query \").*", lambda match: match[1] + shown, text, flags=re.DOTALL)
    cut = re.sub(r"\nLINE \d+: [^\n]*(\n *\^)?", "", cut)
    return re.sub(r"\nDETAIL: [^\n]*", "", cut)


def _scrubbed(text: str, secrets: Iterable[Secret]) -> str:
    # An internal error of DuckDB ends with a page of addresses.
    text = _without_statement(text.partition("\n\nStack Trace:")[0])
    # A connection string in an error contains the password in plain text.
    text = re.sub(r"(password\s*=\s*)('[^']*'|\S+)", r"\1***", scrub(text, secrets))
    return re.sub(r"(://[^\s:/@]*:)[^\s@/]+@", r"\1***@", text)


def _of_server(text: str) -> str | None:
    """The message of PostgreSQL or its client about a failed connection; None for any other error."""
    unknown = re.search(r'could not translate host name "([^"]*)" to address: ([^\n]*)', text)
    if unknown is not None:
        return f"the host {unknown[1]} of PostgreSQL cannot be resolved: {unknown[2]}"
    tried = [
        (f"{server}:{port}" if port else server, reason)
        for server, port, reason in re.findall(
            r'connection to server (?:at|on socket) "([^"]*)"(?: \([^)]*\))?(?:, port (\d+))? failed: ([^\n]*)', text
        )
    ]
    if not tried:
        return None
    servers, (_, reason) = ", ".join(dict.fromkeys(server for server, _ in tried)), tried[-1]
    if "Connection refused" in reason:
        return f"PostgreSQL at {servers} refused the connection"
    return f"PostgreSQL at {servers} cannot be used: {reason}"


def refused_value(text: str) -> SchemaError | None:
    """The error for a value that a cast refused."""
    _, marker, reason = text.partition(REFUSED_VALUE)
    if not marker:
        return None
    return SchemaError(reason.splitlines()[0].strip(), hint="change the values or the type of the column")


def _translate(error: Exception) -> LakeconfError:
    text = str(error)
    refused = refused_value(text) if text.startswith(f"Invalid Input Error: {REFUSED_VALUE}") else None
    translated = refused or _classified(error, text)
    translated.overtaken = bool(_GAVE_UP.search(translated.message) and _RACE.search(translated.message))
    return translated


def _classified(error: Exception, text: str) -> LakeconfError:
    version = refused_version(text)
    if version is not None:
        refused = CatalogVersionError(version)
        refused.can_migrate = version.endswith(MIGRATE)
        return refused
    csv = _CSV.match(text)
    if csv is not None:
        fix = "change the file: it needs UTF-8, and for each column one value of its type in each line"
        return SchemaError(f"{csv['file']}: {csv['what']}", hint=fix)
    for pattern, error_class, hint in _BY_MESSAGE:
        if re.search(pattern, text):
            message = _of_server(text) if error_class is ConnectionFailed else None
            return error_class(message or text, hint=hint)
    return _BY_CLASS.get(type(error).__name__, QueryError)(text)


def failed_before_commit(error: CommitError) -> bool:
    """True if a staged commit failed while DuckLake wrote its changes, before it sent COMMIT."""
    return "Failed to flush changes into DuckLake" in error.message


def read_json(error: Exception) -> None:
    """Gives an error that DuckDB wrote as JSON its text, and keeps its place for `place_of`."""
    report = reported(str(error))
    if report is not None:
        error.args = (f"{report.kind}: {report.message}" if report.kind else report.message,)
        setattr(error, _POSITION, report.position)


def place_of(error: BaseException) -> int | None:
    """The place that DuckDB found for an error, as an offset in bytes; None if it is unknown."""
    position = getattr(error.__cause__, _POSITION, None)
    return position if isinstance(position, int) else None


class Reported(NamedTuple):
    """An error that DuckDB wrote as JSON."""

    kind: str  # its kind, such as `Parser Error`; empty for some errors of Python
    message: str
    position: int | None  # its place in the SQL, as an offset in bytes; None for errors of values, such as an overflow


def reported(text: str) -> Reported | None:
    """Reads the text of an error of DuckDB; None if it is no JSON."""
    kind, _, data = ("", "", text[1:]) if text.startswith("{") else text.partition(": {")
    try:
        fields = json.loads("{" + data)
        message, position = str(fields["exception_message"]), str(fields.get("position"))
    except (ValueError, KeyError, TypeError):
        return None
    return Reported(kind, message, int(position) if position.isdecimal() else None)


def has_expired(text: str) -> bool:
    """True if an error names storage's answer to credentials that have expired."""
    return re.search(_EXPIRED, text) is not None
