"""One org's assets in a Dagster instance: how its settings are had, and how all that is built for it is named.

Everything in this package is built from such a value by functions, and nothing of it is read from the environment when
a module is imported. So one process may serve several orgs, beside a user's own assets: what Dagster lists once for an
instance or a code location (keys, jobs, sensors, resources, partitions, pools, concurrency keys) begins with the
prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import dagster as dg

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.keys import AssetKeys
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.settings.channel_kinds import ChannelKind
from sfcdc_assets.settings.setting_values import this_org
from sfcdc_assets.settings.settings import Settings, load_settings

PREFIX = "salesforce"
CONCURRENCY_TAG = "sfcdc/concurrency_key"
CHANNEL_TAG = "sfcdc/channel"
"""Of runs that a channel's sensor asked for."""
"""At most one run at a time for each of its values (dagster.yaml). Runs without it wait for nobody."""
PREFIX_TAG = "sfcdc/prefix"
"""Of all runs of our jobs: whose they are."""
LONGEST_RUN_SECONDS = 7_200
"""Where the instance watches its runs: longer work goes on in the next one where it stopped."""
_PARTITIONS = {
    ChannelKind.PUSH_TOPIC: "push_topic",
    ChannelKind.GENERIC: "generic_channel",
    ChannelKind.PLATFORM_EVENT: "platform_event",
}


@dataclass(frozen=True)
class OrgAssets:
    """`settings` is called when a run or a tick begins, and when definitions load; it raises `SettingsError`.

    Secrets are in what it returns alone: neither here nor in any configuration that Dagster shows.
    """

    settings: Callable[[], Settings] = field(default=load_settings, repr=False)
    prefix: tuple[str, ...] = (PREFIX,)
    group_name: str | None = None
    """How the names of the groups begin; the prefix by default."""
    executor: dg.ExecutorDefinition = field(default=dg.in_process_executor, repr=False)
    """Of our jobs, whose steps hand values on in memory and share one Spark."""
    given_owners: Sequence[str] | None = None
    """Of all assets, instead of those of the settings."""
    kinds: Sequence[str] | None = None
    """Of the entities' own assets."""
    docs_url: str | None = None
    """Where the pages of docs/ are served."""

    @classmethod
    def of_this_process(cls) -> OrgAssets:
        """Return those of the org that the environment names, one of several or the only one."""
        org = this_org()
        return cls(prefix=(PREFIX,) if org is None else (PREFIX, org))

    @cached_property
    def keys(self) -> AssetKeys:
        """The keys of the assets."""
        return AssetKeys(self.prefix)

    @cached_property
    def begins(self) -> str:
        """How names begin: `salesforce`, `salesforce_emea`."""
        return re.sub(r"\W", "_", "_".join(self.prefix))

    @property
    def owners(self) -> list[str]:
        """The owners of every asset: teams and e-mail addresses."""
        return list(self.settings().owners if self.given_owners is None else self.given_owners)

    def page(self, page: str, about: str) -> dg.MetadataValue:
        """Return where a page of docs/ explains something: a link, if it is known where the pages are served."""
        if self.docs_url is None:
            return dg.MetadataValue.text(f"docs/{page}.md, `{about}`")
        return dg.MetadataValue.url(f"{self.docs_url.rstrip('/')}/{page}/")

    def name(self, name: str) -> str:
        """Return a name that an instance, or a code location, has once: of a job, sensor, schedule, op, resource, pool
        or partitions definition. `sync` -> `salesforce_sync`."""
        return f"{self.begins}_{name}"

    def short(self, name: str) -> str:
        """Return what `name` was given."""
        return name.removeprefix(f"{self.begins}_")

    def group(self, name: str | None = None) -> str:
        """Return the name of a group of ours: `salesforce_landing`; that of the entities without a name."""
        begins = self.group_name or self.begins
        return begins if name is None else f"{begins}_{name}"

    @cached_property
    def entities(self) -> dg.DynamicPartitionsDefinition:
        """API names of entities. Dagster's list of keys may be lost: the sensor rebuilds it from the tables and the
        org."""
        return dg.DynamicPartitionsDefinition(name=self.name("entity"))

    def folders(self, kind: ChannelKind) -> dg.DynamicPartitionsDefinition:
        """Folders of the tables of channels of a kind (see `channel_kinds.folder_of`)."""
        return dg.DynamicPartitionsDefinition(name=self.name(_PARTITIONS[kind]))

    def concurrency_key(self, channel: str, job: str) -> str:
        """Return the concurrency key of a job on a channel: a long snapshot does not hold up the channel's events, nor
        one org another's."""
        return f"{self.name(job)} {channel}"

    def one_at_a_time(self, job: str) -> dict[str, str]:
        """Tags of a job of which schedules and people launch one run at a time. A sensor asks for runs of a channel."""
        return {CONCURRENCY_TAG: self.name(job), **self.tags}

    @property
    def tags(self) -> dict[str, str]:
        """Tags of all our jobs."""
        return {PREFIX_TAG: self.begins, "dagster/max_runtime": str(LONGEST_RUN_SECONDS)}

    def warehouse(self) -> Warehouse:
        """Return the org's tables; raises `WarehouseNotWritable` before anything else is done."""
        warehouse = Warehouse(self.settings().warehouse)
        warehouse.check_writable()
        return warehouse

    @contextmanager
    def connect(self, warehouse: Warehouse) -> Iterator[OrgConnection]:
        """Open a session with the org for work on the warehouse, closed at the end. Raises `WrongOrganization`."""
        with open_org(warehouse, self.settings()) as org:
            yield org
