"""Formula values of the emulated org, read over REST where they are due: those in their table are the org's."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import UPDATE
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.formulas.affected_records import affected_records
from sfcdc_assets.formulas.dependencies import FormulaDependencies, dependencies_of_all
from sfcdc_assets.formulas.formula_columns import AS_OF, fingerprint, formula_columns
from sfcdc_assets.formulas.rereads import Limits, Reason, RereadPlan, Values, plan_rereads
from sfcdc_assets.lake.tables.formula_values import FormulaValues
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_reads.formula_reads import read_formulas
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.errors import QueryRefused
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings

NOW = 1_738_584_000_000  # 2025-02-03T12:00:00Z
DAY = 86_400_000
FORMULAS: dict[str, dict[str, Any]] = {
    "Weighted__c": {"type": "currency", "formula": "Amount * Probability"},
    "Owner_Of_Account__c": {"type": "string", "formula": "Account.Name & ' ' & Account.Owner.Username"},
    "Days_Left__c": {"type": "double", "scale": 0, "formula": "CloseDate - TODAY()"},
    "Is_Large__c": {"type": "boolean", "formula": "Amount > 50000"},
    "Closes_After__c": {"type": "date", "formula": "ADDMONTHS(CloseDate, 1)"},
    "Asked_At__c": {"type": "datetime", "formula": "CreatedDate + 1"},
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def org(clock: ManualClock) -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=clock, seed=3)
    org.populate({"Account": 6, "Opportunity": 12})
    for name, options in FORMULAS.items():
        org.setup.add_field("Opportunity", name, options)
    yield org
    org.close()


@pytest.fixture
def session(org: EmulatedOrg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OrgSession]:
    for name in os.environ:
        if name.startswith("SFCDC_"):
            monkeypatch.delenv(name)
    with EmulatorServer(org, directory=tmp_path / "org") as server:
        fields = {name.removeprefix("SFCDC_").lower(): value for name, value in server.client_environment().items()}
        yield OrgSession(Settings(_env_file=None, **fields), sleep=lambda _seconds: None)


class Reader:
    """Whoever keeps an entity's formula values: looks what has changed, plans, reads and commits."""

    def __init__(self, org: EmulatedOrg, session: OrgSession, warehouse: Warehouse) -> None:
        self.org, self.session, self.warehouse = org, session, warehouse
        described = {name: describe(session, name) for name in org.definitions}
        self.description = described["Opportunity"]
        self.columns = formula_columns(self.description)[:1] + tuple(
            column for column in formula_columns(self.description) if column.name in FORMULAS
        )
        every = dependencies_of_all(self.description, described.get)
        self.formulas = FormulaDependencies().together(every[name] for name in FORMULAS)

    def read_what_is_due(self, *, requests: int = 9, ids_per_request: int = 50) -> RereadPlan:
        table = FormulaValues.open_or_create(self.warehouse, "Opportunity", self.columns)
        now = datetime.fromtimestamp(self.org.clock() / 1000, UTC)
        day_began = now.replace(hour=0, minute=0, second=0, microsecond=0)
        limits = Limits(requests, timedelta(days=7), ids_per_request)
        records = [str(row["Id"]) for row in self.org.records("Opportunity")]
        facts = table.values(len(records), now=now, day_began=day_began, too_old=now - limits.age, most=limits.most_ids)
        new = [(each, None) for each in records if each not in table.known(records)]
        facts = Values(facts.records, len(new), facts.before_today, facts.too_old, (*new, *facts.oldest))
        position = self.org.last_commit_number
        changed, parents = self._changed(table.followed("Opportunity"))
        found = plan_rereads(facts, changed, parents, limits, now=now, day_began=day_began)
        read = read_formulas(self.session, "Opportunity", found.ids, [self.columns], now)
        assert not read.refused
        assert not read.left
        followed = {} if found.postponed else {"Opportunity": position}
        table.commit(read.rows, read.gone, followed, fingerprint(self.description))
        return found

    def _changed(self, after: int) -> tuple[list[str], list[str]]:
        changed: dict[str, dict[str, frozenset[str] | None]] = {}
        for transaction in self.org.transactions(after=after or self.org.last_commit_number):
            for each in transaction.changes:
                fields = frozenset(each.changed_fields) if each.change_type == UPDATE else None
                changed.setdefault(each.entity, {})[each.record_id] = fields

        def referring(entity: str, lookup: str, ids: Collection[str]) -> list[str]:
            return [str(row["Id"]) for row in self.org.records(entity) if row[lookup] in ids]

        parents = affected_records("Opportunity", self.formulas, changed, referring)
        return list(changed.get("Opportunity", ())), sorted(parents)

    def kept(self) -> dict[str, dict[str, object]]:
        table = FormulaValues.open_or_create(self.warehouse, "Opportunity", self.columns)
        return {row["Id"]: {name: row[name] for name in FORMULAS} for row in table.table.rows()}

    def true(self) -> dict[str, dict[str, object]]:
        """The org's values, with the types of the table."""
        found = {}
        for row in self.org.records("Opportunity"):
            values = {name: row[name] for name in FORMULAS}
            closes, asked = str(values["Closes_After__c"]), int(str(values["Asked_At__c"]))
            values |= {"Closes_After__c": datetime.fromisoformat(closes).date()}
            found[str(row["Id"])] = values | {"Asked_At__c": datetime.fromtimestamp(asked / 1000, UTC)}
        return found


@pytest.fixture
def reader(org: EmulatedOrg, session: OrgSession, tmp_path: Path) -> Reader:
    return Reader(org, session, Warehouse(str(tmp_path / "warehouse")))


def test_values_are_the_orgs_after_changes_of_records_of_their_parents_and_of_the_day(org, clock, reader):
    assert reader.formulas.names_time
    assert not reader.formulas.unseen
    assert reader.read_what_is_due().reasons == {Reason.NEVER_READ: 12}
    assert reader.kept() == reader.true()

    first, second, *_ = (str(row["Id"]) for row in org.records("Opportunity"))
    account = str(org.record("Opportunity", first)["AccountId"])
    with org.transaction() as work:
        work.update("Account", account, {"Name": "Renamed"})
        work.update("Opportunity", second, {"Amount": 99_999})
    found = reader.read_what_is_due()
    assert found.reasons[Reason.RECORD_CHANGED] >= 1
    assert 1 <= found.reasons[Reason.PARENT_CHANGED] < 11
    assert reader.kept() == reader.true()

    with org.transaction() as work:
        work.update("Account", account, {"Phone": "123"})
    assert reader.read_what_is_due() == RereadPlan()

    clock.advance(DAY)
    with org.transaction() as work:
        work.delete("Opportunity", first)
    assert reader.read_what_is_due().reasons == {Reason.RECORD_CHANGED: 1, Reason.NEW_DAY: 11}
    assert reader.kept() == reader.true()
    assert first not in reader.kept()


def test_what_a_budget_is_not_enough_for_is_read_by_the_next_one(reader):
    assert reader.read_what_is_due(requests=1, ids_per_request=5).postponed == {Reason.NEVER_READ: 7}
    assert len(reader.kept()) == 5
    assert reader.read_what_is_due(requests=1, ids_per_request=5).postponed == {Reason.NEVER_READ: 2}
    assert not reader.read_what_is_due(requests=1, ids_per_request=5).postponed
    assert reader.kept() == reader.true()


def test_each_row_says_when_it_was_read(org, clock, reader):
    reader.read_what_is_due()
    clock.advance(60_000)
    second = str(next(iter(org.records("Opportunity")))["Id"])
    with org.transaction() as work:
        work.update("Opportunity", second, {"Amount": 1})
    reader.read_what_is_due()
    table = FormulaValues.open(reader.warehouse, "Opportunity")
    assert table is not None
    times = {row["Id"]: row[AS_OF] for row in table.table.rows(["Id", AS_OF])}
    assert times.pop(second) == datetime.fromtimestamp((NOW + 60_000) / 1000, UTC)
    assert set(times.values()) == {datetime.fromtimestamp(NOW / 1000, UTC)}


def test_a_formula_that_is_gone_is_refused_and_changes_nothing(org, reader):
    reader.read_what_is_due()
    before = reader.kept()
    org.setup.drop_field("Opportunity", "Is_Large__c")
    with org.transaction() as work:
        work.update("Opportunity", next(iter(before)), {"Amount": 1})
    with pytest.raises(QueryRefused):
        reader.read_what_is_due()
    assert reader.kept() == before
