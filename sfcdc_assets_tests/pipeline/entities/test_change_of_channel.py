"""Which channel feeds an entity, and the position from which a new one may: above all that its tables hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.entities.entities import entity_channels, entity_states
from sfcdc_assets.lake.tables.change_of_channel import begin_on
from sfcdc_assets.lake.tables.lost_checkpoints import entities_of_channel
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.salesforce.errors import ApiLimitReached, UnexpectedAnswer
from sfcdc_assets.snapshot.pages import page_schema
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.lake.test_raw_events import events
from sfcdc_assets_tests.pipeline.broken_log import break_log

ALL, SALES = "/data/ChangeEvents", "/data/Sales__chn"
AT_3 = ResumePoint(b"\x03")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Account was named on both channels."""
    warehouse = Warehouse(str(tmp_path))
    RawEvents.open(warehouse).commit(
        events(1, 2, 3, channel=ALL), StreamCheckpoint(ALL, 3, 2, ResumePoint(b"\x03"), "t")
    )
    RawEvents.open(warehouse).commit(events(1, channel=SALES), StreamCheckpoint(SALES, 1, 1, ResumePoint(b"\x03"), "t"))
    return warehouse


Names = Sequence[str] | Exception | None
"""What the org lists, or what it answers instead."""
GARBAGE = UnexpectedAnswer("https://org/tooling/query/", "it is not JSON")


def owners(
    warehouse: Warehouse, members: Mapping[str, Names], *channels: str, wanted: Sequence[str] = ()
) -> dict[str, str]:
    def listed(channel: str) -> ChannelMembers | None:
        names = members.get(channel)
        if isinstance(names, Exception):
            raise names
        return None if names is None else ChannelMembers(tuple(names))

    return entity_channels(warehouse, channels, wanted, listed)


def test_the_first_channel_that_carries_an_entity_feeds_it(warehouse: Warehouse) -> None:
    members = {ALL: ["Account", "Lead"], SALES: ["Account", "Case"]}
    assert owners(warehouse, members, SALES, ALL) == {"Account": SALES, "Case": SALES, "Lead": ALL}
    assert owners(warehouse, members, ALL, SALES) == {"Account": ALL, "Case": SALES, "Lead": ALL}
    assert owners(warehouse, members, ALL, SALES, wanted=["Case"]) == {"Case": SALES}


def test_an_entity_that_was_taken_off_a_channel_is_fed_by_the_one_that_still_has_it(warehouse: Warehouse) -> None:
    assert owners(warehouse, {SALES: ["Case"], ALL: ["Account"]}, SALES, ALL) == {"Case": SALES, "Account": ALL}
    # None has it any more: what is landed can still be applied.
    assert owners(warehouse, {SALES: ["Case"], ALL: []}, SALES, ALL) == {"Case": SALES, "Account": SALES}


def test_where_the_org_does_not_tell_the_stream_does(warehouse: Warehouse) -> None:
    assert owners(warehouse, {SALES: None, ALL: ["Account"]}, SALES, ALL) == {"Account": SALES}
    assert owners(warehouse, {SALES: None, ALL: None}, ALL, SALES) == {"Account": ALL}


def copied(
    warehouse: Warehouse,
    channel: str,
    position: int,
    number: int = 1,
    *,
    complete: bool = True,
    entity: str = "Account",
) -> None:
    """A snapshot, without rows; one that was begun before goes on."""
    description = SnapshotProgress(number, entity, channel, position, "750", None, 1, 0, complete, 0, ("Id",))
    snapshots = Snapshots.open_or_create(warehouse, entity, [ID_COLUMN])
    if snapshots.last_number() < number:
        snapshots.begin(replace(description, complete=False))
    if complete:
        snapshots.add_page(page_schema([ID_COLUMN]).empty_table(), description, 0)


def test_a_channel_whose_members_cannot_be_asked_keeps_its_copied_objects_and_the_others_are_followed_as_listed(
    warehouse: Warehouse,
) -> None:
    copied(warehouse, SALES, 1)
    for order in ((ALL, SALES), (SALES, ALL)):
        assert owners(warehouse, {SALES: GARBAGE, ALL: ["Lead"]}, *order) == {"Account": SALES, "Lead": ALL}
        assert owners(warehouse, {SALES: ["Case"], ALL: GARBAGE}, *order) == {"Account": SALES, "Case": SALES}
    # One that both carry stays where it is, and is not copied twice for a request that failed.
    members = {SALES: GARBAGE, ALL: ["Account", "Lead"]}
    assert owners(warehouse, members, SALES, ALL) == {"Account": SALES, "Lead": ALL}
    assert owners(warehouse, members, ALL, SALES) == {"Account": ALL, "Lead": ALL}


def test_what_the_org_fails_with_is_raised_where_no_channel_has_an_entity(warehouse: Warehouse) -> None:
    with pytest.raises(UnexpectedAnswer):
        owners(warehouse, {SALES: GARBAGE, ALL: GARBAGE}, SALES, ALL)
    assert owners(warehouse, {SALES: GARBAGE, ALL: ["Lead"]}, SALES, ALL) == {"Lead": ALL, "Account": ALL}
    assert owners(warehouse, {ALL: ApiLimitReached("https://org", "TotalRequests")}, ALL) == {}


def test_an_entity_whose_snapshot_cannot_be_read_keeps_no_other_from_being_followed(warehouse: Warehouse) -> None:
    copied(warehouse, SALES, 1)
    copied(warehouse, ALL, 1, entity="Contact")
    break_log(warehouse.folder, "snapshot/Contact")
    assert owners(warehouse, {SALES: GARBAGE, ALL: GARBAGE}, SALES, ALL) == {"Account": SALES, "Contact": ALL}
    assert owners(warehouse, {SALES: GARBAGE, ALL: ["Contact"]}, SALES, ALL) == {"Account": SALES, "Contact": ALL}


def test_an_entity_whose_channel_changed_is_read_again_and_nothing_is_applied_before(warehouse: Warehouse) -> None:
    copied(warehouse, SALES, 1)
    (before,) = entity_states(warehouse, {"Account": SALES}, 0)
    assert (before.channel_changed, before.needs_snapshot, before.has_work) == (False, False, True)
    (moved,) = entity_states(warehouse, {"Account": ALL}, 0)
    assert (moved.channel_changed, moved.needs_snapshot, moved.has_work) == (True, True, False)
    assert (entities_of_channel(warehouse, SALES), entities_of_channel(warehouse, ALL)) == (("Account",), ())

    copied(warehouse, ALL, 5, 2, complete=False)
    assert entities_of_channel(warehouse, SALES) == entities_of_channel(warehouse, ALL) == ("Account",)
    assert entity_states(warehouse, {"Account": ALL}, 0)[0].channel_changed
    copied(warehouse, ALL, 5, 2)
    assert (entities_of_channel(warehouse, SALES), entities_of_channel(warehouse, ALL)) == ((), ("Account",))
    assert not entity_states(warehouse, {"Account": ALL}, 0)[0].channel_changed

    copied(warehouse, SALES, 9, 3)  # and back again
    assert entity_states(warehouse, {"Account": ALL}, 0)[0].channel_changed
    assert not entity_states(warehouse, {"Account": SALES}, 0)[0].channel_changed


def test_the_new_channel_begins_above_every_position_of_the_tables_and_forgets_nothing(warehouse: Warehouse) -> None:
    copied(warehouse, SALES, 40)
    before = RawEvents.open(warehouse).checkpoint(ALL)
    assert begin_on(warehouse, "Account", ALL) == 41
    raw_events = RawEvents.open(warehouse)
    assert raw_events.checkpoint(ALL) == replace(before, position=41)
    assert raw_events.checkpoint(SALES).position == 1
    # Asked again, also while the snapshot is being read: the same, so that the snapshot can go on.
    version = raw_events.table.version
    copied(warehouse, ALL, 41, 2, complete=False)
    assert begin_on(warehouse, "Account", ALL) == 41
    assert RawEvents.open(warehouse).table.version == version


def test_a_channel_that_is_ahead_stays_where_it_is_and_one_that_was_never_read_begins_above(
    warehouse: Warehouse,
) -> None:
    copied(warehouse, SALES, 1)
    assert begin_on(warehouse, "Account", ALL) == 2
    assert RawEvents.open(warehouse).checkpoint(ALL).position == 3
    assert begin_on(warehouse, "Account", "/data/AccountChangeEvent") == 2
    assert RawEvents.open(warehouse).checkpoint("/data/AccountChangeEvent") == StreamCheckpoint(
        "/data/AccountChangeEvent", 2
    )
