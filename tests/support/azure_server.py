"""A real server of Azure Blob Storage on a free port of loopback: Azurite, which npm installs once into the .venv."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import fcntl
import hashlib
import hmac
import os
import secrets
import shutil
import subprocess
import tempfile
import urllib.request
import xml.etree.ElementTree as ET  # of a server of this test
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest
from server_process import HOST, accepts_connections, free_port, numbers, run_server, wait_until_ready
from source_tree import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AZURITE = "azurite@3.35.0"
_FOLDER = REPOSITORY.resolve() / ".venv" / "azurite"
_PROGRAM = _FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_TIMEOUT_SECONDS = 900
_VERSION = "2021-08-06"
_STEPS = 60.0


@dataclass(frozen=True)
class AzureServer:
    """A running server with one storage account."""

    port: int  # its port on loopback
    log: Path
    account: str
    key: str

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self.port}"

    def create_bucket(self) -> str:
        """Creates an empty container, which S3 calls a bucket, and returns its name."""
        name = f"container-{next(numbers)}"
        self._request("PUT", name, {"restype": "container"})
        return name

    def objects(self, bucket: str, prefix: str = "") -> list[str]:
        """The names of all blobs of a container, sorted."""
        names: list[str] = []
        marker = ""
        while True:
            query = {"comp": "list", "prefix": prefix, "restype": "container"} | ({"marker": marker} if marker else {})
            page = ET.fromstring(self._request("GET", bucket, query))  # noqa: S314
            names += [name.text or "" for name in page.iter("Name")]
            marker = page.findtext("NextMarker") or ""
            if not marker:
                return sorted(names)

    def remove(self, bucket: str, key: str) -> None:
        self._request("DELETE", f"{bucket}/{key}", {})

    def sas_token(self, *, until: dt.timedelta = dt.timedelta(days=1), permissions: str = "racwdl") -> str:
        """A shared access signature of the account, which expires after a time."""
        end = f"{dt.datetime.now(dt.UTC) + until:%Y-%m-%dT%H:%M:%SZ}"
        start, use = "2020-01-01T00:00:00Z", "https,http"
        lines = (self.account, permissions, "b", "sco", start, end, "", use, _VERSION, "", "")
        parts = {"sv": _VERSION, "ss": "b", "srt": "sco", "sp": permissions, "st": start, "se": end, "spr": use}
        return urlencode({**parts, "sig": self._signature("\n".join(lines))})

    def _signature(self, text: str) -> str:
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        return base64.b64encode(digest).decode()

    def _request(self, method: str, resource: str, query: Mapping[str, str]) -> bytes:
        headers = {"x-ms-date": f"{dt.datetime.now(dt.UTC):%a, %d %b %Y %H:%M:%S GMT}", "x-ms-version": _VERSION}
        named = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        path = f"{self.account}/{quote(resource)}"
        asked = "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
        signed = f"{method}{12 * chr(10)}{named}/{self.account}/{path}{asked}"
        headers["Authorization"] = f"SharedKey {self.account}:{self._signature(signed)}"
        url = f"http://{self.endpoint}/{path}?{urlencode(query)}"
        request = urllib.request.Request(url, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=_STEPS) as answer:  # noqa: S310
            content: bytes = answer.read()
        return content


@contextlib.contextmanager
def azure() -> Iterator[AzureServer]:
    """Starts a server with a new account. It checks signatures and permissions, and keeps blobs in memory."""
    program = _installed()
    with tempfile.TemporaryDirectory(prefix="lakeconf-azure-") as name:
        port, log = free_port(), Path(name) / "log"
        account, key = f"lake{secrets.token_hex(4)}", base64.b64encode(secrets.token_bytes(64)).decode()
        options = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
        command = ["node", str(program), "--blobHost", HOST, "--blobPort", str(port), *options]
        environment = os.environ | {"AZURITE_ACCOUNTS": f"{account}:{key}"}
        with log.open("ab") as output, run_server(command, output, env=environment) as process:
            wait_until_ready(process, log, lambda: accepts_connections(port))
            yield AzureServer(port, log, account, key)


def _installed() -> Path:
    """The program of Azurite; skips the test if npm is missing or cannot install it."""
    if not shutil.which("npm"):
        pytest.skip("there is no npm on this machine, which installs Azurite; CI installs one")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at the same time
        if not _PROGRAM.is_file():
            flags = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix", str(_FOLDER)]
            command = ["npm", "install", *flags, _AZURITE]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS)
            if done.returncode != 0 or not _PROGRAM.is_file():
                pytest.skip(f"npm cannot install {_AZURITE}: {done.stderr[-500:]}")
    return _PROGRAM
