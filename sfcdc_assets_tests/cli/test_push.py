"""`sfcdc push`, and what `sfcdc status` says of channels that carry no change events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets_tests.cli.command import console_script, refusal, sfcdc
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream, stream

pytestmark = pytest.mark.slow

CHANNEL = "/u/Notifications"
QUICK = PollTimeouts(first_answer=5.0, quiet=0.3, budget=20.0)


@pytest.fixture
def org(served: Stream, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The org, named by the settings of this test."""
    environment = {**served.server.client_environment(), "SFCDC_WAREHOUSE": str(served.root), "SFCDC_CHANNELS": CHANNEL}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stream]:
    with stream(tmp_path_factory.mktemp("push"), records=1) as opened:
        opened.server.cometd.topics.channels.create({"Name": CHANNEL})
        yield opened


def test_a_text_is_pushed_and_lands_and_who_listens_is_printed(org: Stream) -> None:
    assert "nobody listens now" in sfcdc("push", CHANNEL, "before").stdout
    reader = ChannelReader(org.warehouse, org.connected, CHANNEL, SETTLE)
    assert reader.land(QUICK).count == 1
    user, other = org.org.users.integration, "005000000000000AAA"
    result = sfcdc("push", CHANNEL, '{"a": 1}', "--user", user, "--user", other, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {
        "channel": CHANNEL,
        "fanout": 1,
        "online": [user],
        "users": {user: True, other: False},
    }
    assert "Pushed to all subscribers" in sfcdc("push", CHANNEL, "to all").stdout
    assert [reader.land(QUICK).count for _ in range(2)] == [1, 1]
    reader.drop()
    table = EventTable.open(org.warehouse, CHANNEL)
    assert table is not None
    landed = table.table.scan(["position", "payload"]).sort_by("position")
    assert landed["payload"].to_pylist() == ["before", '{"a": 1}', "to all"]
    status = json.loads(sfcdc("status", "--json").stdout)
    (of_table,), (of_channel,) = status["event_tables"], status["channels"]
    assert (of_table["table"], of_table["rows"], of_table["problems"]) == ("generic_events/Notifications", 3, 0)
    assert (of_channel["position"], of_channel["transport"]) == (3, "cometd")
    assert "generic_events/Notifications" in sfcdc("status").stdout
    asked = sfcdc("sql", "--format", "csv", "SELECT payload FROM generic_events_notifications WHERE position = 1")
    assert asked.stdout.split() == ["payload", "before"]


@pytest.mark.parametrize(
    ("channel", "text", "said"),
    [
        ("/u/Nowhere", "x", r"404::Unknown channel.*nothing was sent"),
        ("/u/notifications", "x", "Write /u/Notifications"),
        (CHANNEL, "x" * 3001, r"STRING_TOO_LONG.*max length=3000.*send 3,000 at most"),
        ("/topic/Orders", "x", "not a generic channel"),
        ("Notifications", "x", "write it as"),
    ],
)
def test_what_cannot_be_pushed_is_refused_with_what_to_change_and_nothing_is_created(
    org: Stream, channel: str, text: str, said: str
) -> None:
    channels = org.server.cometd.topics
    before = (channels.log.last_number, [each.name for each in channels.channels.all()])
    assert re.search(said, refusal(sfcdc("push", channel, text)))
    assert (channels.log.last_number, [each.name for each in channels.channels.all()]) == before


def test_a_sync_of_such_channels_alone_needs_neither_java_nor_spark(org: Stream, tmp_path: Path) -> None:
    assert sfcdc("push", CHANNEL, "for the sync").exit_code == 0
    folder = tmp_path / "warehouse"
    result = console_script(
        "sync", "--until-caught-up", SFCDC_WAREHOUSE=str(folder), PATH="/nowhere", JAVA_HOME="/nowhere", DAGSTER_HOME=""
    )
    assert result.returncode == 0, result.stderr
    table = EventTable.open(Warehouse(str(folder)), CHANNEL)
    assert table is not None
    assert "for the sync" in table.table.scan(["payload"])["payload"].to_pylist()


def test_a_column_that_a_description_gains_has_the_values_of_events_from_before(
    org: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    sfcdc("push", CHANNEL, '{"order_id": "A1", "amount": 9.5}')
    with closing(ChannelReader(warehouse, org.connected, CHANNEL, SETTLE)) as reader:
        reader.land(QUICK)
    assert "no file in SFCDC_CHANNEL_SCHEMAS describes" in refusal(sfcdc("rebuild", "--channel", CHANNEL))
    (tmp_path / "orders.toml").write_text(f'channel = "{CHANNEL}"\n[columns]\namount = "double"\norder_id = "string"\n')
    monkeypatch.setenv("SFCDC_CHANNEL_SCHEMAS", str(tmp_path))
    done = sfcdc("rebuild", "--channel", CHANNEL)
    assert done.exit_code == 0, done.output
    table = EventTable.open(warehouse, CHANNEL)
    assert table is not None
    typed = table.table.scan(["amount", "order_id"], "payload like '%A1%'").to_pylist()
    assert typed == [{"amount": 9.5, "order_id": "A1"}]
    assert f"{CHANNEL}: {table.table.count()} events read" in done.stderr
    assert "--channel: /u/Other is no channel of events" in refusal(sfcdc("rebuild", "--channel", "/u/Other"))


def test_a_user_that_is_none_is_named() -> None:
    assert "--user" in refusal(sfcdc("push", CHANNEL, "x", "--user", "Bob"))
