"""A webhook on loopback that keeps what it is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from sfcdc_assets_tests.eventually import BOUND_SECONDS


class Webhook:
    """`status` is what it answers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.status = 200
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert list(body) == ["text"]
                if webhook.status == 200:
                    webhook.texts.append(body["text"])
                self.send_response(webhook.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/T0/secret"


@contextmanager
def webhook_server() -> Iterator[Webhook]:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield webhook
    webhook.server.shutdown()
    webhook.server.server_close()
    thread.join(BOUND_SECONDS)
