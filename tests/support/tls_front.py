"""A TLS proxy for a PostgreSQL that was built without TLS, like those of connection poolers.

The programs of the wheel do not support TLS. The protocol is the same for a client: it asks in cleartext for TLS,
gets a positive reply, checks the certificate, and then encrypts everything.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from typing import TYPE_CHECKING

from server_process import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certificates import ServerCertificate

# https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_REFUSAL = b"SFATAL\0C28000\0Mno encryption: this server takes encrypted connections only\0\0"
_CHUNK = 1 << 16


@contextlib.contextmanager
def tls_front(target_port: int, certificate: ServerCertificate) -> Iterator[int]:
    """Accepts encrypted connections only, and forwards them unencrypted to a server on loopback; returns the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    with socket.create_server((HOST, 0)) as listener:
        acceptor = threading.Thread(target=_accept, args=(listener, target_port, context), daemon=True)
        acceptor.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        acceptor.join()


def _accept(listener: socket.socket, target_port: int, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, target_port, context), daemon=True).start()


def _serve(client: socket.socket, target_port: int, context: ssl.SSLContext) -> None:
    with client, contextlib.suppress(OSError):
        if client.recv(len(_SSL_REQUEST), socket.MSG_WAITALL) != _SSL_REQUEST:
            client.sendall(b"E" + struct.pack("!i", len(_REFUSAL) + 4) + _REFUSAL)
            return
        client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as encrypted,
            socket.create_connection((HOST, target_port)) as server,
        ):
            _pump(encrypted, server)


def _pump(client: socket.socket, server: socket.socket) -> None:
    while True:
        ready, _, _ = select.select([client, server], (), ())
        for source, sink in ((client, server), (server, client)):
            if source not in ready:
                continue
            data = source.recv(_CHUNK)
            if not data:
                return
            sink.sendall(data)
