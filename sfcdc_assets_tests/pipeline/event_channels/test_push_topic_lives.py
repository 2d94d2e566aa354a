"""Simulated org histories under a PushTopic: records enter and leave its filter, are deleted and come back, processes
die before and after their commits, and sessions are forgotten. At the end of each history the
state is what the org has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.event_channels.tables.filter_check import check_topic, verify_topic
from sfcdc_assets.event_channels.tables.fold import fold_topic
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.event_channels.topic import CHANNEL, QUERY

SEEDS = (1, 4)
STEPS = 40
FAULTS = (Fault.COMETD_UNKNOWN_CLIENT, Fault.COMETD_LOST_COOKIE, Fault.COMETD_RESET, Fault.COMETD_CUT)
SELECTED = ("Name", "Industry", "NumberOfEmployees")


class Killed(Exception):
    """The process died here."""


class History:
    """One org, one copy of one topic, and dice."""

    def __init__(self, pipeline: EmulatedPipeline, org: OrgConnection, dice: Random) -> None:
        self.pipeline, self.org, self.dice = pipeline, org, dice
        self.warehouse = Warehouse(str(pipeline.warehouse))
        self.records: list[str] = []
        self.deleted: list[str] = []
        self.visibility = load_settings().visibility_seconds

    def change(self) -> None:
        """One transaction of up to three changes."""
        with self.pipeline.org.transaction() as work:
            for _ in range(self.dice.randint(1, 3)):
                kind = self.dice.choice(["create", "update", "update", "update", "delete", "undelete"])
                if kind == "create" or not self.records:
                    self.records.append(work.create("Account", self.values(Name="new")))
                elif kind == "update":
                    work.update("Account", self.dice.choice(self.records), self.values())
                elif kind == "delete":
                    gone = self.records.pop(self.dice.randrange(len(self.records)))
                    work.delete("Account", gone)
                    self.deleted.append(gone)
                elif self.deleted:
                    back = self.deleted.pop(self.dice.randrange(len(self.deleted)))
                    with suppress(Exception):  # deleted in this very transaction
                        work.undelete("Account", back)
                        self.records.append(back)

    def values(self, **more: Any) -> dict[str, Any]:
        values = {
            "Name": f"name {self.dice.randint(1, 5)}",
            "Industry": self.dice.choice(["Energy", "Energy", "Banking", None]),
            "NumberOfEmployees": self.dice.choice([None, 1, 2]),
        }
        return {name: values[name] for name in self.dice.sample(sorted(values), 2)} | more

    def copy(self, lander: Poller) -> None:
        """What a process does; it may die in the middle."""
        step = self.dice.choice(["land", "fold", "fold", "check"])
        if step == "check":
            self.pipeline.org.clock.advance(60_000)
            check_topic(self.warehouse, self.org, lander, CHANNEL, self.visibility)
        else:
            lander.land(CHANNEL)
            if step == "fold":
                fold_topic(self.warehouse, CHANNEL)

    def expected(self) -> dict[str, dict[str, Any]]:
        """What the topic's query finds, from the org's own log of transactions."""
        found = self.pipeline.org.records("Account")
        return {
            str(each["Id"]): {name: each[name] for name in SELECTED} for each in found if each["Industry"] == "Energy"
        }

    def known(self) -> dict[str, dict[str, Any]]:
        """Rows that are neither deleted nor marked as left."""
        state = PushTopicState.open(self.warehouse, "Energy")
        assert state is not None
        rows = state.table.rows()
        assert len({row["Id"] for row in rows}) == len(rows), "a record has one row"
        return {
            row["Id"]: {name: row[name] for name in SELECTED}
            for row in rows
            if not row["_is_deleted"] and row["_left_filter_at"] is None
        }


@contextmanager
def dying(patch: pytest.MonkeyPatch, dice: Random) -> Iterator[None]:
    """Some commits of the state are a process's last: it dies before or after them."""
    whole = PushTopicState.commit

    def commit(state: PushTopicState, *arguments: Any) -> None:
        fate = dice.random()
        if fate < 0.15:
            raise Killed("before the commit")
        whole(state, *arguments)
        if fate > 0.85:
            raise Killed("after the commit")

    with patch.context() as some:
        some.setattr(PushTopicState, "commit", commit)
        yield


@pytest.mark.parametrize("seed", SEEDS)
def test_at_the_end_of_a_history_the_state_is_what_the_org_has(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = Random(seed)
    pipeline = make_pipeline("Account", records=2, seed=seed)
    pipeline.server.cometd.topics.push_topics.create({"Name": "Energy", "Query": QUERY, "ApiVersion": 60.0})
    with connect(load_settings()) as org:
        history = History(pipeline, org, dice)
        lander = Poller(history.warehouse, org, 0.2, POLL)
        with dying(monkeypatch, dice):
            for _ in range(STEPS):
                history.change()
                if dice.random() < 0.1:
                    pipeline.server.faults.arm(dice.choice(FAULTS))
                if dice.random() < 0.4:
                    try:
                        history.copy(lander)
                    except Killed:
                        lander.__exit__(Killed, None, None)
                        lander = Poller(history.warehouse, org, 0.2, POLL)
        pipeline.server.faults.disarm()
        with lander:
            lander.land(CHANNEL)
            fold_topic(history.warehouse, CHANNEL)
            expected, known = history.expected(), history.known()
            assert {each: known.get(each) for each in expected} == expected, "what is in the filter was notified"
            pipeline.org.clock.advance(60_000)
            check_topic(history.warehouse, org, lander, CHANNEL, history.visibility)
            assert history.known() == history.expected()
            assert verify_topic(history.warehouse, org, lander, CHANNEL, history.visibility).is_equal
