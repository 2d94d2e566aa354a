"""`sfcdc push`: send a text to a generic channel."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.record_id import eighteen_characters
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.streaming_channel import BROADCAST, Pushed
from sfcdc_assets.salesforce.streaming_channel import listeners as listening
from sfcdc_assets.salesforce.streaming_channel import push as push_text
from sfcdc_assets.settings.channel_kinds import ChannelKind, kind_of
from sfcdc_assets.settings.settings import load_settings


def push(
    *,
    channel: Annotated[str, typer.Argument(help="A generic channel of the org, such as /u/Notifications.")],
    text: Annotated[str, typer.Argument(help="What to send: up to 3,000 characters, often JSON.")],
    user: Annotated[list[str], typer.Option("--user", help="Send to this user only (an id); repeat it for more.")] = [],  # noqa: B006 - typer makes a new list for each call
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
) -> None:
    """Push a text to a generic channel, and print how many subscribers it was sent to and who is online.

    Exit code 1 when the channel does not exist or the org refuses the text; nothing is sent then.
    """
    _check(channel)
    users = [_user(each) for each in user]
    with OrgSession(load_settings()) as session:
        sent = push_text(session, channel, text, users)
        online = listening(session, channel)
    if as_json:
        found = {"channel": channel, "fanout": sent.fanout, "online": list(online), "users": dict(sent.online)}
        say(json.dumps(found))
        return
    say(_described(channel, sent))
    for each, is_online in sent.online.items():
        say(f"{each}: {'online' if is_online else 'not online'}")
    say(f"Online on {channel}: {', '.join(online) or 'nobody'}.")


def _described(channel: str, sent: Pushed) -> str:
    if sent.fanout == BROADCAST:
        return f"Pushed to all subscribers of {channel}."
    if sent.fanout:
        return f"Pushed to {sent.fanout} of the named users who listen to {channel}."
    return f"Pushed to {channel}: nobody listens now; subscribers that replay get it for 24 hours."


def _check(channel: str) -> None:
    try:
        kind = kind_of(channel)
    except ValueError as error:
        raise SettingsError("CHANNEL", str(error), "Name a generic channel") from error
    if kind is not ChannelKind.GENERIC:
        problem = f"{channel} is not a generic channel, and nothing else can be pushed to"
        raise SettingsError("CHANNEL", problem, "Name one that begins with /u/")


def _user(text: str) -> str:
    try:
        return eighteen_characters(text)
    except ValueError as error:
        raise SettingsError("--user", str(error), "Copy the id from the user's page in Setup") from error
