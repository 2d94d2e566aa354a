"""The definitions of one org's assets, for a code location of ours or beside a user's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from sfcdc_assets.notices.notice import Subscriber
from sfcdc_assets.orchestration.assets.event_tables import build_event_tables
from sfcdc_assets.orchestration.assets.front_doors import entity_names, front_door_specs
from sfcdc_assets.orchestration.assets.kept_views import build_kept_views
from sfcdc_assets.orchestration.assets.manual_runs import build_raw_events, build_snapshot, build_tables
from sfcdc_assets.orchestration.assets.push_topic_state import build_push_topic_state
from sfcdc_assets.orchestration.assets.specs import channel_specs, consistent_cuts_spec
from sfcdc_assets.orchestration.checks.evaluations import build_checks
from sfcdc_assets.orchestration.checks.events import build_event_checks
from sfcdc_assets.orchestration.checks.topics import build_topic_checks
from sfcdc_assets.orchestration.jobs import PACK, READ_FORMULAS, build_jobs, build_layers_job
from sfcdc_assets.orchestration.org_assets import PREFIX, OrgAssets
from sfcdc_assets.orchestration.resources import build_resources
from sfcdc_assets.orchestration.schedules import build_schedules
from sfcdc_assets.orchestration.sensors.channel import build_channel_sensor
from sfcdc_assets.orchestration.sensors.notices import build_notices_sensor
from sfcdc_assets.orchestration.sensors.upkeep import build_formula_sensor, build_lost_runs_sensor, build_packing_sensor
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.given_settings import settings_of
from sfcdc_assets.settings.settings import Settings, load_settings

_PART = re.compile(r"[A-Za-z0-9_-]+")
IN_SEVERAL_PROCESSES = ("multiprocess", "multi_or_in_process_executor")
Translation = Callable[[dg.AssetSpec], dg.AssetSpec]


def build_defs(  # noqa: PLR0913 - each is what another project may have otherwise
    settings: Settings | Mapping[str, Any] | Callable[[], Settings] | None = None,
    key_prefix: str | Sequence[str] = PREFIX,
    group_name: str | None = None,
    executor: dg.ExecutorDefinition = dg.in_process_executor,
    *,
    owners: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    docs_url: str | None = None,
    translation: Translation | None = None,
    notices: Subscriber | None = None,
) -> dg.Definitions:
    """Return the definitions of an org, to be merged with others (`dagster.Definitions.merge`): also of several orgs in
    one process, each with a prefix of its own.

    `settings`: the org's, by default those of the environment, read when a run or a tick begins; a mapping has values
    by the names of settings in lower case (`client_id`) and takes nothing from the environment. `key_prefix`: how the
    keys of all assets begin, and, joined by `_`, the names of jobs, sensors, schedules, resources, partitions, pools
    and concurrency keys. `group_name`: of the entities' assets, and how the names of the other groups begin; the prefix
    by default. `executor`: of our jobs alone, one that runs the steps of a run in one process. `owners`: of all assets,
    instead of SFCDC_OWNERS; `kinds`: of the entities' assets, at most three. `docs_url`: where the pages of docs/ are
    served, for links. `translation`: changes the spec of an asset (description, group, kinds, owners, tags, metadata,
    automation), but for its key, to which others refer. `notices`: a function that is called with what needs a person
    (docs/notices.md), beside SFCDC_NOTICE_WEBHOOK.

    Raises `SettingsError`.
    """
    if executor.name in IN_SEVERAL_PROCESSES:
        remedy = "Use dagster.in_process_executor, or leave it out; other people's jobs keep theirs"
        raise SettingsError("executor", f"{executor.name} starts a process for each step of a run", remedy)
    prefix = _parts_of(key_prefix)
    assets = OrgAssets(_how_had(settings), prefix, group_name, executor, owners, kinds, docs_url)
    return definitions_of(assets, translation, notices)


def _parts_of(key_prefix: str | Sequence[str]) -> tuple[str, ...]:
    """Return the parts that all keys begin with. Raises `SettingsError` for none, and for what Dagster takes into no
    name: its own refusal would name a job that nobody has written."""
    parts = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    if not parts or not all(_PART.fullmatch(each) for each in parts):
        written = key_prefix if isinstance(key_prefix, str) else list(parts)
        remedy = "Write it as salesforce, or as a list of several parts: [salesforce, emea]"
        raise SettingsError("key_prefix", f"{written!r} is no name of letters, digits, _ and -", remedy)
    return parts


def _how_had(settings: Settings | Mapping[str, Any] | Callable[[], Settings] | None) -> Callable[[], Settings]:
    if settings is None:
        return load_settings
    if callable(settings):
        return settings
    given = settings if isinstance(settings, Settings) else settings_of(settings)
    return lambda: given


def definitions_of(
    assets: OrgAssets, translation: Translation | None = None, notices: Subscriber | None = None
) -> dg.Definitions:
    """Return the definitions of an org. Raises `SettingsError`."""
    settings, jobs, layers = assets.settings(), build_jobs(assets), build_layers_job(assets)
    feeding, others = settings.feeding_channels, settings.event_channels
    kept_views, entities = build_kept_views(assets), entity_names(settings)
    built = dg.Definitions(
        assets=[
            *channel_specs(assets, feeding),
            build_raw_events(assets, feeding),
            build_snapshot(assets),
            build_tables(assets),
            consistent_cuts_spec(assets),
            *front_door_specs(assets, entities),
            *build_event_tables(assets, others),
            *build_push_topic_state(assets, others),
            *(kept_views.assets or ()),
        ],
        asset_checks=[
            *build_checks(assets),
            *build_event_checks(assets, others),
            *build_topic_checks(assets, others),
        ],
        jobs=[*jobs.values(), layers, *(kept_views.jobs or ())],
        sensors=[
            *(build_channel_sensor(assets, channel, jobs, layers, entities) for channel in settings.channels),
            build_lost_runs_sensor(assets, jobs),
            build_packing_sensor(assets, jobs[PACK]),
            build_formula_sensor(assets, jobs[READ_FORMULAS]),
            *build_notices_sensor(assets, notices),
            *(kept_views.sensors or ()),
        ],
        schedules=build_schedules(assets, jobs),
        resources=dict(build_resources(assets)),
    )
    return built if translation is None else built.map_asset_specs(func=_with_its_key(translation))


def _with_its_key(translation: Translation) -> Translation:
    def translated(spec: dg.AssetSpec) -> dg.AssetSpec:
        found = translation(spec)
        if found.key != spec.key:
            problem = f"gives {spec.key.to_user_string()} the key {found.key.to_user_string()}"
            raise SettingsError("translation", problem, "Runs report under the key: change key_prefix instead")
        return found

    return translated
