"""What an administrator does in a simulated history: objects leave their channel and come back, events are filtered,
rights to see all records are taken away and given back, and the org loses the place of its clients in the stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.setup.channels import CHANGE_EVENTS
from sfcdc_assets.salesforce.channel_members import STANDARD_CHANNEL
from sfcdc_assets.salesforce.view_all import REMEMBERED_SECONDS
from sfcdc_assets_tests.pipeline.simulation.diary import Diary, Unseen
from sfcdc_assets_tests.pipeline.simulation.history_plan import BatchPlan
from sfcdc_assets_tests.simulated_clock import SimulatedClock


def name_of(channel: str) -> str:
    """The developer name of a channel."""
    return channel.removeprefix("/data/")


class Administrator:
    """Acts between two steps of a simulated, by dice of its own."""

    def __init__(
        self,
        plan: BatchPlan,
        org: EmulatedOrg,
        bus: EventBus,
        clock: SimulatedClock,
        diary: Diary,
        live_on: Callable[[int], None],
        hang_up: Callable[[], None],
    ) -> None:
        """`live_on` lets so many steps happen; `hang_up` ends the client's streams."""
        self._plan = plan
        self._org = org
        self._bus = bus
        self._clock = clock
        self._diary = diary
        self._live_on = live_on
        self._hang_up = hang_up
        self._dice = Random(f"administrator:{plan.seed}")
        self._hands = Random(f"rights:{plan.seed}")
        self._mishaps = Random(f"losses:{plan.seed}")
        if not plan.rights_are_shown:
            # What nobody can look up, nobody can be warned of: what is not shown is taken for gone.
            org.hidden_objects.add("PermissionSetAssignment")

    def act(self, *, while_reading: bool) -> None:
        """Perhaps. An org that is being read delivers at once what happens, so nothing of that is lost."""
        copied = sorted({each.entity for each in self._diary.snapshots} & set(self._org.selected_entities))
        if not copied:
            return
        if self._dice.random() < self._plan.comings_and_goings:
            self._change_a_member(self._dice.choice(copied))
        if self._hands.random() < self._plan.rights_lost:
            self._change_rights(self._hands.choice(copied))
        if self._mishaps.random() < self._plan.losses and not while_reading:
            self._lose_the_place()

    def give_everything_back(self) -> None:
        """Put on the channel what is off it, remove filters, give back rights."""
        for each in [each for each in self._diary.unseen if each.until is None and not each.are_hidden]:
            self._change_a_member(each.entity)
        for entity in self._org.definitions:
            if not self._org.view_all.of(entity):
                self._change_rights(entity)

    def _change_a_member(self, entity: str) -> None:
        """What an administrator does to an object's place on the channel: what was taken away is given back."""
        self._clock.advance(1_000)  # the org's times are whole seconds
        member, channels, name = self._member(entity), self._org.channels, name_of(self._plan.channel)
        if self._plan.channel == STANDARD_CHANNEL:
            self._note("off and on")
            self._see_no_more(entity)
            channels.remove_member(str(member))
            self._live_on(self._dice.choice((0, 1, 3)))
            self._clock.advance(1_000)
            channels.add_member(CHANGE_EVENTS, entity)
            self._see_again(entity)
        elif member is None:
            self._note("on")
            channels.add_member(name, entity)
            self._see_again(entity)
        elif channels.filter_expression(name, entity) is not None:
            self._note("filter removed")
            channels.filter_events(member, None)
            self._see_again(entity)
        elif self._dice.random() < 0.5:
            self._note("filter set")
            self._see_no_more(entity)
            channels.filter_events(member, f"CreatedDate > {_soql_time(self._clock())}")
        else:
            self._note("off")
            self._see_no_more(entity)
            channels.remove_member(member)

    def _change_rights(self, entity: str) -> None:
        """Records that are not shared with the client's user are not shown to it, or are again. What is known of rights
        is remembered for a while: a run asks for them after that."""
        shows_all, are_hidden = self._org.view_all.of(entity), not self._plan.rights_are_shown
        self._note("View All withdrawn" if shows_all else "View All given back")
        if shows_all:
            self._org.view_all.withdraw(entity)
            if are_hidden:
                self._see_no_more(entity, are_hidden=True)
        else:
            self._org.view_all.give_back(entity)
            self._see_again(entity, are_hidden=True)
        self._clock.advance(int(REMEMBERED_SECONDS * 1_000) + 1_000)

    def _lose_the_place(self) -> None:
        """All stored events are gone; or they, and the instance; or the instance alone, so that all of them come."""
        kind = self._mishaps.choice(("events expired", "org moved", "instance changed"))
        self._note(kind)
        self._hang_up()
        self._diary.losses.append(self._clock())
        if kind == "events expired":
            self._bus.expire()
        elif kind == "org moved":
            self._bus.move()
        else:
            self._org.change_instance()

    def _member(self, entity: str) -> str | None:
        """The id of an object's member of the channel."""
        place = (name_of(self._plan.channel), entity)
        found = [each.id for each in self._org.channels.members() if (each.channel, each.entity) == place]
        return found[0] if found else None

    def _see_no_more(self, entity: str, *, are_hidden: bool = False) -> None:
        second = self._clock() // 1_000 * 1_000  # what is committed in it is dated so
        self._diary.unseen.append(Unseen(entity, second, None, are_hidden))

    def _see_again(self, entity: str, *, are_hidden: bool = False) -> None:
        of = (entity, None, are_hidden)
        self._diary.unseen = [
            replace(each, until=self._clock()) if (each.entity, each.until, each.are_hidden) == of else each
            for each in self._diary.unseen
        ]

    def _note(self, kind: str) -> None:
        self._diary.kinds.append(kind)


def _soql_time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
