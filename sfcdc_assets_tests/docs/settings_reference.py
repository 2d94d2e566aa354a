"""docs/settings.md and the README's table of settings, from `config.py`: names, defaults, the text below each field.

The order and the headings are this module's; a setting without a heading is an error, so that none is left out.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent
from types import MappingProxyType

from pydantic.fields import FieldInfo

from sfcdc_assets.settings.setting_values import PREFIX
from sfcdc_assets.settings.settings import SECRETS, SPARK_CONF, Settings

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "What is copied, and where to": (
            "warehouse",
            "channels",
            "channel_schemas",
            "push_topics",
            "entities",
            "poll",
            "poll_exclude",
            "poll_seconds",
            "poll_percent",
            "poll_objects",
            "poll_reread_hours",
            "poll_overlap_minutes",
            "poll_count_hours",
            "formulas",
            "formula_seconds",
            "formula_days",
            "formula_percent",
            "replay_preset",
        ),
        "The org": ("instance_url", "login_url", "org_id", "transport", "pubsub_endpoint", "ca_file"),
        "Logging in": (
            "access_token",
            "client_id",
            "client_secret",
            "username",
            "private_key_file",
            "password",
            "security_token",
        ),
        "Privacy and retention": (
            "exclude",
            "hash",
            "hash_key",
            "payload_retention_days",
            "cut_retention_days",
            "cut_batch_hours",
            "cut_minute_hours",
            "cut_hour_hours",
            "sample_rows",
        ),
        "Time and trust": (
            "settle_seconds",
            "land_seconds",
            "visibility_seconds",
            "describe_seconds",
            "vanish_percent",
            "vanish_rows",
            "audit_percent",
            "snapshot_reserve_percent",
        ),
        "Dagster": ("freshness_minutes", "run_retention_days", "owners"),
        "Notices and logs": ("notice_webhook", "notices", "docs_url", "log_format"),
        "Views": ("views_file", "live_views_file"),
        "Spark": ("spark_master", "spark_remote", "spark_standing", "spark_kept"),
        "Several orgs": ("orgs", "org"),
    }
)
_INTRODUCTIONS = MappingProxyType(
    {
        "What is copied, and where to": "[Many channels](channels.md#many-channels), and [channels that carry other "
        "things than change events](channels.md#pushtopics-generic-channels-and-platform-events).",
        "Logging in": "One way of four is enough. [Connecting an org](real-org.md#other-ways-to-log-in) has them.",
        "Privacy and retention": "[When columns must not be copied](privacy.md#when-columns-must-not-be-copied) has "
        "the rules.",
        "Several orgs": "[Several orgs](several-orgs.md) says which settings an org has of its own.",
        "Spark": "[A standing Spark](running.md#a-standing-spark), and [what workers need](scaling.md#workers) on a "
        "cluster.",
    }
)
_WITHOUT_A_VALUE = MappingProxyType(
    {
        "channel_schemas": "none",
        "entities": "all",
        "poll": "none",
        "poll_exclude": "none",
        "orgs": "one org",
        "org": "the one org",
        "exclude": "none",
        "hash": "none",
        "payload_retention_days": "for ever",
        "instance_url": "from the token",
        "org_id": "looked up",
    }
)
"""What an absent value means, where it means something."""
_SPARK_OPTIONS = (
    "Spark options: `SFCDC_SPARK_CONF_SPARK__DRIVER__MEMORY=2g` sets `spark.driver.memory`. A double underscore stands "
    "for a dot, because a shell cannot export a name with one."
)
_PAGE = """\
# Settings

Settings are environment variables; a `.env` file in the working folder is read too, and the environment takes
precedence over it. An invalid value or an unknown name that begins with `SFCDC_` stops the command with one clear
message. An empty value counts as not set. `sfcdc doctor` says which settings are set and where each comes from. Secrets
are marked; they are never printed, logged, stored in a table or shown in the UI.

Beside each secret there is a setting with `_FILE` at its end that names a file with the value, as containers,
Kubernetes and systemd hand secrets over: `SFCDC_CLIENT_SECRET_FILE=/run/secrets/client_secret`, and for options of
Spark `SFCDC_SPARK_CONF_SPARK__AUTHENTICATE__SECRET_FILE`. A line break at the file's end does not count; a file that is
replaced counts for each process that starts afterwards. A secret that is set in both ways is refused.

<!-- Written by `make reference` from sfcdc_assets/settings/settings.py. -->
"""
_OTHERS = MappingProxyType(
    {
        "`DAGSTER_HOME`": "folder of the Dagster instance that runs are recorded in; without it, `sfcdc sync` keeps no "
        "record, and `sfcdc dev` uses a folder of its own",
        "`JAVA_HOME`": "the Java to use, if it is not the one on `PATH`",
        "`AWS_*`, `AZURE_*`, `GOOGLE_*`": "credentials of an object store "
        "([how workers get them](scaling.md#credentials-on-a-cluster))",
    }
)


def settings_page() -> str:
    """The text of docs/settings.md."""
    others = "\n".join(f"| {names} | {text} |" for names, text in _OTHERS.items())
    return "".join((_PAGE, *_sections(), f"\n## Other variables\n\n| variable | meaning |\n|---|---|\n{others}\n"))


def settings_table() -> str:
    """The rows of the README: each setting with the first sentence about it."""
    rows = [_row(name, _first_sentence(text)) for name, text in _in_order()]
    return _table([*rows, _options(_first_sentence(_SPARK_OPTIONS))])


def described() -> dict[str, str]:
    """Field -> the text below it. Raises `ValueError` for a field without one."""
    return texts_below(Settings, list(Settings.model_fields))


def texts_below(of_class: type, names: Sequence[str]) -> dict[str, str]:
    """Field of a class -> the text below it, in the order of the names. Raises `ValueError` for a field without one."""
    body = ast.parse(dedent(inspect.getsource(of_class))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for node, following in zip(body.body, body.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if is_text and isinstance(following.value.value, str):
                found[node.target.id] = " ".join(following.value.value.split())
    missing = sorted(set(names) - set(found))
    if missing:
        raise ValueError(f"{of_class.__name__} has no text below {', '.join(missing)}")
    return {name: found[name] for name in names}


def _in_order() -> Iterator[tuple[str, str]]:
    texts = described()
    listed = [name for names in GROUPS.values() for name in names]
    if sorted(listed) != sorted(texts):
        raise ValueError(f"give a heading in GROUPS to {sorted(set(texts) ^ set(listed))}, and only one")
    for name in listed:
        yield name, texts[name]


def _sections() -> Iterator[str]:
    texts = dict(_in_order())
    for heading, names in GROUPS.items():
        rows = [_row(name, texts[name]) for name in names]
        if heading == "Spark":
            rows.append(_options(_SPARK_OPTIONS))
        introduction = f"{_INTRODUCTIONS[heading]}\n\n" if heading in _INTRODUCTIONS else ""
        yield f"\n## {heading}\n\n{introduction}{_table(rows)}\n"


def _table(rows: list[str]) -> str:
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def _row(name: str, text: str) -> str:
    setting = f"{PREFIX}{name.upper()}"
    secret = ("; secret", " Secret.")[text.endswith(".")] if setting in SECRETS else ""
    return f"| `{setting}` | {_default(name, Settings.model_fields[name])} | {text}{secret} |"


def _options(text: str) -> str:
    return f"| `{SPARK_CONF}*` | | {text} |"


def _default(name: str, field: FieldInfo) -> str:
    if name in _WITHOUT_A_VALUE:
        return _WITHOUT_A_VALUE[name]
    value = field.default
    if value is None:
        return ""
    if isinstance(value, tuple):
        value = ",".join(value)
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _first_sentence(text: str) -> str:
    return text.split(". ", 1)[0].removesuffix(".")
