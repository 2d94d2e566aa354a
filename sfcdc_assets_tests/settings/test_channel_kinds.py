"""Channels are distinguished by their names, and each has a folder that needs no quoting and that no other has."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of, kind_of, own_name, split_channels, table_of

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,5}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="'\\\n"), min_size=1, max_size=5)
CHANNELS = st.one_of(
    NAMES.map("/data/{}".format),
    NAMES.map("/event/{}".format),
    NAMES.map("/topic/{}".format),
    st.tuples(NAMES, NAMES, TEXTS).map(lambda parts: "/topic/{}?{}='{}'".format(*parts)),
    st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: "/u/" + "/".join(parts)),
)


@pytest.mark.parametrize(
    ("channel", "table"),
    [
        ("/data/ChangeEvents", "raw_events"),
        ("/event/Order__e", "platform_events/Order__e"),
        ("/event/Orders__chn", "platform_events/Orders__chn"),
        ("/topic/InvoiceUpdates", "push_topic_events/InvoiceUpdates"),
        ("/u/Notifications", "generic_events/Notifications"),
        ("/u/notifications/orders", "generic_events/notifications_orders-5c39973b"),
    ],
)
def test_a_channels_kind_and_table_are_known_by_its_name(channel: str, table: str) -> None:
    assert table_of(channel) == table


def test_a_filtered_subscription_has_a_table_of_its_own() -> None:
    whole, filtered = "/topic/Accounts", "/topic/Accounts?Industry='Energy'&City='Y'"
    assert kind_of(whole) is kind_of(filtered) is ChannelKind.PUSH_TOPIC
    assert own_name(filtered) == "Accounts"
    assert folder_of(filtered) != folder_of(whole)
    assert folder_of(filtered).startswith("Accounts_Industry_Energy_City_Y-")


@given(st.lists(CHANNELS, unique=True, max_size=6))
def test_no_two_channels_share_a_folder_and_none_has_to_be_quoted(channels: list[str]) -> None:
    own = [channel for channel in channels if kind_of(channel) is not ChannelKind.CHANGE_EVENTS]
    assert len({table_of(channel) for channel in own}) == len(own)
    assert all(re.fullmatch(r"[a-z_]+/[A-Za-z0-9_-]{1,80}", table_of(channel)) for channel in own)


@given(st.lists(CHANNELS, max_size=4))
def test_a_setting_of_channels_is_taken_apart_whatever_their_filters_hold(channels: list[str]) -> None:
    assert split_channels(", ".join(channels)) == tuple(channels)


@pytest.mark.parametrize(
    "channel",
    [
        "",
        "ChangeEvents",
        "/data/",
        "/data/ChangeEvents?a='b'",
        "/topic/",
        "/u",
        "/u//x",
        "/event/Order__e/x",
        "/meta/connect",
        "/topic/X?",
        "/topic/X?Industry",
        "/topic/X?Industry='Energy'&",
        "/topic/X?Industry='Energy",
    ],
)
def test_what_is_no_channel_or_has_a_malformed_filter_is_refused_with_how_to_write_it(channel: str) -> None:
    with pytest.raises(ValueError, match="write it as"):
        kind_of(channel)
