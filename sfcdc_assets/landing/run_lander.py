"""Who reads a channel, its stream or the org for objects that are polled; and who lands it for a run: the run itself,
or the sensor that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from sfcdc_assets.lake.tables.event_table import EventTable, landed_table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import PollTimeouts, until_settled
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN, RetryPause
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.settings.channel_kinds import feeds_entities, is_polled

Reader = ChannelReader | PolledReader


def reader_of(
    warehouse: Warehouse,
    org: OrgConnection,
    channel: str,
    settle_seconds: float,
    run_id: str = "",
    pause: RetryPause | None = None,
) -> Reader:
    """Return a reader of the channel; see `ChannelReader` for what it is given."""
    if is_polled(channel):
        return PolledReader(warehouse, org, pause)
    return ChannelReader(warehouse, org, channel, settle_seconds, run_id, pause)


def land_by(reader: Reader, timeouts: PollTimeouts, entity: str | None) -> LandingReport:
    """Land what a channel brings, and type what waits for that; of polled objects what this `entity` has, if one is
    named, whether or not it is due. Raises what the reader raises."""
    if isinstance(reader, PolledReader):
        return reader.land(timeouts, entity)
    report = reader.land(timeouts)
    reader.type_waiting()
    return report


class Poller:
    """Reads channels of one org by itself, for a run or command: a context manager. Subscriptions stay open in it, so
    that nothing is delivered twice to it."""

    def __init__(
        self,
        warehouse: Warehouse,
        org: OrgConnection,
        settle_seconds: float,
        timeouts: PollTimeouts | None = None,
        run_id: str = "",
    ) -> None:
        """`timeouts`: that of a reading whose caller has none of its own; by default until the stream has settled.
        `run_id`: of the run of Dagster that reads, which its commits name."""
        self._warehouse = warehouse
        self._org = org
        self._settle_seconds = settle_seconds
        self._timeouts = timeouts or until_settled(settle_seconds)
        self._run_id = run_id
        self._readers: dict[str, Reader] = {}

    def land(self, channel: str, timeouts: PollTimeouts | None = None, *, entity: str | None = None) -> LandingReport:
        """Land what the channel brings. `entity`: the polled object to ask, due or not. Raises what its reader
        raises."""
        reader = self._readers.get(channel)
        if reader is None:
            reader = reader_of(self._warehouse, self._org, channel, self._settle_seconds, self._run_id)
            self._readers[channel] = reader
        return land_by(reader, timeouts or self._timeouts, entity)

    def __enter__(self) -> Poller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        readers, self._readers = self._readers, {}
        with ExitStack() as stack:
            for reader in readers.values():
                stack.callback(reader.close if kind is None else reader.drop)


class LandedOnly:
    """Lands nothing: the channel's sensor does, and a run that it asked for works on what is there.

    `complete_through_ms`: channel -> what the sensor knew of it when it asked for the run.
    """

    def __init__(self, warehouse: Warehouse, complete_through_ms: dict[str, int]) -> None:
        self._warehouse = warehouse
        self._complete_through_ms = complete_through_ms

    def __enter__(self) -> LandedOnly:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close nothing: there is nothing to close."""

    def land(self, channel: str, timeouts: PollTimeouts | None = None) -> LandingReport:  # noqa: ARG002 - nobody reads
        """Say where the channel stands."""
        return landed_before(self._warehouse, channel, self._complete_through_ms.get(channel, 0))


def landed_before(warehouse: Warehouse, channel: str, complete_through_ms: int = 0) -> LandingReport:
    """Return what is known of a channel that is not read: how far it was landed, by anybody. `complete_through_ms`:
    what somebody who read it knew."""
    if not feeds_entities(channel) and EventTable.open(warehouse, channel) is None:
        return LandingReport(channel)
    checkpoint = landed_table(warehouse, channel).stored_checkpoint(channel)
    return LandingReport(
        channel,
        position=checkpoint.position,
        complete_position=checkpoint.complete_position,
        complete_through_ms=complete_through_ms,
        has_checkpoint=checkpoint.is_known,
        has_answered=bool(checkpoint.replay_id) or checkpoint.position > 0,
    )


@dataclass(frozen=True)
class Reading:
    """What one reading of a channel came to. `failure`: why it ended early; the report is then of what was landed
    before, which can be worked on as ever."""

    report: LandingReport
    failure: Exception | None = None


def reading_of(
    land: Callable[[], LandingReport], warehouse: Warehouse, channel: str, complete_through_ms: int = 0
) -> Reading:
    """Return what landing came to. Raises what is about the login alone; see `landed_before` for the rest."""
    outcome = outcome_of(land)
    if isinstance(outcome, OF_THE_LOGIN):
        raise outcome
    if isinstance(outcome, Exception):
        return Reading(landed_before(warehouse, channel, complete_through_ms), outcome)
    return Reading(outcome)


class FailSafeLander:
    """Another lander, whose failures end nothing: what was landed before is worked on. `failures`: by channel, the
    last one; whoever uses it raises them at the end."""

    def __init__(self, warehouse: Warehouse, lander: Poller | LandedOnly) -> None:
        self._warehouse = warehouse
        self._lander = lander
        self.failures: dict[str, Exception] = {}

    def land(self, channel: str, timeouts: PollTimeouts | None = None) -> LandingReport:
        """Land what the channel brings, or where it stood before. Raises what is about the login: whoever works on the
        tables has to make sure whose they are, and each try of a wrong password brings the user nearer to being locked
        out. What has landed is applied by whoever can log in next."""
        reading = reading_of(lambda: self._lander.land(channel, timeouts), self._warehouse, channel)
        if reading.failure is None:
            self.failures.pop(channel, None)
        else:
            self.failures[channel] = reading.failure
        return reading.report


Lander = Poller | LandedOnly
