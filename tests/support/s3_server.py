"""A real S3 server on a free port of loopback: moto, in a separate process."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
from botocore.config import Config as BotoConfig
from certificates import make_certificate
from server_process import (
    HOST,
    START_TIMEOUT_SECONDS,
    accepts_connections,
    free_port,
    numbers,
    run_server,
    wait_until_ready,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class S3Keys(NamedTuple):
    """The access key of a user."""

    key_id: str
    secret: str


@dataclass(frozen=True)
class S3Server:
    """A running S3 server."""

    port: int  # its port on loopback
    log: Path
    keys: S3Keys  # an access key with all permissions
    # Only with `iam`: the access key of a user that may list and get, but not put or delete.
    read_only: S3Keys | None = None
    ca: Path | None = None  # only with `tls`: the authority that signed its certificate
    region: str = "us-east-1"

    @property
    def endpoint(self) -> str:
        """Host and port, in the form of DuckDB's ENDPOINT."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The endpoint with its scheme, in the form of Hadoop's and boto3's settings."""
        return f"{'https' if self.ca else 'http'}://{self.endpoint}"

    def client(self, service: str = "s3", keys: S3Keys | None = None) -> Any:
        """A boto3 client; by default for the user with all permissions."""
        keys = keys or self.keys
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=keys.key_id,
            aws_secret_access_key=keys.secret,
            verify=str(self.ca) if self.ca else None,
            config=BotoConfig(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )

    def create_user(self, name: str, policy: str) -> S3Keys:
        """Creates a user with an IAM policy, of which moto checks the actions only; then it checks each request."""
        # moto does not check the next requests: those below.
        request = urllib.request.Request(f"{self.url}/moto-api/reset-auth", b"3", {"Content-Type": "text/plain"})  # noqa: S310
        urllib.request.urlopen(request, timeout=START_TIMEOUT_SECONDS).close()  # noqa: S310
        with contextlib.closing(self.client("iam")) as iam:
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=policy)
            key = iam.create_access_key(UserName=name)["AccessKey"]
        return S3Keys(key["AccessKeyId"], key["SecretAccessKey"])

    def create_bucket(self) -> str:
        """Creates an empty bucket and returns its name."""
        name = f"bucket-{next(numbers)}"
        with contextlib.closing(self.client()) as client:
            client.create_bucket(Bucket=name)
        return name

    def remove(self, bucket: str, key: str) -> None:
        with contextlib.closing(self.client()) as client:
            client.delete_object(Bucket=bucket, Key=key)

    def objects(self, bucket: str, prefix: str = "") -> list[str]:
        """The keys of all objects of a bucket, sorted."""
        with contextlib.closing(self.client()) as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return sorted(item["Key"] for page in pages for item in page.get("Contents", ()))


@contextlib.contextmanager
def s3(*, tls: bool = False, iam: bool = False) -> Iterator[S3Server]:
    """Starts an S3 server, which checks signatures and permissions with `iam`; otherwise any key is accepted."""
    with tempfile.TemporaryDirectory(prefix="lakeconf-s3-") as name:
        folder = Path(name)
        certificate = make_certificate(folder) if tls else None
        port, log = free_port(), folder / "log"
        options = ["-s", "-c", str(certificate.certificate), "-k", str(certificate.key)] if certificate else []
        command = [sys.executable, "-c", "from moto.server import main; main()", "-H", HOST, "-p", str(port), *options]
        with log.open("ab") as output, run_server(command, output) as process:
            wait_until_ready(process, log, lambda: accepts_connections(port))
            keys = S3Keys(secrets.token_hex(10), secrets.token_urlsafe(24))
            server = S3Server(port, log, keys, ca=certificate.ca if certificate else None)
            yield _enforce(server) if iam else server


def _enforce(server: S3Server) -> S3Server:
    """Creates two users, and lets moto check each request."""
    writer = server.create_user("writer", _policy(["s3:*"]))
    reader = server.create_user("reader", _policy(["s3:Get*", "s3:List*"]))
    return S3Server(server.port, server.log, writer, reader, server.ca)


def _policy(actions: list[str]) -> str:
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
