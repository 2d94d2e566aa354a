"""The Dagster component: what `build_defs` gives, from a `defs.yaml` of a project that `dg` made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import dagster as dg
from dagster.components.resolved.context import ResolutionContext
from dagster.components.resolved.model import Resolver
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import Field, SecretStr

from sfcdc_assets.orchestration.build_defs import build_defs
from sfcdc_assets.settings.given_settings import settings_of
from sfcdc_assets.settings.setting_values import PREFIX
from sfcdc_assets.settings.settings import SPARK_CONF, Settings, is_secret


def _secret(context: ResolutionContext, given: str | None) -> SecretStr | None:
    value = context.resolve_value(given, as_type=str) if given is not None else None
    return SecretStr(value) if value else None


Secret = Annotated[SecretStr | None, Resolver(_secret, model_field_type=str | None)]
"""A value that is shown nowhere; write it as `{{ env.NAME }}`."""


def _settings(context: ResolutionContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    values = context.resolve_value(given, as_type=dict[str, Any])
    return {name: _hidden(value) if is_secret(f"{PREFIX}{name}", ()) else value for name, value in values.items()}


def _spark_conf(context: ResolutionContext, given: Mapping[str, Any]) -> Mapping[str, Any]:
    values = context.resolve_value(given, as_type=dict[str, Any])
    return {name: _hidden(value) if is_secret(f"{SPARK_CONF}{name}", ()) else value for name, value in values.items()}


def _hidden(value: object) -> object:
    return SecretStr(value) if isinstance(value, str) and value else value


def _as_text(value: object) -> str:
    """Return the value of an option as Spark writes it; YAML makes numbers of texts that look like some."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value).lower() if isinstance(value, bool) else str(value)


class ScaffoldParams(dg.Model):
    """What `dg scaffold defs` asks for; all of it has a default."""

    key_prefix: str = "salesforce"


class SalesforceCdcScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes a `defs.yaml` that loads as it is, with the login in the environment."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Return the parameters."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write the file."""
        params = request.params or ScaffoldParams()
        begins = "SFCDC"
        attributes = {
            "key_prefix": params.key_prefix,
            "warehouse": f"{{{{ env('{begins}_WAREHOUSE', './warehouse') }}}}",
            "login_url": f"{{{{ env('{begins}_LOGIN_URL', 'https://login.salesforce.com') }}}}",
            "client_id": f"{{{{ env('{begins}_CLIENT_ID', '') }}}}",
            "client_secret": f"{{{{ env('{begins}_CLIENT_SECRET', '') }}}}",
        }
        dg.scaffold_component(request, attributes)


@dg.scaffold_with(SalesforceCdcScaffolder)
class SalesforceCdcComponent(dg.Component, dg.Model, dg.Resolvable):
    """Keeps a Delta Lake copy of a Salesforce org true, from its change events.

    An instance is an org, with a `key_prefix` of its own; nothing is taken from the environment but what the file
    names. Each entity is an asset (`salesforce/opportunity`), which other assets depend on.

    ```yaml
    type: sfcdc_assets.SalesforceCdcComponent
    attributes:
      warehouse: s3://bucket/salesforce
      login_url: https://acme.my.salesforce.com
      client_id: "{{ env.SFCDC_CLIENT_ID }}"
      client_secret: "{{ env.SFCDC_CLIENT_SECRET }}"
      entities: [Account, Opportunity]
    ```
    """

    warehouse: str = Field(default="./warehouse", description="Root of the tables: a folder, or a URI.")
    key_prefix: str | Sequence[str] = Field(
        default="salesforce",
        description="How the keys of all assets and the names of jobs and sensors begin. Each org has its own.",
    )
    group_name: str | None = Field(
        default=None,
        description="The group of the entities' assets; names of other groups begin so. By default the prefix.",
    )
    login_url: str | None = Field(default=None, description="Where tokens are requested: the org's My Domain.")
    instance_url: str | None = Field(default=None, description="https://<My Domain>.my.salesforce.com, for links.")
    org_id: str | None = Field(default=None, description="Organization id, 15 or 18 characters.")
    client_id: str | None = Field(default=None, description="Consumer key of the external client app.")
    client_secret: Secret = Field(default=None, description="Consumer secret, for client credentials.")
    username: str | None = Field(default=None, description="The integration user, for JWT bearer or a password.")
    private_key_file: str | None = Field(default=None, description="PEM file of the key that signs JWT assertions.")
    password: Secret = Field(default=None, description="The integration user's password.")
    security_token: Secret = Field(default=None, description="The token that Salesforce e-mails.")
    access_token: Secret = Field(default=None, description="A token from elsewhere, which cannot be refreshed.")
    pubsub_endpoint: str | None = Field(default=None, description="host:port of the Pub/Sub API.")
    ca_file: str | None = Field(default=None, description="PEM file of an additional root certificate.")
    channels: Sequence[str] | None = Field(default=None, description="Channels; by default /data/ChangeEvents.")
    entities: Sequence[str] | None = Field(default=None, description="Only these entities; by default all.")
    poll: Sequence[str] | None = Field(default=None, description="Objects, or patterns, that are polled.")
    spark_master: str | None = Field(default=None, description="The Spark master; by default local[*].")
    spark_remote: Secret = Field(default=None, description="A Spark Connect URL, instead of the master.")
    spark_conf: Annotated[
        Mapping[str, str | bool | int | float | SecretStr],
        Resolver(_spark_conf, model_field_type=Mapping[str, str | bool | int | float]),
    ] = Field(default_factory=dict, description="Options of Spark, by their own names.")
    settings: Annotated[Mapping[str, Any], Resolver(_settings, model_field_type=Mapping[str, Any])] = Field(
        default_factory=dict,
        description="Any other setting of docs/settings.md, in lower case and without SFCDC_: freshness_minutes.",
    )
    owners: Sequence[str] | None = Field(default=None, description="Owners of the assets: e-mails, and team:name.")
    kinds: Sequence[str] | None = Field(default=None, description="Kinds of the entities' assets, at most three.")
    docs_url: str | None = Field(default=None, description="Where the pages of docs/ are served, for links.")
    translation: Annotated[TranslationFn[str], TranslationFnResolver[str](lambda name: {"name": name})] | None = Field(
        default=None,
        description="Changes of asset specs; `name` is the last part of an asset's key, `spec` the spec. Not the key.",
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - its form
        """Return the org's definitions. Raises `SettingsError`."""
        return build_defs(
            self.org_settings(),
            self.key_prefix,
            self.group_name,
            owners=self.owners,
            kinds=self.kinds,
            docs_url=self.docs_url,
            translation=self.get_asset_spec,
        )

    def org_settings(self) -> Settings:
        """Return the settings that the attributes are. Raises `SettingsError`."""
        named = {name: getattr(self, name) for name in _OF_THE_ORG}
        options = {name: _as_text(value) for name, value in self.spark_conf.items()}
        return settings_of({**named, **self.settings}, options)

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset as this project has it; a subclass may change more."""
        return spec if self.translation is None else self.translation(spec, spec.key.path[-1])


_OF_THE_ORG = (
    *("warehouse", "login_url", "instance_url", "org_id", "client_id", "client_secret", "username"),
    *("private_key_file", "password", "security_token", "access_token", "pubsub_endpoint", "ca_file"),
    *("channels", "entities", "poll", "spark_master", "spark_remote"),
)
"""Attributes that are settings of the same name."""
