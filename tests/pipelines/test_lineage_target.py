"""Targets of OpenLineage events: files, and servers that answer, fail, redirect or do not exist."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.cli.app import run as run_command
from lakeconf.errors import LakeconfError
from lakeconf.pipelines import openlineage
from lakeconf.pipelines.openlineage import EventFile, EventServer, event_target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "planted-api-key"


class Server(ThreadingHTTPServer):
    """Records requests, and answers each with the same status."""

    status = 201
    location: str | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(self.server.status)
        if self.server.location is not None:
            self.send_header("Location", self.server.location)
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the name that the handler looks for

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def model(project: Path) -> Path:
    with (project / "lakeconf.toml").open("a") as file:
        file.write('\n[pipeline.models."marts.one"]\nsql = "one.sql"\n')
    (project / "one.sql").write_text("SELECT 1 AS n")
    return project


def test_run_sends_its_events_to_a_server(
    server: Server, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", KEY)
    assert run_command(["run", "--openlineage", f"{server.url}/"]) == 0
    assert [(path, key, event["eventType"]) for path, key, event in server.requests] == [
        ("/api/v1/lineage", f"Bearer {KEY}", "START"),
        ("/api/v1/lineage", f"Bearer {KEY}", "COMPLETE"),
    ]
    shown = capsys.readouterr()
    assert KEY not in f"{shown}{server.requests[0][2]}"
    assert not (model / "http:").exists()


def test_variables_of_openlineage_name_the_server(server: Server, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", server.url)
    monkeypatch.setenv("OPENLINEAGE_ENDPOINT", "/events")
    assert run_command(["run"]) == 0
    assert [(path, key) for path, key, _ in server.requests] == [("/events", None)] * 2
    monkeypatch.setenv("OPENLINEAGE_URL", "")
    assert run_command(["run", "--rebuild", "--yes"]) == 0
    assert len(server.requests) == 2
    assert run_command(["run", "--rebuild", "--yes", "--openlineage", "events.json"]) == 0
    assert len((model / "events.json").read_text().splitlines()) == 2


def test_failing_server_does_not_fail_the_run(
    server: Server,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", KEY)
    server.status = 500
    assert run_command(["run", "--openlineage", server.url]) == 0
    assert f"warning: OpenLineage: events lost: 2; {server.url} answered HTTP 500" in capsys.readouterr().err
    assert caplog.messages == [f"an OpenLineage event of marts.one is lost: {server.url} answered HTTP 500"] * 2
    server.shutdown()
    server.server_close()
    caplog.clear()
    assert run_command(["run", "--rebuild", "--yes", "--openlineage", server.url]) == 0
    assert "does not answer (ConnectionRefusedError)" in caplog.text
    assert KEY not in caplog.text


def test_redirect_is_not_followed(server: Server) -> None:
    with Server() as other:
        server.status, server.location = 302, f"{other.url}/elsewhere"
        with pytest.raises(LakeconfError, match="answered HTTP 302"):
            EventServer(server.url, api_key=KEY).send(b"{}")
        assert other.requests == []


def test_server_that_fails_three_times_gets_no_more_events(server: Server) -> None:
    target = EventServer(server.url)
    server.status = 503
    for expected in [1, 2]:
        with pytest.raises(LakeconfError, match="answered HTTP 503"):
            target.send(b"{}")
        assert len(server.requests) == expected
    server.status = 200
    target.send(b"{}")
    server.status = 503
    for expected in [4, 5, 6, 6]:
        with pytest.raises(LakeconfError):
            target.send(b"{}")
        assert len(server.requests) == expected
    with pytest.raises(LakeconfError, match="failed 3 times, and nothing more is sent to it"):
        target.send(b"{}")
    target.close()


def test_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openlineage, "_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = EventServer(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(LakeconfError, match=r"does not answer \(TimeoutError\)"):
            target.send(b"{}")


@pytest.mark.parametrize(
    "url",
    [
        "http://user:planted@host", "https://", "http://host:port", "http://host?key=planted", "http://host#planted",
        "http://ho\nst", "http://[::1",
    ],
)  # fmt: skip
def test_invalid_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(LakeconfError, match="the URL of the OpenLineage server") as caught:
        event_target(url, {})
    assert "planted" not in caught.value.message
    assert caught.value.hint == "write https://host:port, and the key of the server in OPENLINEAGE_API_KEY"


def test_key_that_no_header_can_contain_is_refused() -> None:
    with pytest.raises(LakeconfError, match="characters that a header cannot contain") as caught:
        event_target("http://host", {"OPENLINEAGE_API_KEY": "planted\r\nX: y"})
    assert "planted" not in caught.value.message


def test_other_targets_are_files(tmp_path: Path) -> None:
    path = tmp_path / "httpx.json"
    for _ in range(2):
        target = event_target(str(path), {"OPENLINEAGE_API_KEY": KEY})
        assert isinstance(target, EventFile)
        target.send(b"{}")
        target.close()
    assert path.read_bytes() == b"{}\n{}\n"
    with pytest.raises(LakeconfError, match="cannot be written: No such file"):
        event_target(str(tmp_path / "none" / "events.json"), {})
