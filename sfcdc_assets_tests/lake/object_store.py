"""A small object store that speaks as much of S3 as deltalake uses, and gives nothing to who has no credentials."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

KEY_ID = "AKIAOFTHETEST"
SECRET = "a secret that is shown nowhere"
ROOT = Path(__file__).parents[2]
BUCKET = "bucket"
REQUESTS = "/-/requests"
FAULT = "/fault"
"""Where the store is asked to fail. Objects are below the bucket."""


@dataclass(frozen=True)
class Failure:
    """What the store answers instead, as S3 does: a status, a code and a sentence. `method` and `key`: regular
    expressions of the requests that fail. `is_done`: what they ask for is done all the same."""

    status: int
    code: str
    message: str
    method: str = "GET|HEAD|PUT|POST|DELETE"
    key: str = ".*"
    is_done: bool = False

    def is_of(self, method: str, key: str) -> bool:
        """Whether this request fails."""
        return bool(re.fullmatch(self.method, method) and re.fullmatch(self.key, key))


SLOW_DOWN = Failure(503, "SlowDown", "Please reduce your request rate.")
EXPIRED = Failure(400, "ExpiredToken", "The provided token has expired.")
"""https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"""


class ObjectStore:
    """One that listens on a port."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to work with the store."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }

    @property
    def requests(self) -> Counter[tuple[str, str]]:
        """How many there were by what was asked (LIST, GET, HEAD, PUT, ...) and the folder below the warehouse, which
        is a table's layer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", REQUESTS, headers={"Authorization": f"Credential={KEY_ID}/"})
        counted = json.loads(connection.getresponse().read())
        connection.close()
        return Counter({(kind, layer): number for kind, layer, number in counted if number})

    @contextmanager
    def failing(self, failure: Failure, times: int | None = None, after: int = 0) -> Iterator[None]:
        """Meanwhile it answers so, for ever or so many times, but not yet to so many requests."""
        self._fail([after, times, asdict(failure)])
        try:
            yield
        finally:
            self._fail(None)

    def _fail(self, failure: object) -> None:
        data, url = json.dumps(failure).encode(), f"http://127.0.0.1:{self.port}{FAULT}"
        urllib.request.urlopen(urllib.request.Request(url, data, method="POST"), timeout=30).close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    is_conditional = "--unconditional" not in sys.argv

    def __init__(self, *arguments: Any) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: Counter[tuple[str, str]] = Counter()
        self.lock = threading.Lock()
        self.failure: tuple[int, int | None, Failure] | None = None
        super().__init__(*arguments)

    def failing(self, method: str, key: str) -> Failure | None:
        """What a request is answered that fails."""
        with self.lock:
            if self.failure is None or not self.failure[2].is_of(method, key):
                return None
            after, left, failure = self.failure
            if after:
                self.failure = after - 1, left, failure
                return None
            self.failure = 0, (None if left is None else max(0, left - 1)), failure
            return failure if left != 0 else None

    def handle_error(self, *_: Any) -> None:
        """A client that went away is none of ours."""


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server
    failure: Failure | None = None

    def do_GET(self) -> None:
        query = self._query
        if self.path == REQUESTS:
            self._answer(200, json.dumps([[*of, number] for of, number in self.server.requests.items()]).encode())
            return
        if "list-type" in query:
            self._answer(200, self._listed(query))
            return
        found = self.server.objects.get(self._key)
        if found is None:
            self._answer(404)
            return
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, found)
            return
        first = int(asked[1]) if asked[1] else max(0, len(found) - int(asked[2]))
        last = min(int(asked[2]), len(found) - 1) if asked[1] and asked[2] else len(found) - 1
        self._answer(206, found[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(found)}"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        body, query, objects = self._body(), self._query, self.server.objects
        key = f"{self._key}?{query['partNumber'].zfill(5)}" if "partNumber" in query else self._key
        with self.server.lock:
            if self.server.is_conditional and self.headers.get("If-None-Match") == "*" and key in objects:
                self._answer(412)
                return
            if "x-amz-copy-source" in self.headers:
                body = objects[unquote(self.headers["x-amz-copy-source"]).lstrip("/").removeprefix(f"{BUCKET}/")]
            objects[key] = body
        self._answer(200)

    def do_POST(self) -> None:
        body, objects = self._body(), self.server.objects
        if "delete" in self._query:
            keys = re.findall(r"<Key>([^<]*)</Key>", body.decode())
            for key in keys:
                objects.pop(unescape(key), None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        elif "uploads" in self._query:
            xml = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, xml.encode())
        else:
            parts = sorted(key for key in objects if key.startswith(f"{self._key}?"))
            if not parts:  # completed before
                self._answer(404, b"<Error><Code>NoSuchUpload</Code></Error>")
                return
            objects[self._key] = b"".join(objects.pop(part) for part in parts)
            self._answer(200, b"<CompleteMultipartUploadResult><ETag>whole</ETag></CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._key, None)
        self._answer(204)

    def parse_request(self) -> bool:
        """Refuse who does not say who they are, and fail where that is asked for."""
        if not super().parse_request():
            return False
        if self.path == FAULT:
            found = json.loads(self._body())
            self.server.failure = (found[0], found[1], Failure(**found[2])) if found else None
            return self._ended(200)
        self.failure = self.server.failing(self.command, self._key)
        if self.failure is not None and not self.failure.is_done:
            self._body()
            return self._ended(0)
        token = self.headers.get("x-amz-security-token")  # the key has none
        if token is None and f"Credential={KEY_ID}/" in self.headers.get("Authorization", ""):
            kind = "LIST" if "list-type" in self._query else self.command
            asked = self._query.get("prefix", "") if kind == "LIST" else self._key
            layer = asked.partition("/")[2].partition("/")[0]
            with self.server.lock:
                self.server.requests[kind, layer] += self.path != REQUESTS
            return True
        self._body()
        return self._ended(403)

    def _ended(self, status: int, body: bytes = b"") -> bool:
        self._answer(status, body)
        self.wfile.flush()
        return False

    def log_message(self, *_: Any) -> None:
        """Nothing is written to the test's output."""

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").removeprefix(f"{BUCKET}/")

    @property
    def _query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _listed(self, query: dict[str, str]) -> bytes:
        prefix, delimiter, after = (query.get(name, "") for name in ("prefix", "delimiter", "start-after"))
        objects = [key for key in self.server.objects if "?" not in key]
        found = sorted(key for key in objects if key.startswith(prefix) and key > after)
        rest = {key: key[len(prefix) :] for key in found}
        folders = sorted({prefix + of.split("/")[0] + "/" for of in rest.values() if delimiter and "/" in of})
        here = [key for key, of in rest.items() if not (delimiter and "/" in of)]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>of {len(self.server.objects[key])}</ETag>"
            f"<Size>{len(self.server.objects[key])}</Size></Contents>"
            for key in here
        )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders)
        return f"<ListBucketResult>{contents}{common}</ListBucketResult>".encode()

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        if self.failure is not None:
            status, headers = self.failure.status, None
            body = f"<Error><Code>{self.failure.code}</Code><Message>{self.failure.message}</Message></Error>".encode()
            self.failure = None
        self.send_response(status)
        reported = {
            "Content-Length": str(len(body)),
            "ETag": "etag",
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
            **(headers or {}),
        }
        for name, value in reported.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def object_store(*options: str) -> Iterator[ObjectStore]:
    """One that is empty, on a free port. It has a process of its own: deltalake's file systems wait for an answer
    without letting another thread of Python give it. With `--unconditional` it replaces objects whatever it is asked,
    as some stores do."""
    command = [sys.executable, "-m", "sfcdc_assets_tests.lake.object_store", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield ObjectStore(int(process.stdout.readline()))
        finally:
            process.kill()  # whatever signals the tests before have made processes ignore


if __name__ == "__main__":
    server = _Server(("127.0.0.1", 0), _Request)
    print(server.server_address[1], flush=True)
    server.serve_forever()
