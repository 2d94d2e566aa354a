"""A protocol before a channel's name in SFCDC_CHANNELS is that channel's; the channel is known by its name alone."""

from __future__ import annotations

import pytest

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of, kind_of, managed_name, table_of
from sfcdc_assets.settings.settings import load_settings


def test_a_prefix_chooses_the_protocol_of_one_channel_and_the_setting_that_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SFCDC_TRANSPORT", "cometd")
    written = "pubsub:/data/ChangeEvents, /data/Sales__chn,cometd:/event/Order__e,/topic/T?A='pubsub:x',managed:Orders"
    monkeypatch.setenv("SFCDC_CHANNELS", f"{written},managed:/event/Inks")
    settings = load_settings()
    assert {channel: settings.transport_of(channel) for channel in settings.channels} == {
        "/data/ChangeEvents": "pubsub",
        "/data/Sales__chn": "cometd",
        "/event/Order__e": "cometd",
        "/topic/T?A='pubsub:x'": "cometd",
        "managed:Orders": "pubsub",
        "managed:/event/Inks": "pubsub",
    }
    assert settings.event_channels == ("/event/Order__e", "/topic/T?A='pubsub:x'", "managed:/event/Inks")
    assert settings.model_copy(update={"warehouse": "elsewhere"}).transport_of("/data/ChangeEvents") == "pubsub"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("pubsub:/u/Notifications", "can be read over cometd only"),
        ("pubsub:/topic/T", "can be read over cometd only"),
        ("cometd:managed:Orders", "can be read over pubsub only"),
        ("grpc:/data/ChangeEvents", "'grpc:/data/ChangeEvents' is not a channel name"),
        ("pubsub:data", "'data' is not a channel name"),
        ("cometd:managed:/event/Orders", "can be read over pubsub only"),
        ("managed:", "'managed:' does not name a managed event subscription"),
        ("managed:a b", "does not name a managed event subscription"),
        ("managed:/event/Order__e", "write its developer name (Orders), not its topic"),
        ("managed:/topic/Orders", "managed:/event/Orders for one of platform events"),
        ("/data/ChangeEvents,cometd:/data/ChangeEvents", "names /data/ChangeEvents twice"),
    ],
)
def test_what_cannot_be_read_so_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, written: str, problem: str) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", written)
    with pytest.raises(SettingsError, match="SFCDC_CHANNELS") as raised:
        load_settings()
    assert problem in str(raised.value)


def test_a_managed_channel_carries_change_events_under_a_name_of_its_own() -> None:
    assert kind_of("managed:Orders") is ChannelKind.CHANGE_EVENTS
    assert (managed_name("managed:Orders"), managed_name("/data/ChangeEvents")) == ("Orders", None)
    assert folder_of("managed:Orders") == "managed_Orders"
    assert folder_of("/data/ChangeEvents") == "ChangeEvents"


def test_a_managed_channel_of_platform_events_has_a_table_of_its_own() -> None:
    assert kind_of("managed:/event/Orders") is ChannelKind.PLATFORM_EVENT
    assert managed_name("managed:/event/Orders") == "Orders"
    assert table_of("managed:/event/Orders") == "platform_events/managed_Orders"
    assert table_of("/event/Orders") == "platform_events/Orders"
