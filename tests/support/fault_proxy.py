"""A TCP proxy that injects the faults of networks and servers into its connections.

It runs in a separate process: duckdb holds Python's GIL while some of its calls wait for a server.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import re
import select
import socket
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from server_process import HOST, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

_HEAD = re.compile(rb"(GET|PUT|POST|DELETE|HEAD) (\S+) HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_COPIES = re.compile(rb"\r\nx-amz-copy-source:", re.IGNORECASE)
_CHUNK = 1 << 16
_LONGEST_PATTERN = 256
_LOOK_UP_SECONDS = 0.02
_REPLY_SECONDS = 10.0


class Request(NamedTuple):
    """An HTTP request that the proxy received, and the status if the proxy itself responded."""

    method: str
    path: str
    injected: int | None = None
    copies: bool = False


@dataclass
class _Fault:
    """A fault for the next `times` matching connections."""

    times: int
    reset_after: int | None = None
    pattern: bytes | re.Pattern[bytes] | None = None
    forward: bool = False
    hold: bool = False
    status: int | None = None
    code: str = ""
    method: str | None = None


class FaultProxy:
    """Forwards TCP from its own port to a server, unchanged until a fault is set; counts those that were triggered."""

    def __init__(self, target_port: int) -> None:
        self.requests: list[Request] = []
        self.fired = 0
        self.held = 0  # the port of the client of the connection that was held last
        self._target_port = target_port
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._holding = threading.Event()
        self._epoch = 0
        self.port = 0
        self._listen()

    def refuse(self) -> None:
        """Stops listening: clients get 'connection refused', and existing connections are reset."""
        self._unlisten()
        self.drop_connections()

    def reset_after(self, sent_bytes: int, *, times: int = 1) -> None:
        """Resets a connection when its client has sent this number of bytes."""
        self._faults.append(_Fault(times, reset_after=sent_bytes))

    def reset_on(self, pattern: bytes, *, forward: bool = False, times: int = 1) -> None:
        """Resets a connection on which a client sends a pattern, before the server gets it or the client its reply."""
        self._faults.append(_Fault(times, pattern=pattern, forward=forward))

    def hold_on(self, pattern: bytes | re.Pattern[bytes], *, forward: bool = False) -> None:
        """Holds the next connection on which a client sends a pattern, or the reply, until the client closes it."""
        self._holding.clear()
        self._faults.append(_Fault(1, pattern=pattern, forward=forward, hold=True))

    def wait_until_held(self, seconds: float = _REPLY_SECONDS) -> bool:
        """Waits for a held connection, and for the server's reply if it receives the pattern; False after a timeout."""
        return self._holding.wait(seconds)

    def answer(self, status: int, *, method: str | None = None, times: int = 1, code: str = "") -> None:
        """Responds to HTTP requests (of one method, or any) with a status and S3 error code instead of the server."""
        code = code or ("AccessDenied" if status == 403 else "SlowDown")
        self._faults.append(_Fault(times, status=status, code=code, method=method))

    def heal(self) -> None:
        """Removes all faults, listens again, and clears the log of requests."""
        self._faults.clear()
        self.requests.clear()
        if self._listener.fileno() < 0:
            self._listen()

    def drop_connections(self) -> None:
        """Resets every connection that exists now; takes effect shortly afterwards."""
        self._epoch += 1

    def close(self) -> None:
        """Stops permanently."""
        self.refuse()

    def _listen(self) -> None:
        self._listener = socket.create_server((HOST, self.port))
        self.port = self._listener.getsockname()[1]
        self._acceptor = _start(functools.partial(self._accept, self._listener))

    def _unlisten(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            _start(functools.partial(self._carry, client))

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            try:
                server.connect((HOST, self._target_port))
                self._pump(client, server)
            except OSError:
                _reset(client, server)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        epoch, sent, tail = self._epoch, 0, b""
        alive = {client, server}
        while alive:
            ready, _, _ = select.select(list(alive), (), (), _LOOK_UP_SECONDS)
            if self._epoch != epoch:
                return _reset(client, server)
            for source in ready:
                data = source.recv(_CHUNK)
                if not data:
                    alive.discard(source)
                    _end(server if source is client else client)
                elif source is server:
                    client.sendall(data)
                elif self._met(data, sent, tail, client, server):
                    return None
                else:
                    sent, tail = sent + len(data), data[-_LONGEST_PATTERN:]
        return None

    def _met(self, data: bytes, sent: int, tail: bytes, client: socket.socket, server: socket.socket) -> bool:
        """Forwards data to the server unless a fault prevents it; True if the connection has ended."""
        if (head := _HEAD.match(data)) and self._answered(head, data, client):
            return True
        fault = self._take(lambda fault: _strikes(fault, tail + data, sent + len(data)))
        if not fault or fault.forward:
            server.sendall(data)
        if not fault:
            return False
        if fault.forward:
            select.select([server], (), (), _REPLY_SECONDS)
        if fault.hold:
            self.held = client.getpeername()[1]
            self._holding.set()
            while client.recv(_CHUNK):
                pass
        _reset(client, server)
        return True

    def _answered(self, head: re.Match[bytes], data: bytes, client: socket.socket) -> bool:
        method, path = head.group(1).decode(), head.group(2).decode()
        fault = self._take(lambda fault: fault.status is not None and fault.method in (None, method))
        copies = bool(_COPIES.search(data.partition(b"\r\n\r\n")[0]))
        self.requests.append(Request(method, path, fault.status if fault else None, copies))
        if not fault:
            return False
        _drain(data, client)
        body = f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>injected</Message></Error>"
        reply = f"HTTP/1.1 {fault.status} injected\r\nContent-Type: application/xml\r\nConnection: close\r\n"
        client.sendall(f"{reply}Content-Length: {len(body)}\r\n\r\n{body if method != 'HEAD' else ''}".encode())
        _end(client)
        return True

    def _take(self, fits: Callable[[_Fault], bool]) -> _Fault | None:
        with self._lock:
            fault = next((each for each in self._faults if each.times > 0 and fits(each)), None)
            if fault:
                fault.times -= 1
                self.fired += 1
            return fault


def _strikes(fault: _Fault, window: bytes, sent: int) -> bool:
    if isinstance(fault.pattern, re.Pattern):
        return fault.pattern.search(window) is not None
    if fault.pattern is not None:
        return fault.pattern in window
    return fault.reset_after is not None and sent >= fault.reset_after


def _drain(data: bytes, client: socket.socket) -> None:
    """Reads the rest of a request, so that closing does not reset the connection before the response is read."""
    head, _, body = data.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if b"100-continue" in head.lower():
        return
    missing = int(length.group(1)) - len(body) if length else 0
    while missing > 0 and (piece := client.recv(_CHUNK)):
        missing -= len(piece)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _reset(*connections: socket.socket) -> None:
    """Ends connections with RST instead of FIN."""
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def _start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


class _Remote:
    """A `FaultProxy` in another process, with the methods that tests use."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if callable(getattr(FaultProxy, name, None)):
            return functools.partial(self._ask, name)
        return self._ask("__getattribute__", name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self._ask("__setattr__", name, value)

    def _ask(self, name: str, *arguments: object, **options: object) -> Any:
        self._connection.send((self._number, name, arguments, options))
        return self._connection.recv()


def _serve(connection: Connection) -> None:
    """Executes requests for each proxy until the requesting process has ended."""
    proxies: dict[int, FaultProxy] = {}
    with contextlib.suppress(EOFError):
        while True:
            number, name, arguments, options = connection.recv()
            if name == "__init__":
                proxies[number] = FaultProxy(*arguments)
                connection.send(None)
            else:
                connection.send(getattr(proxies[number], name)(*arguments, **options))


@contextlib.contextmanager
def fault_proxies() -> Iterator[Connection]:
    """Starts the process in which proxies run, and returns the connection to it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    with ours:
        yield ours
    process.join()


@contextlib.contextmanager
def fault_proxy(proxies: Connection, target_port: int) -> Iterator[FaultProxy]:
    """Starts a proxy to a server on loopback."""
    remote = _Remote(proxies, next(numbers))
    remote._ask("__init__", target_port)
    try:
        yield cast("FaultProxy", remote)
    finally:
        remote.close()
