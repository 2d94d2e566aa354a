"""An HTTPS server on loopback that answers as a test scripts it: for what a well-behaved emulated org would not do."""

from __future__ import annotations

import functools
import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import trustme

from sfcdc_assets_tests.eventually import BOUND_SECONDS

ORGANIZATION_ID = "00DAb0000000001MAA"
USER_ID = "005Ab0000000001IAA"


@dataclass(frozen=True)
class Answer:
    """One answer. `body`: bytes as they are, else JSON. `cut`: promise more bytes than are sent, then hang up."""

    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    silent: bool = False
    """Read the request, then say nothing until the server stops."""


OK = Answer(200, {"fine": True})


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


def refusal(status: int, code: str, message: str = "scripted", **headers: str) -> Answer:
    return Answer(
        status, [{"message": message, "errorCode": code}], {k.replace("_", "-"): v for k, v in headers.items()}
    )


EXPIRED = refusal(401, "INVALID_SESSION_ID", "Session expired or invalid")


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Quiet: clients that hang up in a handshake are part of the tests."""


@functools.cache
def _authority() -> trustme.CA:
    return trustme.CA()


class ScriptedOrg:
    """Answers each resource from its own queue, in order; the last answer of a queue is given again and again."""

    def __init__(self, directory: Path, host: str = "localhost") -> None:
        authority = _authority()
        self.ca_file = directory / "scripted-ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(host).configure_cert(context)
        self.seen: list[Seen] = []
        self.refused_tokens: set[str] = set()
        self._queues: dict[tuple[str, str], list[Answer]] = {}
        self._tokens = 0
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self.url = f"https://localhost:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Script a resource. A path not starting with / is below /services/data/v64.0/."""
        key = (method, path if path.startswith("/") else f"/services/data/v64.0/{path}")
        self._queues[key] = list(answers)

    def requests(self, method: str, path: str) -> list[Seen]:
        full = path if path.startswith("/") else f"/services/data/v64.0/{path}"
        return [seen for seen in self.seen if (seen.method, seen.path) == (method, full)]

    def stop(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(BOUND_SECONDS)

    def answer(self, seen: Seen) -> Answer:
        with self._lock:
            self.seen.append(seen)
            if seen.token in self.refused_tokens:
                return EXPIRED
            queue = self._queues.get((seen.method, seen.path))
            if queue:
                return queue.pop(0) if len(queue) > 1 else queue[0]
            return self._usual(seen)

    def wait_until_stopped(self) -> None:
        self._stopped.wait(BOUND_SECONDS)

    def _usual(self, seen: Seen) -> Answer:
        if (seen.method, seen.path) == ("POST", "/services/oauth2/token"):
            self._tokens += 1
            return Answer(
                200,
                {
                    "access_token": f"{ORGANIZATION_ID[:15]}!token-{self._tokens}",
                    "instance_url": self.url,
                    "id": f"https://login.salesforce.com/id/{ORGANIZATION_ID}/{USER_ID}",
                    "token_type": "Bearer",
                },
            )
        if (seen.method, seen.path) == ("GET", "/services/data"):
            versions = [f"{number}.0" for number in range(55, 70)]
            return Answer(200, [{"label": v, "url": f"/services/data/v{v}", "version": v} for v in versions])
        return refusal(404, "NOT_FOUND", "The requested resource does not exist")


def _handler_of(org: ScriptedOrg) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = org.answer(Seen(self.command, url.path, query, headers, body))
            if answer.silent:
                org.wait_until_stopped()
                self.close_connection = True
                return
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            if answer.body is None:
                content = b""
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) + (1000 if answer.cut else 0)))
            self.end_headers()
            self.wfile.write(content)
            if answer.cut:
                self.close_connection = True

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_args: object) -> None:
            """Quiet."""

    return Handler
