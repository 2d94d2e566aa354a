"""A subscription of no protocol: its calls play a script, and time is moved instead of waited for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import pytest

from sfcdc_assets.runtime.clock import Clock, using
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.delivered_event import DeliveredEvent, ReplayStart
from sfcdc_assets.streams.errors import AuthenticationRefused, ReplayIdRefused, TokenExpired, TransportUnavailable
from sfcdc_assets.streams.open_call import Arrival, OpenCall
from sfcdc_assets.streams.reconnecting_subscription import ReconnectingSubscription
from sfcdc_assets.streams.resume import StreamProgress
from sfcdc_assets_tests.simulated_clock import SimulatedClock


class Busy(TransportUnavailable):
    pause = 30.0


class Ended(TransportUnavailable):
    ends_take = True


class Expired(TokenExpired):
    def final(self) -> AuthenticationRefused:
        return AuthenticationRefused("it is not accepted")


Step = int | Exception | None
"""An event by its number, an error, or silence from there on."""


class ScriptedCall(OpenCall):
    """Brings what its script says, at once; then it is silent."""

    def __init__(self, clock: Clock, script: Sequence[Step], longest_silence: float) -> None:
        super().__init__(clock)
        self._script = script
        self._longest_silence = longest_silence
        self._begin_to_read("script")

    @property
    def longest_silence(self) -> float:
        return self._longest_silence

    def take(self, seconds: float) -> Arrival | None:
        self._reader.join()  # all that the script brings has come
        return super().take(seconds)

    def _read(self) -> Exception | None:
        for step in self._script:
            if isinstance(step, Exception):
                return step
            if isinstance(step, int):
                self._put(Arrival((event(step),), False, 1, self._clock.monotonic(), self._clock.now_ms()))
        return None

    def _end(self) -> None:
        """Nothing is open."""


class Service:
    """The connection and its calls; `starts` and `said` tell what was asked of them."""

    def __init__(self, clock: SimulatedClock, longest_silence: float, scripts: Sequence[Sequence[Step]]) -> None:
        self.backoff = Backoff(attempts=3, first=1.0, random=lambda: 1.0)
        self.sleep: Callable[[float], None] = clock.sleep
        self.clock = clock
        self.longest_silence = longest_silence
        self.scripts = iter(scripts)
        self.starts: list[bytes] = []
        self.said: list[str] = []

    def refresh_credentials(self) -> None:
        self.said.append("refreshed")


class Subscription(ReconnectingSubscription[ScriptedCall]):
    _connection: Service

    @property
    def outstanding(self) -> int:
        return 1

    def top_up(self, *, sparingly: bool = False) -> None:
        """Nobody asks."""

    def _begin(self, start: ReplayStart) -> ScriptedCall:
        service = self._connection
        service.said.append("begun")
        service.starts.append(start.replay_id)
        return ScriptedCall(service.clock, next(service.scripts), service.longest_silence)

    def _silent(self, seconds: float) -> TransportUnavailable:
        return TransportUnavailable(f"silent for {seconds:.0f} s")

    def _give_up(self) -> None:
        self._connection.said.append("gave up")


def event(number: int) -> DeliveredEvent:
    return DeliveredEvent(f"event-{number}", "", b"", str(number).encode(), 0)


@pytest.fixture
def clock() -> Iterator[SimulatedClock]:
    clock = SimulatedClock()
    with using(clock):
        yield clock


def subscription(clock: SimulatedClock, *scripts: Sequence[Step], longest_silence: float = 300.0) -> Subscription:
    return Subscription(Service(clock, longest_silence, scripts), "/data/X", StreamProgress(ReplayStart.EARLIEST))


def names(subscription: Subscription, seconds: float) -> list[str]:
    received = subscription.take(seconds)
    return [each.event_id for each in received.events] if received is not None else []


def test_a_call_that_is_given_up_at_once_is_begun_again_while_one_take_lasts(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedCall, "is_given_up_at_once", True)
    kept = subscription(clock, [1, 2], [2, 3])
    assert names(kept, 10) + names(kept, 10) == ["event-1", "event-2"]
    began = clock.monotonic()
    assert names(kept, 3_600) == []  # event 2 again
    assert names(kept, 3_600) == ["event-3"]
    assert 300 <= clock.monotonic() - began < 301
    assert kept._connection.starts == [b"", b"1"]
    assert kept._connection.said == ["begun", "gave up", "begun"]


def test_a_silence_that_outlasts_a_patient_take_is_an_outage_and_a_quick_one_mends_it(clock: SimulatedClock) -> None:
    kept = subscription(clock, [1, 2], [2, 3], [3, 4])
    assert names(kept, 10) + names(kept, 10) == ["event-1", "event-2"]
    with pytest.raises(TransportUnavailable, match="silent for 310 s"):
        kept.take(310)
    assert names(kept, 10) + names(kept, 10) == ["event-3"]
    clock.advance(301_000)
    assert names(kept, 0) == []
    assert kept._connection.said == ["begun", "gave up", "begun", "gave up", "begun"]


def test_a_call_that_may_be_silent_for_ever_is_left_alone(clock: SimulatedClock) -> None:
    kept = subscription(clock, [1], longest_silence=math.inf)
    names(kept, 10)
    assert kept.take(86_400) is None
    assert (kept.is_open, kept.quiet_for()) == (True, pytest.approx(86_400, abs=1))


def test_the_pause_that_a_refusal_asks_for_is_kept(clock: SimulatedClock) -> None:
    kept = subscription(clock, [Busy("busy")], [1])
    began = clock.monotonic()
    assert names(kept, 60) == ["event-1"]
    assert clock.monotonic() - began >= 30


def test_a_refusal_that_ends_a_take_is_raised_however_patient_it_is(clock: SimulatedClock) -> None:
    kept = subscription(clock, [Ended("ended")], [1])
    with pytest.raises(Ended):
        kept.take(3_600)
    assert names(kept, 60) == ["event-1"]


def test_a_token_is_refreshed_once_before_its_refusal_is_final(clock: SimulatedClock) -> None:
    kept = subscription(clock, [1, Expired()], [Expired()], [1, 2])
    assert names(kept, 10) == ["event-1"]
    with pytest.raises(AuthenticationRefused, match="not accepted"):
        kept.take(10)
    assert kept._connection.said == ["begun", "refreshed", "begun"]
    assert names(kept, 10) == []
    assert names(kept, 10) == ["event-2"]


def test_what_cannot_be_mended_is_raised_and_the_place_is_kept(clock: SimulatedClock) -> None:
    kept = subscription(clock, [1, 2, ReplayIdRefused("too old")], [3])
    assert names(kept, 10) + names(kept, 10) == ["event-1", "event-2"]
    with pytest.raises(ReplayIdRefused):
        kept.take(10)
    assert (kept.is_open, kept.resume_point.replay_id) == (False, b"1")


def test_a_defect_in_the_reading_thread_reaches_the_one_who_takes(clock: SimulatedClock) -> None:
    with pytest.raises(ZeroDivisionError):
        subscription(clock, [ZeroDivisionError()]).take(10)
