"""A proxy before a server of the S3 API: it makes of it a store that does not know conditional writes, or one whose
objects were written long ago. A process of its own: `python -m` this module."""

from __future__ import annotations

import argparse
import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.s3_server import S3Server

_WRITTEN = re.compile(rb"(?<=<LastModified>)[^<]+")
_OF_THE_CONNECTION = ("connection", "transfer-encoding", "content-length", "host")


@contextmanager
def s3_proxy(server: S3Server, *options: str) -> Iterator[S3Server]:
    """One before the server. `--unconditional`: If-None-Match is not heard. `--days N`: listings show all objects as
    written so many days earlier."""
    command = [sys.executable, "-m", __name__, server.url, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield S3Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream = ""
    is_unconditional = False
    days = 0

    def forward(self) -> None:
        """Ask the server, and answer what it answers."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_THE_CONNECTION}
        if self.is_unconditional:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        connection = http.client.HTTPConnection(self.upstream, timeout=BOUND_SECONDS)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = _WRITTEN.sub(self._earlier, answer.read())
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 - names that the server looks for

    def _earlier(self, found: re.Match[bytes]) -> bytes:
        written = datetime.fromisoformat(found[0].decode()) - timedelta(days=self.days)
        return written.strftime("%Y-%m-%dT%H:%M:%S.000Z").encode()

    def log_message(self, *_: object) -> None:
        """Nothing is written to the test's output."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("upstream")
    parser.add_argument("--unconditional", action="store_true")
    parser.add_argument("--days", type=int, default=0)
    given = parser.parse_args()
    _Request.upstream = urlsplit(given.upstream).netloc
    _Request.is_unconditional, _Request.days = given.unconditional, given.days
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _Request)
    print(proxy.server_address[1], flush=True)
    proxy.serve_forever()
