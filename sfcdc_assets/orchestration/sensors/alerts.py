"""Alerts to a webhook: a run that failed, an entity that lags. There are none unless SFCDC_ALERT_WEBHOOK is set.

The body is `{"text": "..."}`, which Slack and Mattermost take. The address is a secret: it is in no log and no message.
"""

import json

import dagster as dg
import requests

from sfcdc_assets.entities.freshness import EntityLag, lags
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.resources import LakeResource
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import Settings, load_settings

TIMEOUT_SECONDS = 10.0
LAG_INTERVAL_SECONDS = 60
LONGEST_TEXT = 3_000
"""Slack cuts a message of 4,000 characters."""


class AlertNotSent(SfcdcError):
    """The webhook did not take an alert."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The webhook of SFCDC_ALERT_WEBHOOK did not take the alert ({reason}). The next tick tries again; check "
            "the address, and whether this machine reaches it."
        )


def send(settings: Settings, text: str) -> None:
    """Post it. Raises `AlertNotSent`, which names no address."""
    webhook = settings.alert_webhook
    if webhook is None:
        return
    if settings.org is not None:
        text = f"{settings.org}: {text}"
    try:
        answer = requests.post(
            webhook.get_secret_value(),
            json={"text": text[:LONGEST_TEXT]},
            timeout=TIMEOUT_SECONDS,
            allow_redirects=False,
        )
    except requests.RequestException as error:
        raise AlertNotSent(type(error).__name__) from None
    if answer.status_code >= 300:
        raise AlertNotSent(f"HTTP {answer.status_code}")


def alert_sensors(settings: Settings) -> list[dg.SensorDefinition]:
    """Build both sensors, on, if there is a webhook."""
    return [alert_on_failure, alert_on_lag] if settings.alert_webhook is not None else []


@dg.run_failure_sensor(
    name="alert_on_failure",
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=as_set_here("Posts each failed run to SFCDC_ALERT_WEBHOOK, with the entities that failed and why."),
)
def alert_on_failure(context: dg.RunFailureSensorContext) -> None:
    """Post what failed."""
    run = context.dagster_run
    reasons = [reason for event in context.get_step_failure_events() if (reason := _reason(event))]
    description = "\n".join(reasons or [context.failure_event.message or "its log has the reason"])
    send(load_settings(), f"Run {run.run_id[:8]} of {run.job_name} failed. The next tick tries again.\n{description}")


@dg.sensor(
    name="alert_on_lag",
    minimum_interval_seconds=LAG_INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=as_set_here(
        "Posts to SFCDC_ALERT_WEBHOOK when an entity's table is more than SFCDC_FRESHNESS_MINUTES behind, and "
        "when it has caught up. Reads tables only."
    ),
)
def alert_on_lag(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult:
    """One message for each change; the cursor has the entities that were reported as late."""
    late, text = news(lake.warehouse(), load_settings(), json.loads(context.cursor or "[]"))
    if text:
        send(load_settings(), text)
    said = f"{', '.join(late)} late." if late else "No entity is late."
    return dg.SensorResult(skip_reason=said, cursor=json.dumps(late))


def news(warehouse: Warehouse, settings: Settings, reported: list[str]) -> tuple[list[str], str | None]:
    """Return who is late now, and what is to be reported beside what was."""
    found = lags(warehouse, settings, clock.now_ms())
    late = {lag.entity: lag for lag in found if lag.is_late(settings)}
    lines = [_late(late[entity], settings) for entity in sorted(late) if entity not in reported]
    lines += [f"{entity} has caught up." for entity in sorted(reported) if entity not in late]
    return sorted(late), "\n".join(lines) or None


def _late(lag: EntityLag, settings: Settings) -> str:
    return as_set_here(
        f"{lag.entity} is late: {counted(lag.events, 'event')} landed and not applied, the oldest committed "
        f"{lag.seconds / 60:.0f} minutes ago ({settings.freshness_minutes:g} are allowed by SFCDC_FRESHNESS_MINUTES)."
    )


def _reason(event: dg.DagsterEvent) -> str | None:
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    if data.error is not None:
        return str((data.error.cause or data.error).message.strip().splitlines()[0])
    return None
