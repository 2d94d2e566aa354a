"""Azurite on loopback: the emulator of Azure's Blob service, by Microsoft, as a process of its own, in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.free_port import free_port
from sfcdc_assets_tests.peers.npm_packages import npm_packages

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Published by Microsoft, for every emulator (learn.microsoft.com/azure/storage/common/storage-use-azurite)."""
CONTAINER = "container"


@contextmanager
def azurite(folder: Path) -> Iterator[dict[str, str]]:
    """One with an empty container, run in a new folder; what a process needs in its environment to work with it. Skips
    the test where it cannot be installed."""
    server = npm_packages(Path(__file__).parent, folder)
    port = free_port()
    main = server / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    options = ["--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    options += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    process = subprocess.Popen(["node", str(main), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:

        def has_container() -> bool:
            assert process.poll() is None
            return _has_container(port)

        eventually(has_container, "Azurite to have a container")
        url = f"http://127.0.0.1:{port}"
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": url,
        }
    finally:
        process.kill()
        process.wait()


def _has_container(port: int) -> bool:
    """Make it, by the service's own Shared Key signature; False while nobody listens."""
    path, date = f"/{ACCOUNT}/{CONTAINER}", formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed = f"PUT{chr(10) * 12}{named}/{ACCOUNT}{path}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=BOUND_SECONDS)
    try:
        authorization = {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
        connection.request("PUT", f"{path}?restype=container", headers={**headers, **authorization})
        answer = connection.getresponse()
    except OSError:
        return False
    finally:
        connection.close()
    assert answer.status == 201, answer.read()
    return True
