"""Duplicates and enriched events: one change reported more than once, or in several events of one replay id."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.streams.pubsub.proto.pubsub_api_pb2 import ReplayPreset
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg


def update_all(watched: WatchedOrg, ids: list[str], **values: object) -> None:
    watched.commit(lambda work: [work.update("Account", one, values) for one in ids])


def test_a_duplicate_has_the_same_uuid_and_payload_and_a_new_replay_id() -> None:
    watched = WatchedOrg()
    watched.faults.arm(Fault.DUPLICATE, 2)
    watched.create()
    watched.create()
    watched.create()
    first, copy, second, copy_of_second, third = watched.stored()
    assert (copy.event_id, copy.payload) == (first.event_id, first.payload)
    assert (copy_of_second.event_id, copy_of_second.payload) == (second.event_id, second.payload)
    assert len({event.replay_id for event in (first, copy, second, copy_of_second, third)}) == 5
    assert len({first.event_id, second.event_id, third.event_id}) == 3


def test_a_second_copy_may_come_after_other_events() -> None:
    watched = WatchedOrg()
    watched.faults.arm(Fault.DUPLICATE, after=2)
    ids = [watched.create() for _ in range(4)]
    named = [event.header["recordIds"][0] for event in watched.events()]
    assert named == [ids[0], ids[1], ids[2], ids[0], ids[3]]


@pytest.mark.parametrize("share", [True, False])
def test_an_enriched_event_of_several_records_comes_as_several_events_of_one_replay_id(share: bool) -> None:
    watched = WatchedOrg(enriched_fields={"Account": ("Name", "Fax", "Phone")}, siblings_share_event_id=share)
    ids = [watched.create(Name=f"N{number}", Fax="9" if number else None) for number in range(3)]
    watched.events()
    update_all(watched, ids, Phone="1")
    events = watched.events()
    assert [event.header["recordIds"] for event in events] == [[one] for one in ids]
    assert len({event.stored.replay_id for event in events}) == 1
    assert len({event.stored.event_id for event in events}) == (1 if share else 3)
    assert {event.header["sequenceNumber"] for event in events} == {1}
    assert [event.body["Name"] for event in events] == ["N0", "N1", "N2"]
    assert [event.body["Fax"] for event in events] == [None, "9", "9"]
    for event in events:
        assert event.header["changedFields"] == watched.bitmap("Phone", "LastModifiedDate")
        assert event.header["nulledFields"] == []
    update_all(watched, ids[:1], Phone="2")
    assert watched.events()[0].stored.replay_id > events[0].stored.replay_id


def test_enriched_deletes_carry_fields_and_creates_and_gaps_do_not() -> None:
    watched = WatchedOrg(enriched_fields={"Account": ("Name",)})
    record_id = watched.create()
    watched.commit(lambda work: work.delete("Account", record_id))
    watched.faults.arm(Fault.INTERNAL_ERROR)
    watched.commit(lambda work: work.undelete("Account", record_id))
    _, deleted, gap = watched.events()
    assert deleted.set_fields == {"Name"}
    assert deleted.header["changedFields"] == []
    assert (gap.header["changeType"], gap.set_fields) == ("GAP_UNDELETE", set())


def test_an_armed_enrichment_chooses_fields_the_record_has() -> None:
    watched = WatchedOrg()
    ids = [watched.create(Fax="7") for _ in range(2)]
    watched.events()
    watched.faults.arm(Fault.ENRICHED)
    update_all(watched, ids, Phone="1")
    watched.faults.arm(Fault.ENRICHED, fields="Fax, Website")
    update_all(watched, ids, Phone="2")
    chosen = watched.events()
    assert all(len(event.set_fields - {"Phone", "LastModifiedDate"}) == 2 for event in chosen[:2])
    assert all(event.set_fields == {"Phone", "LastModifiedDate", "Fax"} for event in chosen[2:])


def test_siblings_are_split_by_what_was_requested_and_a_resume_after_their_id_skips_the_rest() -> None:
    watched = WatchedOrg(enriched_fields={"Account": ("Name",)})
    ids = [watched.create() for _ in range(3)]
    before = watched.bus.latest_replay_id()
    update_all(watched, ids, Phone="1")
    after_all = watched.create()
    place = watched.bus.start(ReplayPreset.CUSTOM, before)
    first = watched.bus.read({"Account"}, after=place, max_events=2, max_bytes=10**9)
    assert [watched.decoded(event).header["recordIds"][0] for event in first.events] == ids[:2]
    assert first.latest_replay_id == first.events[0].replay_id
    same_stream = watched.bus.read({"Account"}, after=first.through, max_events=1, max_bytes=10**9)
    assert watched.decoded(same_stream.events[0]).header["recordIds"] == [ids[2]]
    resumed = watched.bus.start(ReplayPreset.CUSTOM, first.latest_replay_id)
    rest = watched.bus.read({"Account"}, after=resumed, max_events=10, max_bytes=10**9)
    assert [watched.decoded(event).header["recordIds"] for event in rest.events] == [[after_all]]


def test_siblings_are_not_cut_apart_by_copies() -> None:
    watched = WatchedOrg(enriched_fields={"Account": ("Name",)})
    ids = [watched.create() for _ in range(3)]
    watched.events()
    watched.faults.arm(Fault.DUPLICATE, after=1)
    watched.update(ids[0], Phone="0")
    update_all(watched, ids, Phone="1")
    stored = watched.stored()
    assert [event.replay_id == stored[1].replay_id for event in stored] == [False, True, True, True, False]
    assert stored[-1].event_id == stored[0].event_id
