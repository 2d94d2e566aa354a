"""The settings of a client of the org: read from the environment and a `.env` file, checked once, named in errors.

Secrets are `SecretStr`: they have no readable form until the one place that sends them asks for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.channel_kinds import (
    COMETD,
    ONLY_COMETD,
    POLLED,
    PUBSUB,
    feeds_entities,
    kind_of,
    managed_name,
    protocol_of,
)
from sfcdc_assets.settings.notice_kinds import BY_DEFAULT
from sfcdc_assets.settings.secrets_in_files import SUFFIX, secret_of
from sfcdc_assets.settings.setting_types import (
    Channels,
    Columns,
    Endpoint,
    Entities,
    EntityNames,
    FormulaPatterns,
    HashKey,
    HostUrl,
    HttpsUrl,
    NoticeKinds,
    ObjectPatterns,
    OrganizationId,
    OrgName,
    OrgNames,
    Owners,
    ReadableFile,
    ReplayPreset,
    SparkMaster,
    WarehouseRoot,
    WebAddress,
)
from sfcdc_assets.settings.setting_values import (
    DOTENV,
    ORG,
    ORGS,
    PREFIX,
    check_apart,
    check_names,
    check_orgs_of,
    dotenv_settings,
    environment,
    first_problem,
    name_for,
    names_of_orgs,
    note_names,
    prefix_of,
    values_of,
)

SPARK_CONF = "SFCDC_SPARK_CONF_"
"""Settings that begin so are options of Spark."""


@cache
def _secret_fields(of: type[BaseSettings]) -> frozenset[str]:
    return frozenset(name for name, field in of.model_fields.items() if "SecretStr" in str(field.annotation))


class _Variables(PydanticBaseSettingsSource):
    """The variables that count for the org: of the environment, then of a file. `asked_for`: the org, where the
    variables do not say which."""

    def __init__(
        self, of: type[BaseSettings], org: str | None, given: Mapping[str, str], asked_for: str | None = None
    ) -> None:
        super().__init__(of)
        self._values = values_of(org, given, of.model_fields, _secret_fields(of))
        if asked_for is not None:
            self._values["org"] = asked_for

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - its form
        """Return the value of one field."""
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the values of all fields."""
        return dict(self._values)


class Settings(BaseSettings):
    """One org, one warehouse, one Spark. Every field is the environment variable `SFCDC_<NAME>`.

    The text below a field is what docs/settings.md and the README say of it, the first sentence alone in the README:
    `make reference` writes them.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=DOTENV, extra="ignore", env_ignore_empty=True)

    orgs: OrgNames = ()
    """Names of several orgs to copy, comma-separated: `emea,apac`. Their settings begin with the name:
    `SFCDC_EMEA_WAREHOUSE`."""
    org: OrgName = None
    """Which of `SFCDC_ORGS` a process serves. `sfcdc --org` and the workspace set it."""

    warehouse: WarehouseRoot = "./warehouse"
    """Folder or URI (`s3://bucket/prefix`) of one org's tables."""
    channels: Channels = ("/data/ChangeEvents",)
    """Channels, comma-separated. Of change events (`/data/ChangeEvents`, `/data/Name__chn`,
    `/data/AccountChangeEvent`), PushTopics (`/topic/Name`), generic channels (`/u/Name`) and platform events
    (`/event/Name__e`). `managed:Name` and `managed:/event/Name` read change events and platform events through a
    managed event subscription. An entity is fed by the first channel that carries it. `cometd:` or `pubsub:` before a
    channel chooses its protocol. `none`: all that is copied is polled (`SFCDC_POLL`)."""
    _protocols: dict[str, str] = PrivateAttr(default_factory=dict)
    """By channel, where its name has the protocol before it."""
    _given: Mapping[str, str] | None = PrivateAttr(default=None)
    """The variables that `load_settings` found; None where they were not loaded by it."""
    channel_schemas: Path | None = None
    """Folder of TOML files, one a generic channel, that describe its JSON."""
    entities: Entities = EntityNames()
    """Only these entities, comma-separated. In any case; a name that no channel carries is refused, unless it was
    copied before."""
    poll: ObjectPatterns = Field(default=(), validate_default=True)
    """Objects, or patterns (`Account*`), that are polled. Comma-separated, because no channel carries them. `*` stands
    for all that can be read and is worth it, but for companions of others (`*Share`, `*Feed`, `*History`, tags), which
    need a pattern of their own; `sfcdc status` says what is left out."""
    poll_exclude: ObjectPatterns = ()
    """Objects, or patterns, that are never polled."""
    poll_seconds: float = Field(default=900.0, ge=10.0)
    """How often a polled object is asked for what changed. One without a change for eight intervals is asked once in
    two, for 32 intervals once in four."""
    poll_percent: float = Field(default=25.0, ge=0, le=100)
    """Share of the org's daily API requests that polls may use, 0 to 100. What it is not enough for waits, longest
    first, and `sfcdc status` says so."""
    poll_objects: Path = Path("polled_objects")
    """Folder of TOML files that say how single objects are polled. One an object (`Invoice__c.toml`);
    docs/polled-objects.md shows one."""
    poll_reread_hours: float = Field(default=24.0, gt=0, le=720)
    """How often what changes without a stamp is compared as a whole. Objects that have none, and fields that the org
    changes by itself (the `Status` of a `Contract`)."""
    poll_overlap_minutes: float = Field(default=10.0, ge=1, le=1440)
    """How far before its last poll each poll of an object begins. What a long transaction changed becomes visible late,
    under stamps from its beginning; most calls may run for ten minutes at most."""
    poll_count_hours: float = Field(default=24.0, gt=0, le=720)
    """How often a polled object's records are counted, to find hard deletes."""

    formulas: FormulaPatterns = ()
    """Formula fields that are read: `all`, `none`, or `Account.Score__c,Case.*`. In the notation of `SFCDC_EXCLUDE`;
    `*` stands for all too. Without it none is, because no change event carries them."""
    formula_seconds: float = Field(default=900.0, ge=10.0)
    """How often to look for formula values that have to be read again."""
    formula_days: float = Field(default=7.0, gt=0, le=365)
    """Days after which every formula value is read again, up to 365. What changed it unseen is found then."""
    formula_percent: float = Field(default=5.0, ge=0, le=50)
    """Share of the org's daily API requests for reading formulas, 0 to 50. What it is not enough for waits, and `sfcdc
    status` says so."""

    push_topics: Path = Path("push_topics")
    """Folder of TOML files, one a PushTopic, that define it. `sfcdc topics apply` brings the org to them."""

    exclude: Columns = ()
    """Columns kept out of every table except `raw_events`: `Contact.Email,*.Phone,Lead.*`. Takes precedence over
    `SFCDC_HASH`."""
    hash: Columns = ()
    """Columns stored as a keyed hash. HMAC-SHA-256 in hex; the notation is that of `SFCDC_EXCLUDE`."""
    hash_key: HashKey = Field(default=None, validate_default=True)
    """The key of the hashes, a long random text. Required with `SFCDC_HASH`."""
    payload_retention_days: int | None = Field(default=None, ge=3)
    """Days after which payloads in `raw_events` expire. At least 3, for which Salesforce itself keeps events. A payload
    stays until a newer snapshot stands for it."""

    cut_retention_days: int = Field(default=7, ge=1, le=28)
    """Days for which a consistent cut can be opened, 1 to 28. The files and log entries that it needs are kept as long.
    After the hours of the next three settings one cut a day is kept."""
    cut_batch_hours: float = Field(default=1.0, ge=0.25, le=48)
    """Hours for which the cut of every batch is kept, 0.25 to 48. Who opens the newest cut can read it for eight
    minutes longer than that at least."""
    cut_minute_hours: float = Field(default=2.0, ge=0.25, le=672)
    """Hours for which one cut a minute is kept, 0.25 to 672."""
    cut_hour_hours: float = Field(default=24.0, ge=1, le=672)
    """Hours for which one cut an hour is kept, 1 to 672."""

    instance_url: HostUrl | None = None
    """`https://<My Domain>.my.salesforce.com`, without a path."""
    login_url: HttpsUrl = "https://login.salesforce.com"
    """Where tokens are requested. For client credentials, the My Domain; for a sandbox, its My Domain or
    `https://test.salesforce.com`."""
    org_id: OrganizationId | None = None
    """Organization id, 15 or 18 characters."""
    access_token: SecretStr | None = None
    """Login 1: a token from elsewhere. It cannot be refreshed."""
    client_id: str | None = None
    """Login 2 and 3: consumer key of the external client app or connected app."""
    client_secret: SecretStr | None = None
    """Login 2, client credentials: the consumer secret."""
    username: str | None = None
    """Login 3 and 4: the integration user."""
    password: SecretStr | None = None
    """Login 4: the integration user's password."""
    security_token: SecretStr | None = None
    """Login 4: the token that Salesforce e-mails. For networks that the org does not trust."""
    private_key_file: ReadableFile | None = None
    """Login 3: PEM file of the key that signs JWT bearer assertions."""
    transport: Literal["pubsub", "cometd"] = "pubsub"
    """How events are read: `pubsub` or `cometd`. `cometd` where only HTTPS to the org gets out. When it is changed,
    every entity is snapshotted once more."""
    pubsub_endpoint: Endpoint = "api.pubsub.salesforce.com:7443"
    """`host:port` of the Pub/Sub API, always TLS. Also `api.deu.pubsub.salesforce.com`, for processing in the EU, and
    port 443."""
    ca_file: ReadableFile | None = None
    """PEM file of an additional root certificate. For an emulated org, or a proxy that inspects TLS."""

    replay_preset: ReplayPreset = "EARLIEST"
    """Where a channel without a checkpoint begins: `EARLIEST` or `LATEST`. `EARLIEST` reads the events of the last 72
    hours, `LATEST` saves their deliveries. Snapshots read what was before either way."""
    settle_seconds: float = Field(default=10.0, gt=0)
    """How long a stream that has answered must stay quiet before its last transaction counts as complete."""
    land_seconds: float = Field(default=1.0, ge=0, le=3600)
    """How often at most a channel that Dagster keeps open lands events between two ticks. Each time is a commit, and a
    file for each entity. `0`: only ticks land, every five seconds."""
    visibility_seconds: float = Field(default=5.0, ge=0)
    """How late REST usually shows a commit that the stream has delivered. Watermarks lie that far back, and for sixty
    times as long a read that contradicts an event is not trusted."""

    describe_seconds: float = Field(default=900.0, ge=0)
    """How often an object with changes is described again, to detect changed fields. Each costs one API request."""

    vanish_percent: float = Field(default=10.0, ge=0, le=100)
    """A read that would remove more than this percentage of an entity's live rows, and more than `SFCDC_VANISH_ROWS`,
    waits for `sfcdc accept`."""
    vanish_rows: int = Field(default=20, ge=0)
    """The number of rows that goes with `SFCDC_VANISH_PERCENT`."""

    views_file: Path | None = None
    """A DuckDB file for the views, written after each sync. They are those of `sfcdc sql` at the newest cut, as by
    `sfcdc views --duckdb`."""
    live_views_file: Path | None = None
    """A DuckDB file with views that follow the newest cut. After each sync it is reported to them, as by `sfcdc views
    --live`."""

    freshness_minutes: float = Field(default=15.0, gt=0)
    """How long an event may wait to be applied before the check `is_fresh` fails. It counts from the event's commit in
    the org."""
    audit_percent: float = Field(default=1.0, ge=0, le=50)
    """Share of the org's daily API requests for the rolling audit, 0 to 50. `0` switches it off."""
    snapshot_reserve_percent: float = Field(default=20.0, ge=0, le=100)
    """Share of the org's daily API requests and Bulk query jobs that snapshots and polls leave to others, 0 to 100.
    With no more than that left, whoever used the rest, they pause."""
    notice_webhook: WebAddress = None
    """A webhook to which notices are posted. As JSON that Slack takes; `SFCDC_NOTICES` says which."""
    notices: NoticeKinds = BY_DEFAULT
    """Which notices are sent, comma-separated. There are `failed_runs`, `late`, `suspects`, `old_suspects`,
    `refused_reads`, `lost_checkpoints`, `schema_changes`."""
    docs_url: HttpsUrl | None = None
    """Where these pages are served, which notices link to. The site's address, or one with `{page}` for a page's name:
    `https://github.com/acme/sfcdc/blob/main/docs/{page}.md`. Without it notices name the page."""
    log_format: Literal["text", "json"] = "text"
    """`json`: each line of a log is a JSON object. Of commands, the code server and what `sfcdc dev` starts."""
    run_retention_days: int = Field(default=14, ge=1)
    """How many days Dagster keeps runs and events. The latest of each partition and check are kept for ever."""
    sample_rows: int = Field(default=0, ge=0, le=100)
    """How many of the newest rows each materialization shows in Dagster, 0 to 100. Dagster then keeps values of your
    records in its event log, for everybody who may open its pages. `sfcdc forget-samples` deletes them."""
    owners: Owners = ("team:data-platform",)
    """Owners of the assets in Dagster, comma-separated. E-mail addresses, and teams as `team:name`."""

    spark_master: SparkMaster = "local[*]"
    """The Spark master."""
    spark_remote: SecretStr | None = None
    """A Spark Connect URL, such as `sc://host:15002`. Or `sc://host:443/;token=...`. It replaces the master and needs
    no local Java."""
    spark_standing: Path = Path(".sfcdc/spark.json")
    """The file in which `sfcdc spark` notes how its Spark is reached. Commands and runs use that Spark while it is
    there."""
    spark_kept: bool = True
    """Whether Dagster's code location keeps a standing Spark for its runs. Only where the two settings before are not
    set and the master is local. `false`: each run starts one of its own."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - `_Variables` reads them
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources: what the caller gives, then the variables that count for the org."""
        assert isinstance(init_settings, InitSettingsSource)
        assert isinstance(dotenv_settings, DotEnvSettingsSource)
        given = environment(dotenv_settings.env_file)
        org = init_settings.init_kwargs.get("org") or given.get(ORG)
        return init_settings, _Variables(settings_cls, org.lower() if org else None, given)

    @field_validator("poll")
    @classmethod
    def _something_is_copied(cls, poll: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not poll and info.data.get("channels") == ():
            raise ValueError("names no object, and there is no channel: nothing would be copied")
        return poll

    @model_validator(mode="after")
    def _channels_by_name(self) -> Settings:
        """Know the channels by their names from here on, so that a table goes on when its protocol changes; polled
        objects are those of a channel too, the last, so that one which raises events is fed by them."""
        named = [protocol_of(written) for written in self.channels]
        self._protocols = {**self._protocols, **{name: protocol for name, protocol in named if protocol is not None}}
        names = [name for name, _ in named if name != POLLED]
        self.channels = (*names, POLLED) if self.poll else tuple(names)
        return self

    def transport_of(self, channel: str) -> str:
        """Return the protocol that a channel is read by: the one before its name in `channels`, the only one that has
        it, or that of `transport`."""
        if kind_of(channel) in ONLY_COMETD:
            return COMETD
        return PUBSUB if managed_name(channel) is not None else self._protocols.get(channel, self.transport)

    @property
    def feeding_channels(self) -> tuple[str, ...]:
        """Those of the channels that feed entities: of change events, and that of polled objects."""
        return tuple(channel for channel in self.channels if feeds_entities(channel))

    @property
    def event_channels(self) -> tuple[str, ...]:
        """The others: each has an append-only table of its own."""
        return tuple(channel for channel in self.channels if not feeds_entities(channel))

    @property
    def spark_conf(self) -> dict[str, str]:
        """`SFCDC_SPARK_CONF_spark.executor.memory=4g` or `SFCDC_SPARK_CONF_SPARK__EXECUTOR__MEMORY=4g`, as options.

        A shell cannot export a name with a dot, so a double underscore stands for one and the name is lowered.
        """
        given = self._given if self._given is not None else environment()
        options = {}
        for start in dict.fromkeys((SPARK_CONF, f"{prefix_of(self.org)}SPARK_CONF_")):  # the org's own win
            for name, value in given.items():
                if name.startswith(start):
                    option = name[len(start) :]
                    if is_secret_file(name, () if self.org is None else (self.org,)):
                        option = option[: -len(SUFFIX)]
                    held = secret_of(f"{start}{option}", given)
                    options[option if "." in option else option.lower().replace("__", ".")] = held or value
        return options


SECRETS = frozenset(f"{PREFIX}{name.upper()}" for name in _secret_fields(Settings))
"""Settings whose values are shown nowhere."""
SECRET_FILES = frozenset(f"{name}{SUFFIX}" for name in SECRETS)
"""Settings that name the file with the value of one of these."""


_SECRET_OPTION = re.compile(r"secret|password|token|access[._]*key", re.IGNORECASE)
"""Options of Spark that Spark itself redacts (`spark.redaction.regex`)."""


def is_secret(name: str, orgs: Iterable[str]) -> bool:
    """Return whether a variable is one of them, for all orgs or for one, or an option of Spark that holds one."""
    given = name.upper()
    if any(given.startswith(f"{each}SPARK_CONF_") for each in _prefixes(orgs)):
        return _SECRET_OPTION.search(given) is not None and not given.endswith(SUFFIX)
    return any(given.startswith(each) and PREFIX + given.removeprefix(each) in SECRETS for each in _prefixes(orgs))


def is_secret_file(name: str, orgs: Iterable[str]) -> bool:
    """Return whether a variable names a file that holds a secret: the value of another variable, or of an option of
    Spark."""
    return name.upper().endswith(SUFFIX) and is_secret(name[: -len(SUFFIX)], orgs)


def load_settings(org: str | None = None, *, of_all: bool = False) -> Settings:
    """Read and check the settings; `org`: of this one of `SFCDC_ORGS`, and not of the one that the process serves.
    `of_all`: where there are several orgs and the process serves none of them, what holds for all. A process that
    serves an org has the secrets of no other one in its environment from then on, and neither have its children.

    Raises `SettingsError` naming the first wrong setting, or name; values of secrets never appear in it.
    """
    given = environment()
    note_names(given)
    orgs = names_of_orgs(given.get(ORGS), Settings.model_fields)
    fields = [*Settings.model_fields, *(name.removeprefix(PREFIX).lower() for name in sorted(SECRET_FILES))]
    known = [f"{each}{name.upper()}" for each in _prefixes(orgs) for name in fields]
    families = [f"{each}SPARK_CONF_" for each in _prefixes(orgs)]
    names = [*os.environ, *dotenv_settings()]
    check_orgs_of(names, known, fields, orgs)
    check_names(names, known, families=families)
    serves = org or given.get(ORG)
    try:
        # What counts was found above; Pydantic's own sources, which nothing is asked of, take longer than all the rest.
        variables = _Variables(Settings, serves.lower() if serves else None, given, asked_for=org)
        built: dict[str, Any] = {"_build_sources": ((variables,), {})}  # a name that Pydantic's plugin for mypy lacks
        settings = Settings(**built)
    except ValidationError as error:
        field, problem = first_problem(error)
        name = name_for(org or given.get(ORG), field or "*", given)
        if name not in given and f"{name}{SUFFIX}" in given:
            name = f"{name}{SUFFIX}"
        raise SettingsError(name, problem, "Correct it in the environment or in .env") from None
    settings._given = given
    if settings.org is not None:
        if settings.org not in orgs:
            listed = ", ".join(orgs) or "which is not set"
            raise SettingsError(ORG, f"{settings.org!r} is not one of {ORGS} ({listed})", f"Correct it, or {ORGS}")
        check_apart(settings.org, orgs, given)
        if org is None:
            _forget_secrets_of_others(settings.org, orgs)
    elif orgs and not of_all:
        # Otherwise it would work on an empty warehouse, without a login, and report that all is well.
        problem = f"is not set, and {ORGS} lists {', '.join(orgs)}"
        raise SettingsError(ORG, problem, f"Name one: `sfcdc --org {orgs[0]} ...`, or the module sfcdc_assets.orgs")
    return settings


def _forget_secrets_of_others(org: str, orgs: Iterable[str]) -> None:
    others = [each for each in orgs if each != org]
    for name in [name for name in os.environ if is_secret(name, others) and not is_secret(name, (org,))]:
        del os.environ[name]


def _prefixes(orgs: Iterable[str]) -> list[str]:
    return [prefix_of(each) for each in (None, *orgs)]
