"""A server of the S3 API on loopback that others wrote: moto's, in memory, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.free_port import free_port

BUCKET = "bucket"


@dataclass(frozen=True)
class S3Server:
    """Where it listens. It has one bucket."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to work with it."""
        credentials = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}
        return {**credentials, "AWS_ENDPOINT_URL": self.url, "AWS_ALLOW_HTTP": "true"}


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """One that is empty but for its bucket."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"

        def has_bucket() -> bool:
            assert server.poll() is None
            try:
                urllib.request.urlopen(
                    urllib.request.Request(f"{url}/{BUCKET}", method="PUT"), timeout=BOUND_SECONDS
                ).close()
            except (urllib.error.URLError, OSError):
                return False
            return True

        eventually(has_bucket, "moto's server to have a bucket")
        yield S3Server(url)
    finally:
        server.kill()
        server.wait()
