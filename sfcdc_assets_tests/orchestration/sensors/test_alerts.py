"""Alerts against a real HTTP server: what is posted, once, and what becomes of a webhook that fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest

from sfcdc_assets.entities.freshness import EntityLag
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.entity_failures import failure_of
from sfcdc_assets.orchestration.sensors import alerts
from sfcdc_assets.orchestration.sensors.alerts import AlertNotSent, alert_on_failure, alert_sensors, news, send
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own

__all__ = ["no_settings_but_the_tests_own"]


class Webhook:
    """A server on loopback that keeps what it is sent; `status` is what it answers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.status = 200
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.texts.append(json.loads(body)["text"])
                self.send_response(webhook.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/T0/secret"


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("SFCDC_ALERT_WEBHOOK", webhook.url)
    yield webhook
    webhook.server.shutdown()
    webhook.server.server_close()
    thread.join(BOUND_SECONDS)


def test_a_failed_run_is_posted_with_the_entity_and_the_reason(webhook: Webhook) -> None:
    @dg.op
    def apply() -> None:
        raise failure_of("Contact", OSError("no space left on device"))

    @dg.job(name="sync")
    def sync() -> None:
        apply()

    with instance_in_memory() as instance:
        run = sync.execute_in_process(instance=instance, raise_on_error=False)
        event = run.get_run_failure_event()
        context = dg.build_run_status_sensor_context(
            "alert_on_failure", event, instance, run.dagster_run
        ).for_run_failure()
        alert_on_failure(context)
    (text,) = webhook.texts
    assert text.startswith(f"Run {run.run_id[:8]} of sync failed.")
    assert text.endswith("\nContact: no space left on device")


def test_a_lag_is_reported_once_and_its_end_once(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    for behind in (0.0, 14 * 60, 16 * 60, 20 * 60, 3.0, 0.0):
        found = [EntityLag("Account", 7, behind), EntityLag("Contact", 0, 0.0)]
        monkeypatch.setattr(alerts, "lags", lambda *_, found=found: found)
        told, text = news(Warehouse("nowhere"), load_settings(), told)
        if text:
            send(load_settings(), text)
    assert webhook.texts == [
        "Account is late: 7 events landed and not applied, the oldest committed 16 minutes ago (15 are "
        "allowed by SFCDC_FRESHNESS_MINUTES).",
        "Account has caught up.",
    ]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_refuses_fails_the_tick_without_its_address(webhook: Webhook, status: int) -> None:
    webhook.status = status
    with pytest.raises(AlertNotSent, match=f"HTTP {status}") as refused:
        send(load_settings(), "text")
    assert "secret" not in str(refused.value)


def test_a_webhook_that_is_not_there_fails_the_tick_without_its_address(webhook: Webhook) -> None:
    webhook.server.server_close()
    webhook.server.shutdown()
    with pytest.raises(AlertNotSent, match="ConnectionError") as refused:
        send(load_settings(), "text")
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_without_the_setting_there_are_no_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert alert_sensors(load_settings()) == []
    monkeypatch.setenv("SFCDC_ALERT_WEBHOOK", "https://hooks.example/secret")
    assert [sensor.name for sensor in alert_sensors(load_settings())] == ["alert_on_failure", "alert_on_lag"]
    assert "hooks.example" not in repr(load_settings())
    for unsafe in ("hooks.example/secret", "http://hooks.example/secret", "http://127.0.0.1.example/secret"):
        monkeypatch.setenv("SFCDC_ALERT_WEBHOOK", unsafe)
        with pytest.raises(SettingsError, match="https://") as refused:
            load_settings()
        assert "secret" not in str(refused.value)
