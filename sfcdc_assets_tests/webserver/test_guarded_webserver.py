"""What pages of other sites can do to Dagster's webserver as `sfcdc dev` and the deployment start it: nothing."""

from __future__ import annotations

import http.client
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import dagster as dg
import pytest

from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.free_port import free_port
from sfcdc_assets_tests.ui.browser import opened_page, without_browser

pytestmark = pytest.mark.slow

WIPE = 'mutation { wipeAssets(assetPartitionRanges: [{assetKey: {path: ["lead"]}}]) { __typename } }'
LOCATION = """\
import dagster as dg


@dg.asset
def lead() -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={{"sample": dg.MetadataValue.md("![x](http://127.0.0.1:{attacker}/p)")}})


defs = dg.Definitions([lead])
"""


class Ui:
    """A guarded webserver over an asset that was materialized once, with an image of another site in its metadata."""

    def __init__(self, port: int, instance: dg.DagsterInstance) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._instance = instance

    def status(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_SECONDS)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def answers(self) -> bool:
        try:
            return self.status("GET", "/server_info")[0] == 200
        except OSError:
            return False

    def materializations(self) -> int:
        found = self._instance.fetch_materializations(dg.AssetKey("lead"), limit=10)
        return len(found.records)


class Attacker(http.server.BaseHTTPRequestHandler):
    """A site that answers each request with a redirect to a mutation on the UI that its image was shown on."""

    ui = ""
    asked: list[str] = []  # noqa: RUF012 - a handler is made for each request

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(302)
        self.send_header("Location", f"{self.ui}/graphql?{urlencode({'query': WIPE})}")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def attacker() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Attacker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def ui(attacker: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    with served("sfcdc_assets.webserver", attacker, tmp_path_factory.mktemp("guarded")) as found:
        yield found


@contextmanager
def served(module: str, attacker: int, home: Path) -> Iterator[Ui]:
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    (home / "location.py").write_text(LOCATION.format(attacker=attacker))
    port = free_port()
    with pytest.MonkeyPatch.context() as patch, dg.DagsterInstance.from_config(str(home)) as instance:
        without_settings(patch)
        patch.setenv("DAGSTER_HOME", str(home))
        names: dict[str, Any] = {}
        exec((home / "location.py").read_text(), names)
        assert dg.materialize([names["lead"]], instance=instance).success
        command = [sys.executable, "-m", module, "-f", "location.py", "-h", "127.0.0.1"]
        log = (home / "log").open("wb")
        process = subprocess.Popen([*command, "-p", str(port)], cwd=home, stdout=log, stderr=log)
        try:
            found = Ui(port, instance)
            Attacker.ui = found.url
            eventually(found.answers, lambda: (home / "log").read_text()[-2000:])
            yield found
        finally:
            process.terminate()
            process.wait(BOUND_SECONDS)
            log.close()


JSON = {"Content-Type": "application/json"}
QUERY = json.dumps({"query": "{ version }"})
CHANGE = json.dumps({"query": WIPE})
BY_URL = f"/graphql?{urlencode({'query': WIPE})}"
OTHER = "https://another.site.invalid"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("POST", "/graphql", {**JSON, "Host": "another.site.invalid"}, QUERY, 403),
        ("GET", "/server_info", {"Host": "another.site.invalid"}, None, 403),
        ("GET", "/", {"Host": "[bad"}, None, 403),
        ("POST", "/graphql", {**JSON, "Origin": OTHER}, CHANGE, 403),
        ("POST", "/graphql", {**JSON, "Origin": "null"}, CHANGE, 403),
        ("POST", "/graphql", {**JSON, "Sec-Fetch-Site": "cross-site"}, CHANGE, 403),
        ("POST", "/graphql", {**JSON, "Sec-Fetch-Site": "same-site"}, CHANGE, 403),
        ("POST", "/report_asset_materialization/lead", {"Origin": OTHER}, "", 403),
        ("GET", BY_URL, {}, None, 405),
        ("GET", BY_URL, {"Sec-Fetch-Site": "same-origin"}, None, 405),
        ("POST", BY_URL, {"Content-Type": "text/plain"}, "", 405),
        ("POST", "/graphql", {"Content-Type": "text/plain"}, CHANGE, 415),
        ("POST", "/graphql", {"Content-Type": "application/graphql"}, WIPE, 415),
        ("POST", "/graphql", {"Content-Type": "application/x-www-form-urlencoded"}, urlencode({"query": WIPE}), 415),
        ("POST", "/graphql", {}, CHANGE, 415),
    ],
)
def test_what_another_site_can_make_a_browser_send_is_refused_and_changes_nothing(
    ui: Ui, method: str, path: str, headers: Mapping[str, str], body: str | None, status: int
) -> None:
    assert ui.status(method, path, headers, body)[0] == status
    assert ui.materializations() == 1


def test_a_websocket_that_another_site_opens_is_refused(ui: Ui) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "c2ZjZGMtYXNzZXRzLTEyMw==",
        "Sec-WebSocket-Protocol": "graphql-ws",
    }
    assert ui.status("GET", "/graphql", {**upgrade, "Origin": OTHER})[0] == 403
    connection = http.client.HTTPConnection("127.0.0.1", ui.port, timeout=BOUND_SECONDS)
    connection.request("GET", "/graphql", headers={**upgrade, "Origin": ui.url})
    assert connection.getresponse().status == 101
    connection.close()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:3000"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Host": "[::1]:3000", "Origin": "http://[::1]:3000"},
    ],
)
def test_programs_and_the_uis_own_pages_are_answered(ui: Ui, headers: Mapping[str, str]) -> None:
    status, text = ui.status("POST", "/graphql", {**JSON, **headers}, QUERY)
    assert (status, list(json.loads(text)["data"])) == (200, ["version"])


def look_at_the_asset(ui: Ui, profile: Path) -> None:
    """Open the page that shows the image, as any colleague does."""
    Attacker.asked.clear()
    Attacker.ui = ui.url
    with opened_page(profile, 1200, 900) as page:
        page.goto(f"{ui.url}/assets/lead?view=overview")
        image = page.locator("img[src$='/p']").first
        image.wait_for(state="attached")
        eventually(lambda: image.evaluate("image => image.complete"), "the image to be loaded, or not")


@without_browser
def test_an_image_in_what_a_page_shows_reaches_no_other_site_and_changes_nothing(ui: Ui, tmp_path: Path) -> None:
    look_at_the_asset(ui, tmp_path)
    assert Attacker.asked == []
    assert ui.materializations() == 1


@without_browser
def test_without_the_guard_the_same_look_wipes_the_asset(attacker: int, tmp_path: Path) -> None:
    """What the guard is there for; when Dagster refuses this by itself, the guard can go."""
    (tmp_path / "home").mkdir()
    with served("dagster_webserver", attacker, tmp_path / "home") as unguarded:
        look_at_the_asset(unguarded, tmp_path / "browser")
        assert Attacker.asked == ["/p"]
        eventually(lambda: unguarded.materializations() == 0, "the wipe")
