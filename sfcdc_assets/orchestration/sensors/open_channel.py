"""A channel that stays open between ticks: its session, its reader, and what the last tick looked at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from sfcdc_assets.lake.delta.table_changes import Seen
from sfcdc_assets.lake.tables.consistent_cuts import Cut
from sfcdc_assets.lake.tables.lost_checkpoints import entities_of_channel
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.landing.retry_pause import RetryPause
from sfcdc_assets.landing.run_lander import Reading, reader_of, reading_of
from sfcdc_assets.orchestration.assets.unreported_landings import HeldLandings
from sfcdc_assets.orchestration.jobs.run_config import SNAPSHOT, SYNC
from sfcdc_assets.orchestration.sensors.asked_for import AskedFor, applied, copied
from sfcdc_assets.orchestration.sensors.between_ticks import LandingBetweenTicks
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.snapshot_budget import SnapshotBudget
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.settings.settings import Settings

log = logging.getLogger(__name__)

MEMBERS_SECONDS = 600.0
"""How long the members of a channel are believed: Salesforce itself takes that long until a change counts."""


class ChannelInUse(SfcdcError):
    """A tick came while the one before it was still at work (Dagster gives a tick up after 60 s, but cannot end it), or
    to a channel that was closed since. It is not kept waiting: that would hold a thread of the code server."""

    def __init__(self, channel: str, reason: str) -> None:
        self.channel = channel
        super().__init__(f"{channel}: {reason}. The next tick tries again.")


@dataclass
class LastLook:
    """What the last look at the tables saw, so that a tick to which nothing happened does not look again."""

    at: float = float("-inf")
    complete_position: int = -1
    was_busy: bool = True
    waits_for: str | None = None
    """The run of another process that has the work of an entity, as far as that was looked at."""
    is_copying: bool = False
    """A run that takes snapshots was asked for, or was at work."""
    asked_for: Mapping[str, AskedFor] = field(
        default_factory=lambda: {SYNC: AskedFor(applied), SNAPSHOT: AskedFor(copied)}
    )
    """By job, what its last run was asked for."""
    cut_owed: bool = True
    cut: Cut | None = None
    """The last one that was noted by a tick, and is not reported yet."""
    is_known: bool = False
    """What was there when the channel was opened is reported."""
    is_unproven: bool = False
    """The channel's first cut was noted just now, before the stream was heard of."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Table -> Delta version, as they were when a cut was last noted or found to be noted."""
    was_idle: bool = False
    """There was nothing to do, and will not be by the lapse of time alone."""
    tables: Seen | None = None
    """Those it looked at."""
    held: HeldLandings = field(default_factory=HeldLandings)
    """What was landed and is not reported yet."""
    no_room: tuple[str, tuple[str, ...]] | None = None
    """Why no snapshot was asked for, and the entities that wait for one."""
    damaged: Mapping[str, SfcdcError] = field(default_factory=dict)
    """Entity -> why its tables cannot be read."""
    entities: Collection[str] = ()
    """Those that the channel feeds, as far as they are known."""
    without_asset: tuple[str, ...] | None = None
    """Of these, as it was noted last, those that have come since definitions loaded."""
    full_look_at: float = float("-inf")
    """When the last one was made that did more than ask whether these have changed."""

    def nothing_changed(self, now: float) -> bool:
        """Return whether a look would see what the last one saw, which was nothing to do. What is not in the tables
        (members of the channel, partitions) is looked at now and then all the same."""
        is_fresh = now - self.full_look_at < MEMBERS_SECONDS
        return is_fresh and self.was_idle and self.tables is not None and self.tables.is_unchanged()


class OpenChannel:
    """An open channel: the session with its org, the reader of its stream, and what the last tick looked at."""

    def __init__(
        self,
        channel: str,
        warehouse: Warehouse,
        settings: Settings,
        connect: Callable[[], AbstractContextManager[OrgConnection]],
        pause: RetryPause | None = None,
        *,
        lands_between_ticks: bool = False,
    ) -> None:
        """`pause`: between tries to read the stream, where it outlives this channel. `lands_between_ticks`: see
        `LandingBetweenTicks`."""
        self.channel = channel
        self.settings = settings
        self.warehouse = warehouse
        self.last_look = LastLook()
        self._used_at = self._tick_began = clock.current().monotonic()
        self._in_use = threading.Lock()
        self._is_ending = False
        self._complete_through_ms = 0
        self.landed = 0
        """Events landed since it was opened, or since `OpenChannels.count_anew`."""
        self._members: dict[str, tuple[float, ChannelMembers | None]] = {}
        self._members_pauses: dict[str, RetryPause] = {}
        with ExitStack() as stack:
            self.org = stack.enter_context(connect())
            self.snapshot_budget = SnapshotBudget(self.org, settings.snapshot_reserve_percent)
            self.reader = reader_of(warehouse, self.org, channel, settings.settle_seconds, pause=pause)
            self._between: LandingBetweenTicks | None = None
            if lands_between_ticks and settings.land_seconds and isinstance(self.reader, ChannelReader):
                self._between = LandingBetweenTicks(self.reader, settings.land_seconds)
            self._stack = stack.pop_all()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Hold the channel for the length of one tick: nobody closes the channel meanwhile. Raises `ChannelInUse`."""
        now = clock.current().monotonic()
        if not self._in_use.acquire(blocking=False):
            reason = f"the tick that began {now - self._tick_began:.0f} s ago is still at work"
            raise ChannelInUse(self.channel, reason)
        self._tick_began = now
        try:
            if self._is_ending:
                raise ChannelInUse(self.channel, "it was closed between two ticks")
            yield
        finally:
            self.touch()
            self._in_use.release()
            if self._is_ending:
                self.end()

    def read(self, timeouts: PollTimeouts) -> Reading:
        """Read as `ChannelReader.land` does. What fails is in the result: what has landed does not depend on the
        stream.

        Raised is what leaves nothing to work on: a failure of a stream that was never heard of, which may not be there
        at all if no entity was ever copied on it either, and `OF_THE_LOGIN`, after which the channel is opened again by
        the next tick, as a session that is kept would go on with the old login.
        """
        reading = reading_of(
            lambda: self.reader.land(timeouts), self.warehouse, self.channel, self._complete_through_ms
        )
        if reading.failure is None:
            if self._between is not None and not self._is_ending:
                self._between.go_on()
            self.landed += reading.report.count
            self._complete_through_ms = reading.report.complete_through_ms
        elif not reading.report.has_answered and not entities_of_channel(self.warehouse, self.channel):
            raise reading.failure
        return reading

    def touch(self) -> None:
        """Somebody wants the channel now."""
        self._used_at = clock.current().monotonic()

    def is_forgotten(self, seconds: float) -> bool:
        """Return whether nobody has wanted the channel for so long."""
        return not self._in_use.locked() and clock.current().monotonic() - self._used_at > seconds

    def members(self, channel: str) -> ChannelMembers | None:
        """Return the members as `OrgConnection.members` does, asked again every ten minutes; while the org gives no
        answer, what it said last, and it is asked again after pauses that grow. Where it never said any, what it fails
        with is raised."""
        now = clock.current().monotonic()
        asked_at, members = self._members.get(channel, (float("-inf"), None))
        if now - asked_at > MEMBERS_SECONDS:
            pause = self._members_pauses.setdefault(channel, RetryPause())
            try:
                pause.check()
                try:
                    members = self.org.members(channel)
                except SfcdcError as error:
                    pause.failed(error)
                    raise
            except SfcdcError:
                if channel not in self._members:
                    raise
                return self.org.without_refused(channel, members)
            pause.worked()
            self._members[channel] = (now, members)
        return self.org.without_refused(channel, members)

    def end(self, *, lands: bool = False) -> None:
        """Close the subscription and the session, now or when the tick in progress is over; no other tick begins.

        `lands`: what is on its way is landed first, and what fails then is raised. Otherwise nothing is.
        """
        self._is_ending = True
        if self._between is not None:
            self._between.stop()
        if not self._in_use.acquire(blocking=False):
            return  # the tick that has it sees the mark when it is done
        try:
            with self._stack:
                if lands:
                    self.reader.close()
                else:
                    self.reader.drop()
        except Exception:
            if lands:
                raise
            log.warning("%s could not be closed in order", self.channel, exc_info=True)
        finally:
            self._in_use.release()
