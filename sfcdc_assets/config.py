"""The settings of a client of the org: read from the environment and a `.env` file, checked once, named in errors.

Secrets are `SecretStr`: they have no readable form until the one place that sends them asks for it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from dotenv import dotenv_values
from pydantic import Field, PrivateAttr, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from sfcdc_assets.channel_kinds import (
    COMETD,
    ONLY_COMETD,
    PUBSUB,
    carries_changes,
    kind_of,
    managed_name,
    protocol_of,
    split_channels,
)
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.setting_names import PREFIX, check_names

_FIELD_PATTERN = re.compile(r"[\w*?\[\]!-]+\.([\w*?\[\]!-]+)", re.ASCII)
DOTENV = ".env"
_OWNER = re.compile(r"team:[A-Za-z0-9_.\- ]+|[^@\s]+@[^@\s]+\.[^@\s]+")
SPARK_CONF = "SFCDC_SPARK_CONF_"
"""Settings that begin so are options of Spark."""
VISIBILITY_SECONDS = 5.0
KEPT_FIELDS = frozenset({"Id", "IsDeleted", "SystemModstamp", "MasterRecordId"})
"""Fields that the copy itself is kept with: the key of every table, and what became of a record."""


class Settings(BaseSettings):
    """One org, one warehouse, one Spark. Every field is the environment variable `SFCDC_<NAME>`; see the README."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=DOTENV, extra="ignore", env_ignore_empty=True)

    warehouse: str = "./warehouse"
    """Root URI of the tables: a folder, or an object store URI that deltalake understands."""
    channels: Annotated[tuple[str, ...], NoDecode] = ("/data/ChangeEvents",)
    """Channels to subscribe to, comma-separated: of change events (`/data/...`; where two carry one entity, the first
    one's events are applied), PushTopics (`/topic/...`, with a filter if you like), generic channels (`/u/...`) and
    platform events (`/event/...`). `managed:<DeveloperName>` reads change events through a managed event subscription,
    `pubsub:` or `cometd:` before a channel names the protocol for it alone."""
    _protocols: dict[str, str] = PrivateAttr(default_factory=dict)
    """By channel, where its name has the protocol before it."""
    channel_schemas: Path | None = None
    """Folder of TOML files that say what the JSON is that applications push to generic channels: a file a channel."""
    entities: Annotated[tuple[str, ...], NoDecode] = ()
    """Only these entities; empty means every entity the channels carry."""

    push_topics: Path = Path("push_topics")
    """Folder with the definitions of PushTopics, one TOML file a topic; `sfcdc topics apply` brings the org to them."""

    exclude: Annotated[tuple[str, ...], NoDecode] = ()
    """Columns that reach no table but `raw_events`: `Entity.Field`, comma-separated, with `*` in either part."""
    hash: Annotated[tuple[str, ...], NoDecode] = ()
    """Columns of which the tables hold a keyed hash only; written as in `exclude`, which wins over this."""
    hash_key: SecretStr | None = Field(default=None, validate_default=True)
    """Key of the hashes; needed as soon as `hash` names columns."""
    payload_retention_days: int | None = Field(default=None, ge=3)
    """After so many days `raw_events` gives up the payloads of events that a newer snapshot stands for; None: never.
    Salesforce itself keeps events for three days."""

    cut_retention_days: int = Field(default=7, ge=1, le=28)
    """How long a consistent cut can be opened. The tables' logs are kept for 30 days, so no cut can be for longer."""

    instance_url: str | None = None
    """`https://<My Domain>.my.salesforce.com`; taken from the token response when not given."""
    login_url: str = "https://login.salesforce.com"
    """Where tokens are asked for; for client credentials this must be the My Domain host."""
    org_id: str | None = None
    """Organization id (15 or 18 characters); asked from userinfo when not given."""
    access_token: SecretStr | None = None
    client_id: str | None = None
    client_secret: SecretStr | None = None
    username: str | None = None
    password: SecretStr | None = None
    security_token: SecretStr | None = None
    private_key_file: Path | None = None
    transport: Literal["pubsub", "cometd"] = "pubsub"
    """The protocol that events are read by: the Pub/Sub API, or the Streaming API where only HTTPS to the org is open.
    When it is changed, every entity is read again once."""
    pubsub_endpoint: str = "api.pubsub.salesforce.com:7443"
    """`host:port` of the Pub/Sub API; always TLS."""
    ca_file: Path | None = None
    """An extra root certificate (PEM), for an emulated org or a TLS-inspecting proxy."""

    replay_preset: Literal["EARLIEST", "LATEST"] = "EARLIEST"
    """Where a channel without a checkpoint is begun: with the events that the org still has, or with those that come
    from then on. What lies before is read by snapshots either way."""
    settle_seconds: float = Field(default=10.0, gt=0)
    """How old the last event must be, on a stream that stayed open and had answered, before its transaction counts as
    complete without a following one."""
    visibility_seconds: float = Field(default=VISIBILITY_SECONDS, ge=0)
    """How late the org's REST side usually shows a commit that the stream has brought; watermarks of reads lie that
    far back. For sixty times as long a read that contradicts an event is not believed."""

    describe_seconds: float = Field(default=900.0, ge=0)
    """How often an object with changes is described again: some changes of fields show nowhere else. Each costs one API
    request."""

    vanish_percent: float = Field(default=10.0, ge=0, le=100)
    vanish_rows: int = Field(default=20, ge=0)
    """A read of the org after which more than this share and this number of an entity's living rows would be gone is
    not applied until a person accepts it."""

    freshness_minutes: float = Field(default=15.0, gt=0)
    """How long after its commit in the org an event may be without being in the tables before that is reported."""
    audit_percent: float = Field(default=1.0, ge=0, le=50)
    """The share of the org's daily API requests that the rolling audit may use; 0 switches it off."""
    alert_webhook: SecretStr | None = None
    """Address to which failed runs and late entities are posted as JSON, as Slack's incoming webhooks take it."""
    run_retention_days: int = Field(default=14, ge=1)
    """How long Dagster keeps runs and events; the latest of each partition and check are kept for ever."""
    owners: Annotated[tuple[str, ...], NoDecode] = ("team:data-platform",)
    """Owners of the assets in Dagster, comma-separated: e-mail addresses, and teams as `team:name`."""

    spark_master: str = "local[*]"
    spark_remote: str | None = None
    """URL of a Spark Connect server (`sc://host:15002`); replaces `spark_master`."""
    spark_standing: Path = Path(".sfcdc/spark.json")
    """Where `sfcdc spark` notes how its Spark is reached; commands and runs use that one while it is there."""

    @field_validator("channels", mode="before")
    @classmethod
    def _channels_apart(cls, value: object) -> object:
        return split_channels(value) if isinstance(value, str) else value

    @field_validator("entities", "exclude", "hash", "owners", mode="before")
    @classmethod
    def _comma_separated(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("channels")
    @classmethod
    def _channel_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("is empty; name at least one channel, such as /data/ChangeEvents")
        written = tuple(dict.fromkeys(value))
        names = [protocol_of(each)[0] for each in written]
        for name in names:
            kind_of(name)
            if names.count(name) > 1:
                raise ValueError(f"names {name} twice, with another protocol; choose one")
        return written

    @field_validator("alert_webhook")
    @classmethod
    def _web_address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("https://", "http://")):
            raise ValueError("is no web address; it begins with https://")
        return value

    @field_validator("owners")
    @classmethod
    def _teams_and_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for owner in value:
            if not _OWNER.fullmatch(owner):
                raise ValueError(f"{owner!r} is neither an e-mail address nor written as team:name")
        return value

    @field_validator("exclude", "hash")
    @classmethod
    def _field_patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            match = _FIELD_PATTERN.fullmatch(pattern)
            if match is None:
                raise ValueError(f"{pattern!r} does not name columns; write it as Contact.Email, *.Phone or Lead.*")
            if match[1] in KEPT_FIELDS:
                raise ValueError(
                    f"{pattern!r}: {match[1]} is what the copy is kept with and can be neither left out nor hashed"
                )
        return value

    @field_validator("hash_key")
    @classmethod
    def _key_of_the_hashes(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if info.data.get("hash") and value is None:
            raise ValueError("is not set, and SFCDC_HASH needs a key; a long random text, and keep it")
        return value

    @field_validator("replay_preset", mode="before")
    @classmethod
    def _as_salesforce_writes_it(cls, value: object) -> object:
        preset = value.strip().upper() if isinstance(value, str) else value
        if preset not in ("EARLIEST", "LATEST"):
            raise ValueError(f"{value!r} is neither EARLIEST nor LATEST")
        return preset

    @field_validator("pubsub_endpoint")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit() or "/" in host:
            raise ValueError(f"{value!r} is not host:port; Salesforce's own is api.pubsub.salesforce.com:7443")
        return value

    @field_validator("instance_url", "login_url")
    @classmethod
    def _https(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.startswith("https://"):
            raise ValueError(f"{value!r} does not start with https://")
        return value.rstrip("/")

    @field_validator("ca_file", "private_key_file")
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        if value is not None and not os.access(value, os.R_OK):
            raise ValueError(f"the file {value} cannot be read")
        return value

    @model_validator(mode="after")
    def _protocols_apart(self) -> Settings:
        """The channels are known by their names from here on, so that a table goes on when its protocol changes."""
        named = [protocol_of(written) for written in self.channels]
        self._protocols = {**self._protocols, **{name: protocol for name, protocol in named if protocol is not None}}
        self.channels = tuple(name for name, _ in named)
        return self

    def transport_of(self, channel: str) -> str:
        """The protocol that a channel is read by: the one before its name in `channels`, the only one that has it, or
        that of `transport`."""
        if kind_of(channel) in ONLY_COMETD:
            return COMETD
        return PUBSUB if managed_name(channel) is not None else self._protocols.get(channel, self.transport)

    @property
    def change_channels(self) -> tuple[str, ...]:
        """Those of the channels that carry change events."""
        return tuple(channel for channel in self.channels if carries_changes(channel))

    @property
    def event_channels(self) -> tuple[str, ...]:
        """The others: each has an append-only table of its own."""
        return tuple(channel for channel in self.channels if not carries_changes(channel))

    @property
    def spark_conf(self) -> dict[str, str]:
        """`SFCDC_SPARK_CONF_spark.executor.memory=4g` or `SFCDC_SPARK_CONF_SPARK__EXECUTOR__MEMORY=4g`, as options.

        A shell cannot export a name with a dot, so a double underscore stands for one and the name is lowered.
        """
        options = {}
        for name, value in {**dotenv_settings(), **os.environ}.items():
            if name.startswith(SPARK_CONF) and value:
                option = name[len(SPARK_CONF) :]
                options[option if "." in option else option.lower().replace("__", ".")] = value
        return options


SECRETS = frozenset(
    f"{PREFIX}{name.upper()}" for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
)
"""Settings whose values are shown nowhere."""


def dotenv_settings() -> dict[str, str]:
    """What `.env` in the working folder says; nothing when there is none."""
    return {name: value or "" for name, value in dotenv_values(DOTENV).items()}


def load_settings() -> Settings:
    """Read and check the settings.

    Raises `SettingsError` naming the first wrong setting, or name; values of secrets never appear in it.
    """
    known = [f"{PREFIX}{name.upper()}" for name in Settings.model_fields]
    check_names([*os.environ, *dotenv_settings()], known, families=[SPARK_CONF])
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        setting = "SFCDC_" + str(first["loc"][0]).upper() if first["loc"] else "SFCDC_*"
        problem = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
        raise SettingsError(setting, problem, "Correct it in the environment or in .env") from None
