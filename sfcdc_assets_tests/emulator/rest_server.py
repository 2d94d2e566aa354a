"""An org's REST side on a real loopback socket, for tests: plain HTTP, or TLS with a certificate of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
import trustme
import uvicorn
from starlette.applications import Starlette

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.app import build_app
from sfcdc_assets.emulator.rest.rest_server import KEEPING_HEADER_NAMES, PromptServer
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets_tests.eventually import BOUND_SECONDS


@contextmanager
def serving(app: Starlette, certificate: trustme.LeafCert | None = None, folder: Path | None = None) -> Iterator[str]:
    """Serve an application; yields its base URL on localhost."""
    config = uvicorn.Config(
        app,
        **KEEPING_HEADER_NAMES,
        log_level="warning",
        lifespan="off",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    if certificate is not None and folder is not None:
        certificate.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
        config.ssl_certfile = folder / "server.pem"
    server = PromptServer(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert server.ready.wait(BOUND_SECONDS), "the REST server did not start"
        yield f"{'https' if config.is_ssl else 'http'}://localhost:{listener.getsockname()[1]}"
    finally:
        server.end()
        thread.join(BOUND_SECONDS)
        listener.close()
    assert not thread.is_alive()


class RestClient:
    """A logged-in client: paths are relative to `/services/data/v59.0` unless they begin with `//`."""

    def __init__(self, base_url: str, token: str) -> None:
        self.base_url = base_url
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def send(self, method: str, path: str, **options: Any) -> requests.Response:
        full = path[1:] if path.startswith("//") else f"/services/data/v59.0{path}"
        return self.session.request(method, self.base_url + full, timeout=BOUND_SECONDS, **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.send("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self.send("POST", path, json=body, **options)

    def query(self, soql: str, **options: Any) -> requests.Response:
        return self.get("/query", params={"q": soql}, **options)


@contextmanager
def rest_client(org: EmulatedOrg, **options: Any) -> Iterator[RestClient]:
    """A client of a served org; `options` are those of `build_app`."""
    sessions = Sessions(org)
    with serving(build_app(org, sessions=sessions, **options)) as base_url:
        client = RestClient(base_url, sessions.issue(org.users.integration))
        try:
            yield client
        finally:
            client.session.close()
