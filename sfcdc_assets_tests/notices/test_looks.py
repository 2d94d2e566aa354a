"""What there is to notice in the tables, without an org and without Dagster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from sfcdc_assets.entities.freshness import EntityLag
from sfcdc_assets.entities.refused_reads import end_refusal, refuse_entity
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.store.channel_reads import note_read
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.lost_checkpoints import note_lost_checkpoint
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.notices import looks
from sfcdc_assets.notices.notice import Notice
from sfcdc_assets.notices.reporting_round import Round, report_news
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.notice_kinds import NoticeKind
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.simulated_clock import SimulatedClock

__all__ = ["no_settings_but_the_tests_own"]

CHANNEL = "/data/ChangeEvents"
MINUTE = 60.0


class Person:
    """Who is told, and looks once a minute."""

    def __init__(self, warehouse: Warehouse, *kinds: NoticeKind, org: str | None = None) -> None:
        self.warehouse = warehouse
        self.settings: Settings = load_settings().model_copy(update={"notices": kinds, "org": org})
        self.read: list[Notice] = []
        self.last = Round(0, 0)

    def hears(self) -> list[str]:
        """Texts of what is new."""
        self.read.clear()
        self.last = report_news(self.warehouse, self.settings, {"function": self._take}, None)
        return [notice.text for notice in self.read]

    def _take(self, notices: Sequence[Notice]) -> None:
        self.read += notices


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def suspect(record: str, position: int, reason: Reason = Reason.GAP_UPDATE) -> NewSuspect:
    return NewSuspect(record, reason, position, "value of a record")


def note(warehouse: Warehouse, *suspects: NewSuspect, entity: str = "Account") -> Ledger:
    ledger = Ledger.open_or_create(warehouse, entity)
    ledger.note(suspects, CHANNEL, max(each.position for each in suspects), clock.now_ms())
    return Ledger.open_or_create(warehouse, entity)


def heal(ledger: Ledger) -> None:
    open_now = ledger.open_suspects()
    ledger.heal(open_now, {each.record_id: 100 for each in open_now}, clock.now_ms())


def test_an_empty_warehouse_has_nothing_to_report_and_gets_no_table(warehouse: Warehouse) -> None:
    person = Person(warehouse, *NoticeKind)
    assert (person.hears(), person.last.failed) == ([], {})
    assert {path.name for path in warehouse.folder.iterdir()} <= {"notices"}


def test_suspects_are_reported_although_they_were_healed_before_the_look(warehouse: Warehouse) -> None:
    note(warehouse, suspect("001A", 3))
    person = Person(warehouse, NoticeKind.SUSPECTS)
    assert person.hears() == []  # what was before the first look
    heal(note(warehouse, suspect("001B", 7), suspect("001C", 8), suspect("001D", 9, Reason.UNKNOWN_RECORD)))
    note(warehouse, suspect(ENTITY, 4, Reason.GAP_OVERFLOW), entity="Contact")
    assert sorted(person.hears()) == [
        "Account: 3 records became suspect (2 GAP_UPDATE, 1 unknown_record). (/data/ChangeEvents, position 9) "
        "The run reads them back from the org.",
        "Contact: the whole entity became suspect (1 GAP_OVERFLOW). (/data/ChangeEvents, position 4) "
        "The run reads them back from the org.",
    ]
    assert person.hears() == []


def test_suspects_that_are_not_healed_for_an_hour_are_reported_once_and_their_end_once(warehouse: Warehouse) -> None:
    with clock.using(SimulatedClock()):
        ledger = note(warehouse, suspect("001A", 3), suspect("001B", 4))
        person = Person(warehouse, NoticeKind.OLD_SUSPECTS)
        clock.sleep(59 * MINUTE)
        assert person.hears() == []
        ledger.failed(ledger.open_suspects(), "a value of a record", clock.now_ms())
        clock.sleep(2 * MINUTE)
        assert person.hears() == [
            "Account: 2 records suspect for 61 minutes (GAP_UPDATE); 1 read of the org failed. "
            "(/data/ChangeEvents, position 3) `last_error` in gap_reconciliation/Account says what keeps them from "
            "being read back."
        ]
        clock.sleep(60 * MINUTE)
        assert person.hears() == []
        heal(Ledger.open_or_create(warehouse, "Account"))
        assert person.hears() == ["Account: what was suspect for long was read back. (/data/ChangeEvents)"]


def test_a_refused_read_is_reported_with_its_remedy_and_so_is_its_end(warehouse: Warehouse) -> None:
    person = Person(warehouse, NoticeKind.REFUSED_READS, NoticeKind.SUSPECTS, NoticeKind.OLD_SUSPECTS, org="emea")
    person.hears()
    why = "Contact: the user has no View All. Give it to them"
    refuse_entity(warehouse, "Contact", Reason.VIEW_ALL_MISSING, CHANNEL, 5, why, clock.now_ms())
    assert person.hears() == [f"emea: {why}"]
    assert [(each.entity, each.org) for each in person.read] == [("Contact", "emea")]
    end_refusal(warehouse, "Contact", Reason.VIEW_ALL_MISSING, 6, clock.now_ms())
    assert person.hears() == ["emea: Contact: reads of the org are applied again."]


def test_a_lost_checkpoint_is_reported_once_but_not_one_that_was_bridged_before_the_first_look(
    warehouse: Warehouse,
) -> None:
    note_lost_checkpoint(warehouse, CHANNEL, 10, "expired", clock.now_ms(), None)  # no entity waits for it
    person = Person(warehouse, NoticeKind.LOST_CHECKPOINTS)
    assert person.hears() == []
    note_lost_checkpoint(warehouse, CHANNEL, 20, "the org moved", clock.now_ms(), None)
    (said,) = person.hears()
    assert said.startswith(f"{CHANNEL}: the checkpoint was lost at position 20 (the org moved);")
    assert (person.read[0].channel, person.read[0].position) == (CHANNEL, 20)
    assert person.hears() == []


def test_changed_columns_are_reported_once_each(warehouse: Warehouse) -> None:
    def column(name: str) -> pa.Field:
        return pa.field(name, pa.string())

    table = Table.open_or_create(warehouse, "current_state/Account", pa.schema([column("Id"), column("Name")]))
    person = Person(warehouse, NoticeKind.SCHEMA_CHANGES)
    assert person.hears() == []
    table.add_columns([column("Score__c")])
    assert person.hears() == [
        "Account: Score__c added (string). Queries and models that use these columns may have to follow."
    ]
    assert person.hears() == []
    table.add_columns([column("Tier__c"), column("Rank__c")])
    assert person.hears() == [
        "Account: Tier__c added (string); Rank__c added (string). Queries and models that use these columns may have "
        "to follow."
    ]
    Table.open_or_create(warehouse, "current_state/Contact", pa.schema([column("Id")]))
    assert person.hears() == []  # new, and not changed


def test_who_is_late_is_reported_once_and_that_it_has_caught_up_once(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(warehouse, NoticeKind.LATE)
    heard = []
    for behind in (0.0, 14 * 60, 16 * 60, 20 * 60, 3.0, 0.0):
        found = [EntityLag("Account", 7, behind), EntityLag("Contact", 0, 0.0)]
        monkeypatch.setattr(looks, "lags", lambda *_, found=found: found)
        heard += person.hears()
    assert heard == [
        "Account is late: 7 events landed and not applied, the oldest committed 16 minutes ago (15 are "
        "allowed by SFCDC_FRESHNESS_MINUTES). Look at the last runs of this entity; `sfcdc status` says what it waits "
        "for.",
        "Account: has caught up.",
    ]


def test_a_channel_that_is_not_read_is_late_too(warehouse: Warehouse) -> None:
    with clock.using(SimulatedClock()):
        person = Person(warehouse, NoticeKind.LATE)
        assert person.hears() == []  # never read: its first start is still to come
        note_read(warehouse, CHANNEL, clock.now_ms())
        clock.sleep(14 * MINUTE)
        assert person.hears() == []
        clock.sleep(2 * MINUTE)
        assert person.hears() == [
            f"{CHANNEL} was last read 16 minutes ago (15 are allowed by SFCDC_FRESHNESS_MINUTES). "
            "Look at the last ticks of its sensor."
        ]
        note_read(warehouse, CHANNEL, clock.now_ms())
        assert person.hears() == [f"{CHANNEL}: has caught up."]


def test_one_kind_that_cannot_be_looked_at_does_not_keep_the_others_and_loses_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(warehouse, NoticeKind.LATE, NoticeKind.SUSPECTS)
    late = [EntityLag("Account", 7, 3_600.0)]
    monkeypatch.setattr(looks, "lags", lambda *_: late)
    assert len(person.hears()) == 1

    def fails(*_: object) -> list[EntityLag]:
        raise OSError("the disk is gone")

    monkeypatch.setattr(looks, "lags", fails)
    note(warehouse, suspect("001A", 3))
    assert [text[:30] for text in person.hears()] == ["Account: 1 record became suspe"]
    assert str(person.last) == "1 notice sent, 0 waiting. looking for late: the disk is gone"
    monkeypatch.setattr(looks, "lags", lambda *_: late)
    assert person.hears() == []


def test_no_notice_has_what_a_ledger_quotes_of_a_record(warehouse: Warehouse) -> None:
    with clock.using(SimulatedClock()):
        person = Person(warehouse, *NoticeKind)
        person.hears()
        ledger = note(warehouse, suspect("001A", 3, Reason.UNREADABLE_ROW))
        ledger.failed(ledger.open_suspects(), "value of a record", clock.now_ms())
        clock.sleep(61 * MINUTE)
        heard = person.hears()
        assert len(heard) == 2
        assert not any("value of a record" in text for text in heard)


def test_nothing_is_written_while_nothing_changes(warehouse: Warehouse) -> None:
    with clock.using(SimulatedClock()):
        note(warehouse, suspect("001A", 3))
        person = Person(warehouse, *NoticeKind)
        clock.sleep(2 * 3_600)
        person.hears()
        outbox = warehouse.folder / "notices/outbox.json"
        written = outbox.stat().st_mtime_ns
        clock.sleep(MINUTE)
        person.hears()
        assert outbox.stat().st_mtime_ns == written
