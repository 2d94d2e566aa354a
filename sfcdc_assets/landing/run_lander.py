"""Who lands a channel for a run: the run itself, or the sensor that asked for it."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

from sfcdc_assets.lake.tables.event_table import EventTable, landed_table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import Patience, until_settled
from sfcdc_assets.landing.readers import Reader, reader_of
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.settings.channel_kinds import feeds_entities


class Poller:
    """Reads channels of one org by itself, for a run or command: a context manager. Subscriptions stay open in it, so
    that nothing is delivered twice to it."""

    def __init__(
        self,
        warehouse: Warehouse,
        org: OrgConnection,
        settle_seconds: float,
        patience: Patience | None = None,
        run_id: str = "",
    ) -> None:
        """`patience`: that of a reading whose caller has none of its own; by default until the stream has settled.
        `run_id`: of the run of Dagster that reads, which its commits name."""
        self._warehouse = warehouse
        self._org = org
        self._settle_seconds = settle_seconds
        self._patience = patience or until_settled(settle_seconds)
        self._run_id = run_id
        self._readers: dict[str, Reader] = {}

    def land(self, channel: str, patience: Patience | None = None) -> LandingReport:
        """Land what the channel brings. Raises what its reader raises."""
        reader = self._readers.get(channel)
        if reader is None:
            reader = reader_of(self._warehouse, self._org, channel, self._settle_seconds, self._run_id)
            self._readers[channel] = reader
        return reader.land(patience or self._patience)

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

    def land(self, channel: str, patience: Patience | None = None) -> LandingReport:  # noqa: ARG002 - nobody reads
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


class FailSafeLander:
    """Another lander, whose failures end nothing: what was landed before is worked on. `failures`: by channel, the
    last one; whoever uses it raises them at the end."""

    def __init__(self, warehouse: Warehouse, lander: Poller | LandedOnly) -> None:
        self._warehouse = warehouse
        self._lander = lander
        self.failures: dict[str, Exception] = {}

    def land(self, channel: str, patience: Patience | None = None) -> LandingReport:
        """Land what the channel brings, or where it stood before. Raises what is about the login: nothing can be done
        then."""
        outcome = outcome_of(self._lander.land, channel, patience)
        if isinstance(outcome, OF_THE_LOGIN):
            raise outcome
        if isinstance(outcome, Exception):
            self.failures[channel] = outcome
            return landed_before(self._warehouse, channel)
        self.failures.pop(channel, None)
        return outcome


Lander = Poller | LandedOnly
