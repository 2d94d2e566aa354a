"""Every kind of hole in the stream: noted, held, waited for by its own record alone, and healed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.traffic.text_edits import long_text
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, Rows, assert_same_rows, expected_rows, ids
from sfcdc_assets_tests.pipeline.story import BULK, RETRIEVE, Entry, ledger, story, unhealed, waits

SEED = 31
TABLES = ("Account", "Contact", "Lead", "Task")
WHOLE = {"Contact": "GAP_OVERFLOW", "Lead": "wildcard", "Task": "undecodable_payload"}
"""Tables that become suspect as a whole, and why."""


@dataclass
class Holes:
    """What was done to the org, and what the tables and ledgers were before it, while the org could not be read, and
    at the end."""

    pipeline: EmulatedPipeline
    dice: Random = field(default_factory=lambda: Random(SEED))
    holes: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Record -> why it must be suspect, and the position of the event that tells."""
    plain: list[str] = field(default_factory=list)
    """Records with ordinary events only."""
    entity_holes: dict[str, int] = field(default_factory=dict)
    before: dict[str, Rows] = field(default_factory=dict)
    held: dict[str, Rows] = field(default_factory=dict)
    held_expected: Rows = field(default_factory=dict)
    """What Account's records without a hole were in the org while the others were held."""
    noted: list[Entry] = field(default_factory=list)
    description: dict[str, dict] = field(default_factory=dict)
    """What `status --json` said of each table meanwhile."""
    landed: int = 0

    def update(self, record_id: str, *faults: Fault, **values: object) -> int:
        """One transaction, with these faults; returns the position that its (last) event gets."""
        for fault in faults:
            self.pipeline.server.faults.arm(fault)
        with self.pipeline.org.transaction() as one:
            one.update("Account", record_id, values)
        return self.pipeline.server.bus.last_number

    def suspect(self, record_id: str, reason: str, position: int) -> None:
        """Expect it, and let something happen to the record afterwards, which has to wait."""
        self.holes[record_id] = (reason, position)
        record = self.pipeline.org.record("Account", record_id)
        if record and not record["IsDeleted"]:
            self.update(record_id, Site=f"after {reason}")

    def make_record_holes(self) -> None:
        org, faults = self.pipeline.org, self.pipeline.server.faults
        gap_update, unproven, baseless, garbled, unknown_type, *self.plain = ids(org, "Account")
        with org.transaction() as one:  # nothing refers to them, so that each is deleted by one event
            gap_delete, gap_undelete = (one.create("Account", {"Name": f"alone {number}"}) for number in range(2))
        self.update(unproven, Description=long_text(self.dice, 40))
        self.update(baseless, Description=None)
        with org.transaction() as one:
            one.delete("Account", gap_undelete)
        self.pipeline.sync()
        self.before = {entity: self.pipeline.rows(entity) for entity in TABLES}

        faults.arm(Fault.INTERNAL_ERROR)
        with org.transaction() as one:
            created = one.create("Account", {"Name": "announced, not told"})
        self.suspect(created, "GAP_CREATE", self.pipeline.server.bus.last_number)
        self.suspect(gap_update, "GAP_UPDATE", self.update(gap_update, Fault.INTERNAL_ERROR, Rating="Hot"))
        faults.arm(Fault.INTERNAL_ERROR)
        with org.transaction() as one:
            one.delete("Account", gap_delete)
        self.suspect(gap_delete, "GAP_DELETE", self.pipeline.server.bus.last_number)
        faults.arm(Fault.INTERNAL_ERROR)
        with org.transaction() as one:
            one.undelete("Account", gap_undelete)
        self.suspect(gap_undelete, "GAP_UNDELETE", self.pipeline.server.bus.last_number)

        text = str((org.record("Account", unproven) or {})["Description"])
        self.update(unproven, Fault.LOST_EVENT, Description=text + "\nnobody heard of this line")
        self.suspect(unproven, "unproven_diff", self.update(unproven, Description=text + "\nnobody heard\nand more"))
        text = long_text(self.dice, 40)
        self.update(baseless, Fault.LOST_EVENT, Description=text)
        self.suspect(baseless, "baseless_diff", self.update(baseless, Description=text + "\na line without a base"))

        faults.arm(Fault.LOST_EVENT)
        with org.transaction() as one:
            unheard = one.create("Account", {"Name": "created without an event"})
        self.suspect(unheard, "unknown_record", self.update(unheard, Rating="Cold"))
        self.suspect(garbled, "undecodable_payload", self.update(garbled, Fault.GARBLED_BODY, Rating="Hot"))
        self.suspect(
            unknown_type, "unknown_change_type", self.update(unknown_type, Fault.UNKNOWN_CHANGE_TYPE, Rating="Hot")
        )
        for number, record_id in enumerate(self.plain):
            self.update(record_id, Site=f"not held up {number}", Rating=None)

    def make_entity_holes(self) -> None:
        org, server = self.pipeline.org, self.pipeline.server
        for entity in WHOLE:
            with org.transaction() as one:
                one.update(entity, ids(org, entity)[0], {"Description": "the last one before the hole"})
        server.faults.arm(Fault.OVERFLOW, threshold=0)
        with org.transaction() as many:
            for contact in ids(org, "Contact"):
                many.update("Contact", contact, {"Department": "too many"})
        self.entity_holes["Contact"] = server.bus.last_number
        cleared = next(f.name for f in org.definitions["Lead"].stored_fields if f.name == "Industry")
        with org.transaction() as one:
            one.clear_field("Lead", cleared)
        self.entity_holes["Lead"] = server.bus.last_number
        server.faults.arm(Fault.GARBLED_HEADER)
        with org.transaction() as one:
            one.update("Task", ids(org, "Task")[1], {"Subject": "nobody can read this"})
        self.entity_holes["Task"] = server.bus.last_number
        for entity in WHOLE:
            with org.transaction() as one:
                one.update(entity, ids(org, entity)[2], {"Description": "waits for the whole table"})
                if entity != "Task":
                    one.create(entity, {"LastName": "new", **({"Company": "new"} if entity == "Lead" else {})})

    def hold(self) -> None:
        """Sync while the org lets nobody read a record."""
        rest = self.pipeline.server.rest_faults
        for path in (RETRIEVE, BULK):
            rest.arm(RestFault.REQUEST_LIMIT, 10_000, path=path)
        self.pipeline.tick()  # the snapshots of the tables that are suspect as a whole wait for requests, too
        self.held = {entity: self.pipeline.rows(entity) for entity in TABLES}
        self.held_expected = expected_rows(self.pipeline.org, "Account")
        self.noted = unhealed(self.pipeline)
        status = CliRunner().invoke(app, ["status", "--json"])
        self.description = {entity["entity"]: entity for entity in json.loads(status.stdout)["entities"]}
        self.landed = len(self.pipeline.scan("raw_events"))
        rest.disarm()


@pytest.fixture(scope="module")
def holes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holes]:
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("suspects"), TABLES, seed=SEED) as pipeline:
        description = Holes(pipeline)
        description.make_record_holes()
        description.make_entity_holes()
        description.hold()
        pipeline.sync()
        yield description


def test_each_hole_in_a_records_events_is_noted_with_its_reason_and_position(holes: Holes) -> None:
    noted = {
        entry["record_id"]: (entry["reason"], entry["opened_position"])
        for entry in holes.noted
        if entry["entity"] == "Account"
    }
    assert noted == holes.holes
    assert len(holes.holes) == 9


def test_each_hole_that_speaks_of_a_whole_table_is_noted_with_its_reason_and_position(holes: Holes) -> None:
    noted = {
        entry["entity"]: (entry["record_id"], entry["reason"], entry["opened_position"])
        for entry in holes.noted
        if entry["entity"] != "Account"
    }
    assert noted == {entity: ("*", reason, holes.entity_holes[entity]) for entity, reason in WHOLE.items()}


def test_the_ledger_says_why_in_words_where_the_event_alone_does_not(holes: Holes) -> None:
    detail = {entry["reason"]: entry["detail"] for entry in holes.noted}
    assert detail["unproven_diff"].startswith("Description: ")
    assert detail["baseless_diff"] == "Description: the value before the diff is not known"
    assert all(detail[reason] for reason in ("undecodable_payload", "GAP_OVERFLOW", "wildcard"))


def test_suspect_rows_are_marked_and_keep_what_was_known_before_the_hole(holes: Holes) -> None:
    held, before = holes.held["Account"], holes.before["Account"]
    assert waits(held) == holes.holes.keys()
    system = {"_in_doubt", "_position"}
    for record_id in holes.holes.keys() & before.keys():
        kept = {name: value for name, value in held[record_id].items() if name not in system}
        assert kept == {name: value for name, value in before[record_id].items() if name not in system}
        assert held[record_id]["_position"] < holes.holes[record_id][1]
    never_seen = holes.holes.keys() - before.keys()
    assert sorted(holes.holes[record_id][0] for record_id in never_seen) == ["GAP_CREATE", "unknown_record"]
    assert all(held[record_id]["Name"] is None for record_id in never_seen)


def test_all_other_records_flow_meanwhile(holes: Holes) -> None:
    found = {record_id: holes.held["Account"][record_id] for record_id in holes.plain}
    assert_same_rows("Account", found, {record_id: holes.held_expected[record_id] for record_id in holes.plain})
    assert holes.plain


def test_a_suspect_table_is_marked_as_a_whole_and_stands_just_before_the_hole(holes: Holes) -> None:
    for entity in WHOLE:
        held = holes.held[entity]
        assert waits(held) == held.keys(), entity
        first, _, third = sorted(held)[:3]
        assert held[first]["Description"] == "the last one before the hole", entity
        assert held[third]["Description"] != "waits for the whole table", entity


def test_status_tells_what_is_suspect(holes: Holes) -> None:
    reasons: dict[str, int] = {}
    for reason, _ in holes.holes.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    assert holes.description["Account"]["open_suspects"] == reasons
    assert holes.description["Account"]["suspects"] == len(holes.holes)
    for entity, reason in WHOLE.items():
        assert holes.description[entity]["open_suspects"] == {reason: 1}


def test_nothing_is_lost_while_the_org_cannot_be_read(holes: Holes) -> None:
    """One event, the unreadable one, is in quarantine by its bytes; all others are landed."""
    assert holes.landed == holes.pipeline.server.bus.last_number - 1
    kept = {row["position"] for row in holes.pipeline.scan("quarantine")}
    assert holes.entity_holes["Task"] in kept
    assert {position for reason, position in holes.holes.values() if reason == "undecodable_payload"} <= kept


def test_every_entry_is_healed_once_the_org_can_be_read_and_what_waited_is_applied(holes: Holes) -> None:
    holes.pipeline.assert_equal_to_the_org()
    entries = ledger(holes.pipeline)
    assert len(entries) == len(holes.noted)
    for entry in entries:
        assert entry["status"] == "healed", entry
        assert entry["healed_position"] >= entry["opened_position"], entry
        assert entry["healed_at"] >= entry["opened_at"], entry
    assert not any(waits(holes.pipeline.rows(entity)) for entity in TABLES)
