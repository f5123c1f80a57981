"""A certificate authority with a server certificate for loopback, and a TLS proxy for a PostgreSQL without TLS.

The programs of the wheel do not support TLS. The protocol is the same for a client: it asks in cleartext for TLS,
gets a positive reply, checks the certificate, and then encrypts everything, as with connection poolers.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import select
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from server_process import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_LIFETIME = datetime.timedelta(days=2)


@dataclass(frozen=True)
class ServerCertificate:
    """Paths of PEM files: the authority that clients must trust, and the certificate and key of the server."""

    ca: Path
    certificate: Path
    key: Path


def make_certificate(folder: Path) -> ServerCertificate:
    """Writes a new authority and a certificate for `localhost` and 127.0.0.1 into a folder."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = _name("lakeconf test authority")
    authority = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(certificate_authority=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    server = (
        _builder(_name("localhost"), ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(certificate_authority=False), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    paths = ServerCertificate(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    paths.ca.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    paths.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    paths.key.touch(mode=0o600)
    paths.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, certificate_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificate_authority,
        key_cert_sign=certificate_authority,
        crl_sign=certificate_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


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
