"""A TCP proxy that hurts the connections it carries, in the ways in which networks and servers do.

It runs in a process of its own: duckdb holds Python's lock while some of its calls wait for a server.
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
_CHUNK = 1 << 16
_LONGEST_PATTERN = 256
_LOOK_UP_SECONDS = 0.02
_REPLY_SECONDS = 10.0


class Request(NamedTuple):
    """One HTTP request that came through, and the status where the proxy answered it itself."""

    method: str
    path: str
    injected: int | None


@dataclass
class _Fault:
    """Something to do to the next `times` connections that fit."""

    times: int
    reset_after: int | None = None
    pattern: bytes | None = None
    forward: bool = False
    hold: bool = False
    status: int | None = None
    code: str = ""
    method: str | None = None


class FaultProxy:
    """Carries TCP from a port of its own to a server, undisturbed until told otherwise.

    Attributes:
        port: Where clients connect.
        requests: The HTTP requests seen so far (none for other protocols, or through TLS).
        latency_seconds: How long each piece of data waits on its way to the server.
        fired: How many faults have been met so far.
    """

    def __init__(self, target_port: int) -> None:
        self.requests: list[Request] = []
        self.latency_seconds = 0.0
        self.fired = 0
        self._target_port = target_port
        self._faults: list[_Fault] = []
        self._hole = False
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._holding = threading.Event()
        self._epoch = 0
        self.port = 0
        self._listen()

    def refuse(self) -> None:
        """Stop listening: clients get 'connection refused'; connections that exist are reset."""
        self._unlisten()
        self.drop_connections()

    def black_hole(self) -> None:
        """Take connections and data from now on, and never answer."""
        self._hole = True

    def reset_after(self, sent_bytes: int, *, times: int = 1) -> None:
        """Reset a connection once its client has sent so many bytes."""
        self._faults.append(_Fault(times, reset_after=sent_bytes))

    def reset_on(self, pattern: bytes, *, forward: bool = False, times: int = 1) -> None:
        """Reset a connection on which a client sends a pattern.

        Args:
            pattern: Bytes to look for in what the client sends.
            forward: Hand them on and wait for the server's answer, which the client never gets; else the server
                never sees them.
            times: How often.
        """
        self._faults.append(_Fault(times, pattern=pattern, forward=forward))

    def hold_on(self, pattern: bytes, *, forward: bool = False) -> None:
        """Hold the next connection on which a client sends a pattern: nothing passes until its client closes it.

        Args:
            pattern: Bytes to look for in what the client sends.
            forward: Hand them on and keep the server's answer; else the server never sees them.
        """
        self._holding.clear()
        self._faults.append(_Fault(1, pattern=pattern, forward=forward, hold=True))

    def wait_until_held(self) -> bool:
        """Wait for a connection to be held, and for the server's answer if it gets the pattern; False in vain."""
        return self._holding.wait(_REPLY_SECONDS)

    def answer(self, status: int, *, method: str | None = None, times: int = 1, code: str = "") -> None:
        """Answer HTTP requests (of one method, or any) with a status and code of S3's, instead of the server."""
        code = code or ("AccessDenied" if status == 403 else "SlowDown")
        self._faults.append(_Fault(times, status=status, code=code, method=method))

    def heal(self) -> None:
        """Forget all faults and listen again; the log of requests begins anew."""
        self._faults.clear()
        self.requests.clear()
        self.latency_seconds = 0.0
        self._hole = False
        if self._listener.fileno() < 0:
            self._listen()

    def drop_connections(self) -> None:
        """Reset every connection that exists now, within moments."""
        self._epoch += 1

    def close(self) -> None:
        """Stop for good."""
        self._woken.set()
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
                if not self._hole:
                    server.connect((HOST, self._target_port))
                self._pump(client, server)
            except OSError:
                _reset(client, server)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        epoch, sent, tail = self._epoch, 0, b""
        alive = {client} if self._hole else {client, server}
        while alive:
            ready, _, _ = select.select(list(alive), (), (), _LOOK_UP_SECONDS)
            if self._epoch != epoch:
                return _reset(client, server)
            for source in ready:
                data = source.recv(_CHUNK)
                if not data:
                    alive.discard(source)
                    _end(server if source is client else client)
                elif self._hole:
                    continue
                elif source is server:
                    client.sendall(data)
                elif self._met(data, sent, tail, client, server):
                    return None
                else:
                    sent, tail = sent + len(data), data[-_LONGEST_PATTERN:]
        return None

    def _met(self, data: bytes, sent: int, tail: bytes, client: socket.socket, server: socket.socket) -> bool:
        """Hand data on to the server, unless a fault says otherwise: then the connection is over."""
        self._woken.wait(self.latency_seconds)
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
            self._holding.set()
            while client.recv(_CHUNK):
                pass
        _reset(client, server)
        return True

    def _answered(self, head: re.Match[bytes], data: bytes, client: socket.socket) -> bool:
        method, path = head.group(1).decode(), head.group(2).decode()
        fault = self._take(lambda fault: fault.status is not None and fault.method in (None, method))
        self.requests.append(Request(method, path, fault.status if fault else None))
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
    if fault.pattern is not None:
        return fault.pattern in window
    return fault.reset_after is not None and sent >= fault.reset_after


def _drain(data: bytes, client: socket.socket) -> None:
    """Read the rest of a request, so that closing does not reset the connection before the answer is read."""
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
    """End connections with RST instead of FIN."""
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def _start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


class _Remote:
    """A `FaultProxy` in another process, as far as tests use it."""

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
    """Do what is asked of each proxy, until the process that asks is gone."""
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
    """Start the process in which proxies run; gives the way to it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    with ours:
        yield ours
    process.join()


@contextlib.contextmanager
def fault_proxy(proxies: Connection, target_port: int) -> Iterator[FaultProxy]:
    """Start a proxy to a server on loopback."""
    remote = _Remote(proxies, next(numbers))
    remote._ask("__init__", target_port)
    try:
        yield cast("FaultProxy", remote)
    finally:
        remote.close()
