"""What a run of a job is about, as its configuration says it: the sensor's door and a person's are the same."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from sfcdc_assets.landing.run_lander import LandedOnly, Lander, Poller
from sfcdc_assets.orchestration.assets.entity_failures import chosen
from sfcdc_assets.orchestration.org_assets import CHANNEL_TAG, CONCURRENCY_TAG, OrgAssets
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import Settings

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""Statuses of runs that are queued or at work."""
AT_WORK = UNFINISHED[1:]
"""Those of runs that are not in the queue any more."""

ALONE_SECONDS = 120.0
"""How long copies go on in a process that lands nothing meanwhile (`sfcdc sync`)."""
SYNC, SNAPSHOT = "sync", "snapshot"
"""The jobs that sensors of channels ask for, by their short names."""
LONG = {"sfcdc/work": "long"}
"""Tag of jobs that may take long: dagster.yaml leaves slots to those that apply events."""
AFTER = {"after": dg.In(dg.Nothing)}
"""Inputs of a step that follows another one; what that has found is in the run's scope."""

FIRST_STEPS = {SYNC: "land", SNAPSHOT: "choose"}
"""Job -> its step that has the configuration."""


class RunRequestConfig(dg.Config):
    """Which entities a run looks at, and whether it reads the stream itself. Without any of it: all, and it does."""

    channel: str | None = None
    """Only entities that this channel feeds."""
    entities: list[str] = []  # noqa: RUF012 - a field of a Dagster config
    """Only these."""
    landed_through_ms: int | None = None
    """Given by the channel's sensor, which has landed already what it has of the stream: all that the org committed
    before this time (epoch ms, UTC). The run then applies what is there and does not subscribe a second time."""
    follow_seconds: float = 0.0
    """Given by the sensor too: how long the run goes on with what is landed meanwhile."""
    takes_over: str | None = None
    """Given by the sensor too: the run after whose last batch this one begins."""
    for_seconds: float = 0.0
    """Given by the sensor too: how long the run begins and goes on with copies of entities; the next one has the rest.
    0: until all are done."""

    def lander(self, run: OrgRunContext) -> Lander:
        """Return how the run lands."""
        if self.landed_through_ms is None or self.channel is None:
            return Poller(run.warehouse, run.org, run.settings.settle_seconds, run_id=run.run_id)
        return LandedOnly(run.warehouse, {self.channel: self.landed_through_ms})

    def of(self, known: dict[str, str], settings: Settings) -> dict[str, str]:
        """Return the run's entities with their channels. Raises `UnknownEntity`."""
        entities = chosen(known, self.entities, settings.channels) if self.entities else known
        return {entity: of for entity, of in entities.items() if self.channel in (None, of)}


def config_of(job: str, **config: Any) -> dict[str, Any]:
    """Return the run configuration of a job with these fields of `RunRequestConfig`."""
    return {"ops": {FIRST_STEPS[job]: {"config": config}}}


def request_of_sensor(
    assets: OrgAssets, job: str, channel: str, landed_through_ms: int, **more: float | str
) -> dg.RunRequest:
    """Return a run over what the channel's entities have to be done, of what has landed; `more`: `follow_seconds`,
    `takes_over`, `for_seconds`. There is no run key: it would swallow the retry of a failed run."""
    config: dict[str, Any] = {"channel": channel, "landed_through_ms": landed_through_ms, **more}
    return dg.RunRequest(
        job_name=assets.name(job),
        run_config=config_of(job, **config),
        tags={CONCURRENCY_TAG: assets.concurrency_key(channel, job), CHANNEL_TAG: channel},
    )


def while_nobody_lands(job: str, run_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that a sensor asked for, of a run during which nobody lands: it follows nobody, and
    keeps the stream waiting for no longer than `ALONE_SECONDS`."""
    config = dict(run_config["ops"][FIRST_STEPS[job]]["config"])
    config.pop("follow_seconds", None)
    config.pop("takes_over", None)
    if "for_seconds" in config:
        config["for_seconds"] = min(config["for_seconds"], ALONE_SECONDS)
    return config_of(job, **config)


def add_partitions(assets: OrgAssets, instance: dg.DagsterInstance, entities: dict[str, str]) -> None:
    """Dagster lists partitions by the keys it was given: those of a run that no sensor asked for are added by it."""
    name = assets.entities.name or ""
    known = set(instance.get_dynamic_partitions(name))
    if new := [entity for entity in entities if entity not in known]:
        instance.add_dynamic_partitions(name, new)


def job_of_one_step(
    assets: OrgAssets, name: str, step: str, op: dg.OpDefinition, description: str, tags: Mapping[str, str]
) -> dg.JobDefinition:
    """Return a job with a single step. Ops, as jobs, are named once in a code location, which may serve several
    orgs."""
    return dg.GraphDefinition(
        name=assets.name(name),
        node_defs=[op],
        dependencies={dg.NodeInvocation(op.name, alias=step): {}},
        description=as_set_here(description),
    ).to_job(tags=dict(tags), executor_def=assets.executor)
