"""SeaweedFS on loopback: a store behind the S3 API that answers many requests at once, as a store in a cloud does and
moto, which is Python, does not. For figures; `bench` pins its release."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.free_port import free_ports
from sfcdc_assets_tests.pipeline.stores.s3_server import BUCKET, S3Server

_LISTENS = ("master", "volume", "filer", "s3")
_KEY = "any"


@contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Server]:
    """One that is empty but for its bucket, and keeps its objects in a folder."""
    (folder / "data").mkdir(parents=True)
    identity = {"name": "tests", "credentials": [{"accessKey": _KEY, "secretKey": _KEY}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = free_ports(2 * len(_LISTENS))
    of = dict(
        zip([*(f"{each}.port" for each in _LISTENS), *(f"{each}.port.grpc" for each in _LISTENS)], ports, strict=True)
    )
    command = [
        str(Path(sys.executable).parent / "weed"),
        "server",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        f"-s3.config={folder / 's3.json'}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.iam=false",
        "-master.telemetry=false",
        *(f"-{name}={port}" for name, port in of.items()),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        served = S3Server(f"http://127.0.0.1:{of['s3.port']}")
        _make_bucket(served.url, server)
        yield served
    finally:
        server.kill()
        server.wait()


def _make_bucket(url: str, server: subprocess.Popen[bytes]) -> None:
    def is_made() -> bool:
        assert server.poll() is None
        request = AWSRequest("PUT", f"{url}/{BUCKET}")
        S3SigV4Auth(Credentials(_KEY, _KEY), "s3", "us-east-1").add_auth(request)
        signed = urllib.request.Request(request.url, method="PUT", headers=dict(request.headers.items()))
        try:
            urllib.request.urlopen(signed, timeout=5).close()
        except (urllib.error.URLError, OSError):
            return False
        return True

    eventually(is_made, "SeaweedFS to take a bucket")
