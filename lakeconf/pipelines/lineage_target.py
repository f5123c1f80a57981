"""Where OpenLineage events go: a file, or a server.

Source: https://openlineage.io/docs/client/python. The variables are those of its clients: OPENLINEAGE_URL,
OPENLINEAGE_ENDPOINT and OPENLINEAGE_API_KEY.
"""

from __future__ import annotations

import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from lakeconf.errors import LakeconfError

URL_VARIABLE = "OPENLINEAGE_URL"
_ENDPOINT = "api/v1/lineage"
_SECONDS = 5.0
# A server that does not answer must not delay each model of a long run.
_MAX_FAILURES = 3


class EventTarget(Protocol):
    """Receives events."""

    def send(self, event: bytes) -> None:
        """Sends an event as JSON in one line.

        Raises:
            LakeconfError: The event is lost; the message contains no secret.
        """
        ...

    def close(self) -> None:
        """Ends the use of the target."""
        ...


class EventFile:
    """A file to which events are appended.

    Args:
        path: The file.

    Raises:
        LakeconfError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise LakeconfError(f"{path} cannot be written: {error.strerror}", hint="choose another file") from error

    def send(self, event: bytes) -> None:
        try:
            self._file.write(event + b"\n")
        except OSError as error:
            raise LakeconfError(str(error.strerror)) from error

    def close(self) -> None:
        self._file.close()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class EventServer:
    """A server that receives events by HTTP.

    Args:
        url: The URL of the server, without the endpoint.
        endpoint: The path to which events are posted.
        api_key: Authorizes the requests; None to send none.

    Raises:
        LakeconfError: The URL is invalid, or contains credentials.
    """

    def __init__(self, url: str, endpoint: str = _ENDPOINT, api_key: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            shown = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        except ValueError as error:
            raise _invalid("the URL of the OpenLineage server is invalid") from error
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment or not url.isprintable():
            raise _invalid("the URL of the OpenLineage server has credentials, a query or no host")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise _invalid("OPENLINEAGE_API_KEY contains characters that a header cannot contain")
        self._shown = shown
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
        self._request = urllib.request.Request(  # noqa: S310 - `event_target` permits http and https only
            f"{url.rstrip('/')}/{endpoint.lstrip('/')}", headers=headers, method="POST"
        )
        # A redirect would send the key to another server.
        self._opener = urllib.request.build_opener(_NoRedirects())
        self._failures = 0

    def send(self, event: bytes) -> None:
        if self._failures >= _MAX_FAILURES:
            raise LakeconfError(f"{self._shown} failed {_MAX_FAILURES} times, and nothing more is sent to it")
        # The limit of a connection is one for each part of an answer, which a server could send byte by byte.
        failures = [_reason(TimeoutError())]
        thread = threading.Thread(target=self._post, args=(event, failures), daemon=True)
        thread.start()
        thread.join(_SECONDS)
        for failure in failures[:1]:
            self._failures += 1
            raise LakeconfError(f"{self._shown} {failure}")
        self._failures = 0

    def _post(self, event: bytes, failures: list[str]) -> None:
        """Sends an event, and replaces the content of the list by the reason of the failure, if there is one."""
        try:
            with self._opener.open(self._request, event, _SECONDS):
                failures[:] = []
        except (OSError, http.client.HTTPException, ValueError) as error:
            failures[:] = [_reason(error)]
            if isinstance(error, urllib.error.HTTPError):
                error.close()

    def close(self) -> None:
        """Each request has its own connection."""


def event_target(target: str, environment: Mapping[str, str]) -> EventTarget:
    """Returns a server for a URL, or else a file.

    Args:
        target: A URL that begins with http:// or https://, or a path.
        environment: The variables of the process.

    Raises:
        LakeconfError: The file cannot be written, or the URL is invalid.
    """
    if not target.lower().startswith(("http://", "https://")):
        return EventFile(Path(target))
    endpoint = environment.get("OPENLINEAGE_ENDPOINT") or _ENDPOINT
    return EventServer(target, endpoint, environment.get("OPENLINEAGE_API_KEY") or None)


def _invalid(message: str) -> LakeconfError:
    hint = "write https://host:port, and the key of the server in OPENLINEAGE_API_KEY"
    return LakeconfError(message, hint=hint)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"answered HTTP {error.code}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    # Only the class: the text of an error can contain the URL.
    return f"does not answer ({type(cause if isinstance(cause, Exception) else error).__name__})"
