"""The sensor of notices in an instance of its own, and the webhook that it posts to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg
import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.notices.kept_outbox import kept_outbox
from sfcdc_assets.notices.notice import Notice
from sfcdc_assets.orchestration.assets.entity_failures import failure_of
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.sensors.notices import build_notices_sensor
from sfcdc_assets.runtime.errors import PortInUseError, SettingsError
from sfcdc_assets.settings.notice_kinds import NoticeKind
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.notices.webhook_server import Webhook, webhook_server
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook_server() as server:
        monkeypatch.setenv("SFCDC_NOTICE_WEBHOOK", server.url)
        yield server


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with instance_in_memory() as instance:
        yield instance


class Sensor:
    """Ticks, with the cursor of the tick before."""

    def __init__(self, instance: dg.DagsterInstance, notices: object = None) -> None:
        (self.sensor,) = build_notices_sensor(OrgAssets(), notices)  # type: ignore[arg-type]
        self.instance = instance
        self.cursor: str | None = None

    def tick(self) -> str:
        with dg.build_sensor_context(self.instance, cursor=self.cursor, sensor_name=self.sensor.name) as context:
            result = self.sensor(context)
            self.cursor = context.cursor
        assert isinstance(result, dg.SkipReason)
        return str(result.skip_message)


def fail(instance: dg.DagsterInstance, error: Exception, name: str = "salesforce_sync") -> str:
    @dg.op
    def apply() -> None:
        raise error

    @dg.job(name=name)
    def job() -> None:
        apply()

    return job.execute_in_process(instance=instance, raise_on_error=False).run_id


def test_a_failed_run_is_posted_once_with_the_entity_and_the_reason(
    webhook: Webhook, instance: dg.DagsterInstance
) -> None:
    fail(instance, ValueError("before the first look"))
    sensor = Sensor(instance)
    assert sensor.tick() == "0 notices sent, 0 waiting."
    run_id = fail(instance, failure_of("Contact", OSError(28, "No space left on device")))
    assert sensor.tick() == "1 notice sent, 0 waiting."
    assert sensor.tick() == "0 notices sent, 0 waiting."
    assert webhook.texts == [
        f"Run {run_id[:8]} of salesforce_sync failed. Contact: No space left on device. The next tick tries again.\n"
        "More about this: docs/failures.md#when-a-run-failed"
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            failure_of("Contact", ValueError("Müller is no number")),
            "Contact: ValueError (the run's log has its message)",
        ),
        (ValueError("Müller is no number"), "ValueError (the run's log has its message)"),
        (PortInUseError("x", 3000), "Port 3000 for x cannot be listened on"),
    ],
)
def test_what_a_library_says_of_a_value_leaves_the_machine_in_no_notice(
    webhook: Webhook, instance: dg.DagsterInstance, error: Exception, said: str
) -> None:
    sensor = Sensor(instance)
    sensor.tick()
    fail(instance, error)
    sensor.tick()
    (text,) = webhook.texts
    assert said in text
    assert "Müller" not in text


def test_a_webhook_that_is_down_gets_it_later_even_after_a_restart_without_dagsters_cursor(
    webhook: Webhook, instance: dg.DagsterInstance
) -> None:
    sensor = Sensor(instance)
    sensor.tick()
    fail(instance, ValueError())
    webhook.status = 503
    said = sensor.tick()
    assert said.startswith("0 notices sent, 1 waiting. webhook: The webhook of SFCDC_NOTICE_WEBHOOK did not take")
    assert "HTTP 503" in said
    assert "services" not in said
    webhook.status = 200
    later = Sensor(instance)
    assert later.tick() == "0 notices sent, 1 waiting."  # its pause goes on
    (queue,) = (
        each for each in kept_outbox(Warehouse(load_settings().warehouse)).queues["webhook"].values() if each.notices
    )
    assert (queue.tries, queue.due_ms - queue.tried_ms) == (1, 60_000)


def test_a_function_is_called_with_or_without_a_webhook(instance: dg.DagsterInstance) -> None:
    read: list[Notice] = []

    def function(notices: Sequence[Notice]) -> None:
        read.extend(notices)

    sensor = Sensor(instance, function)
    sensor.tick()
    run_id = fail(instance, ValueError())
    sensor.tick()
    assert [(each.kind, each.key) for each in read] == [(NoticeKind.FAILED_RUNS, run_id)]


def test_runs_of_others_are_told_of_by_others(instance: dg.DagsterInstance) -> None:
    read: list[Notice] = []
    (sensor,) = build_notices_sensor(OrgAssets(), read.extend)
    for cursor in (None, "0"):
        fail(instance, ValueError(), name="another_teams_job")
        with dg.build_sensor_context(instance, cursor=cursor) as context:
            sensor(context)
    assert read == []


def test_without_the_setting_there_is_no_sensor_and_an_address_has_to_be_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build_notices_sensor(OrgAssets()) == []
    monkeypatch.setenv("SFCDC_NOTICE_WEBHOOK", "https://hooks.example/secret")
    assert [sensor.name for sensor in build_notices_sensor(OrgAssets())] == ["salesforce_send_notices"]
    assert "hooks.example" not in repr(load_settings())
    for unsafe in ("hooks.example/secret", "http://hooks.example/secret", "http://127.0.0.1.example/secret"):
        monkeypatch.setenv("SFCDC_NOTICE_WEBHOOK", unsafe)
        with pytest.raises(SettingsError, match="https://") as refused:
            load_settings()
        assert "secret" not in str(refused.value)


def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_NOTICES", "late, suspects")
    assert load_settings().notices == (NoticeKind.LATE, NoticeKind.SUSPECTS)
    monkeypatch.setenv("SFCDC_NOTICES", "late,later")
    with pytest.raises(SettingsError, match=r"SFCDC_NOTICES: .*schema_changes"):
        load_settings()
