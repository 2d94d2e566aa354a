"""A proxy before a server of the S3 API: it makes of it a store that answers after a while, that does not know
conditional writes, or whose objects were written long ago. A process of its own: `python -m` this module."""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import urllib.request
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.stores.s3_server import S3Server

_WAIT = "/-/wait/"
_WRITTEN = re.compile(rb"(?<=<LastModified>)[^<]+")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_CONDITION = re.compile(rb"\r\nif-none-match: *[^\r]*", re.IGNORECASE)
_GONE = (asyncio.IncompleteReadError, ConnectionError)


@contextmanager
def s3_proxy(server: S3Server, *options: str) -> Iterator[S3Server]:
    """One before the server; see `answer_after`. `--unconditional`: If-None-Match is not heard. `--days N`: listings
    show all objects as written so many days earlier."""
    command = [sys.executable, "-m", __name__, server.url, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield S3Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


def answer_after(proxy: S3Server, milliseconds: int) -> None:
    """From now on it waits so long before it passes on a request, and takes others meanwhile."""
    request = urllib.request.Request(f"{proxy.url}{_WAIT}{milliseconds}", method="PUT")
    urllib.request.urlopen(request, timeout=BOUND_SECONDS).close()


@dataclass
class _Message:
    """A request or an answer; the head ends with an empty line."""

    head: bytes
    body: bytes

    @classmethod
    async def read(cls, source: StreamReader, asked: bytes | None = None) -> _Message:
        """The next one, `asked` for by this method."""
        head = await source.readuntil(b"\r\n\r\n")
        if asked == b"HEAD" or (asked and head.split(b" ", 2)[1] in (b"204", b"304")):
            return cls(head, b"")
        if _CHUNKED.search(head) is None:
            length = _LENGTH.search(head)
            return cls(head, await source.readexactly(int(length[1])) if length else b"")
        body = b""
        while size := int((await source.readuntil(b"\r\n")).partition(b";")[0], 16):
            body += (await source.readexactly(size + 2))[:-2]
        await source.readuntil(b"\r\n")
        return cls(_CHUNKED.sub(b"\r\nContent-Length: 0", head), b"").with_body(body)

    def with_body(self, body: bytes) -> _Message:
        """The same with another body."""
        return _Message(_LENGTH.sub(b"\r\nContent-Length: %d" % len(body), self.head), body)


class _Proxy:
    """Passes on what it is asked, over connections that it keeps."""

    def __init__(self, upstream: str, days: int, *, is_unconditional: bool) -> None:
        where = urlsplit(upstream)
        self._where = where.hostname, where.port
        self._days, self._is_unconditional = days, is_unconditional
        self._seconds = 0.0
        self._idle: list[tuple[StreamReader, StreamWriter]] = []
        self._serving: set[asyncio.Task[None]] = set()

    def accept(self, client: StreamReader, back: StreamWriter) -> None:
        """A client has connected. The task is held here: asyncio holds it weakly, and one that waits for the server
        could be collected meanwhile."""
        task = asyncio.create_task(self._serve(client, back))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: StreamReader, back: StreamWriter) -> None:
        with suppress(*_GONE):
            while True:
                request = await _Message.read(client)
                path = request.head.split(b" ", 2)[1].decode()
                if path.startswith(_WAIT):
                    self._seconds = int(path.removeprefix(_WAIT)) / 1000
                    back.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    continue
                await asyncio.sleep(self._seconds)
                if self._is_unconditional:
                    request.head = _CONDITION.sub(b"", request.head)
                answer = await self._asked(request)
                if self._days:
                    answer = answer.with_body(_WRITTEN.sub(self._earlier, answer.body)) if answer.body else answer
                back.write(answer.head + answer.body)
                await back.drain()
        back.close()

    async def _asked(self, request: _Message) -> _Message:
        while True:
            connection = self._idle.pop() if self._idle else None
            source, sink = connection or await asyncio.open_connection(*self._where)
            try:
                sink.write(request.head + request.body)
                answer = await _Message.read(source, request.head.partition(b" ")[0])
            except _GONE:  # a connection that was kept may have ended
                if connection is None:
                    raise
            else:
                if b"\r\nconnection: close" in answer.head.lower():
                    sink.close()
                else:
                    self._idle.append((source, sink))
                return answer

    def _earlier(self, found: re.Match[bytes]) -> bytes:
        written = datetime.fromisoformat(found[0].decode()) - timedelta(days=self._days)
        return written.strftime("%Y-%m-%dT%H:%M:%S.000Z").encode()


async def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("upstream")
    parser.add_argument("--unconditional", action="store_true")
    parser.add_argument("--days", type=int, default=0)
    given = parser.parse_args()
    proxy = _Proxy(given.upstream, given.days, is_unconditional=given.unconditional)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
