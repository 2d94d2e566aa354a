"""A channel read through a managed event subscription of the org, whose place follows ours.

Our checkpoint decides where a call begins, as on every channel; the org's place is a copy of it for others to see. It
is moved only when ours is durable, so it is never ahead of what has landed. A ManagedSubscribe call cannot be told
where to begin. So it is used only when everything that was taken is durable and the org has accepted that place;
otherwise (a first start, a call that broke with events on the way, a place of the org's that is ahead of ours) the
topic is read with Subscribe, from our place, until that is so.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.open_call import Arrival
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.fetch_stream import FetchStream
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.subscription import PubSubSubscription
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import Received

_FINISH_SECONDS = 5.0


@dataclass(frozen=True)
class CommitAnswer:
    """What the org says of a place that was committed; `refusal` is empty where it keeps it.

    Several commits may have one answer, that of the last one.
    """

    replay_id: bytes
    refusal: str = ""


class ManagedFetchStream(FetchStream):
    """An open call of a managed event subscription; `start` is where it is known to begin."""

    rpc = "ManagedSubscribe"

    def __init__(
        self, connection: PubSubConnection, developer_name: str, start: ReplayStart, number: int, clock: Clock
    ) -> None:
        """Start the call and ask for `number` events."""
        self._answers: deque[CommitAnswer] = deque()
        super().__init__(connection, developer_name, start, number, clock)

    def commit(self, replay_id: bytes) -> None:
        """Have the org keep this place: everything up to it has been processed."""
        request = pb.CommitReplayRequest(commit_request_id=str(uuid.uuid4()), replay_id=replay_id)
        self._requests.put(pb.ManagedFetchRequest(commit_replay_id_request=request))

    def answer(self, seconds: float) -> CommitAnswer | None:
        """Return what the org says of a commit, waiting for it; None if it says nothing for so long. Raises what ended
        the call. These are seconds of the machine, as those of gRPC's deadlines are."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._answers or self._error), seconds)
            if self._answers:
                return self._answers.popleft()
            if self._error is not None:
                raise self._error
            return None

    def finish(self) -> None:
        """End the call by asking for no more, so that the org knows of its end when this returns: as long as it does
        not, it refuses another one. A service that does not end the call is not waited for."""
        self._requests.put(None)
        self._reader.join(_FINISH_SECONDS)
        self.close()

    def answers(self) -> list[CommitAnswer]:
        """Return what it has said since it was last asked, without waiting."""
        with self._changed:
            found = list(self._answers)
            self._answers.clear()
            return found

    def _first_request(self, number: int) -> pb.ManagedFetchRequest:
        return pb.ManagedFetchRequest(developer_name=self._subject, num_requested=number)

    def _request(self, number: int) -> pb.ManagedFetchRequest:
        return pb.ManagedFetchRequest(num_requested=number)

    def _arrival(self, response: Any) -> Arrival | None:
        if response.HasField("commit_response"):
            self._note(response.commit_response)
            if not response.events:
                # It says nothing of the stream: the latest replay id may be that of the commit.
                return None
        return super()._arrival(response)

    def _note(self, answer: pb.CommitReplayResponse) -> None:
        refusal = ""
        if answer.HasField("error"):
            refusal = answer.error.msg or pb.ErrorCode.Name(answer.error.code)
        with self._changed:
            self.last_sign = self._clock.monotonic()
            self.responses += 1
            self._answers.append(CommitAnswer(answer.replay_id, refusal))
            self._changed.notify_all()


log = logging.getLogger(__name__)

ANSWER_SECONDS = 20.0
"""How long the answer to a commit is waited for before a call is begun."""
AGREE_AGAIN_SECONDS = 300.0
"""After a place of ours was not accepted, how long Subscribe is used before the org is asked again."""


class ManagedSubscription(PubSubSubscription):
    """The subscription `developer_name` of the org, from where `progress` is on.

    `topic_of` names the topic of the managed event subscription; it raises `ManagedSubscriptionNotFound`.
    """

    def __init__(
        self,
        connection: PubSubConnection,
        channel: str,
        developer_name: str,
        topic_of: Callable[[], str],
        progress: StreamProgress,
    ) -> None:
        super().__init__(connection, channel, progress)
        self._developer_name = developer_name
        self._topic_of = topic_of
        self._topic: str | None = None
        self._durable = progress.point
        self._has_more = False
        """Whether events were taken that are not durable yet."""
        self._accepted: bytes | None = None
        """The place that the org has last said to keep."""
        self._asked: bytes | None = None
        """The place that it was last asked to keep, on the open call."""
        self._agree_at = -math.inf

    def landed(self, point: ResumePoint) -> None:
        """See `Subscription.landed`: the org's place follows."""
        self._durable = point
        self._has_more = not self._progress.ends_at(point)
        call = self._call
        if isinstance(call, ManagedFetchStream):
            for answer in call.answers():
                self._note(answer)
            if point.replay_id is not None and point.replay_id not in (self._accepted, self._asked):
                self._asked = point.replay_id
                call.commit(point.replay_id)

    def take(self, seconds: float) -> Received | None:
        """See `Subscription.take`."""
        if self._call is not None and not isinstance(self._call, ManagedFetchStream) and self._place() is not None:
            self.close()  # the next call goes on from the org's place
        received = super().take(seconds)
        self._has_more = self._has_more or bool(received and received.events)
        return received

    def _begin(self, start: ReplayStart) -> FetchStream:
        self._asked = None
        if self._topic is None:
            self._topic = self._topic_of()
        place = self._place()
        call = self._managed(place) if place is not None else None
        return call or self._subscribed(self._topic, start)

    def _place(self) -> bytes | None:
        """Return the place that a call may begin at which the org keeps: all that was taken is durable there. None when
        some is not, and for a while after the org did not accept it."""
        is_due = self._clock.monotonic() >= self._agree_at
        return self._durable.replay_id if is_due and not self._has_more else None

    def _managed(self, place: bytes) -> ManagedFetchStream | None:
        """Return a call that begins at our place; None when the org does not take it over.

        A call begins at the place that the org has when it is opened, which may be before ours. So a first one moves
        it, and a second one begins there; that it does is shown by the org's accepting the place once more, while
        nobody else can move it.
        """
        if self._accepted != place:
            moving = self._call_at(place, 1)
            if moving is None:
                return None
            moving.finish()
        return self._call_at(place, self._batch)

    def _call_at(self, place: bytes, number: int) -> ManagedFetchStream | None:
        """Return a call on which the org has accepted the place as its own; None, with a warning, when it does not."""
        begin = ReplayStart.after(place)
        call = ManagedFetchStream(self._connection, self._developer_name, begin, number, self._clock)
        try:
            call.commit(place)
            answer = call.answer(ANSWER_SECONDS)
            self._note(answer or CommitAnswer(place, f"no answer within {ANSWER_SECONDS:.0f} s"))
        except BaseException:
            call.close()
            raise
        if self._accepted == place and answer is not None and not answer.refusal:
            return call
        call.close()
        return None

    def _note(self, answer: CommitAnswer) -> None:
        if not answer.refusal:
            self._accepted = answer.replay_id
            return
        self._agree_at = self._clock.monotonic() + AGREE_AGAIN_SECONDS
        log.warning(
            "%s: the org does not take over this warehouse's place in the stream, replay id %s (%s). The warehouse's "
            "place counts: nothing is skipped, and %s is read with Subscribe from there where calls begin meanwhile.",
            self._channel,
            answer.replay_id.hex(),
            answer.refusal,
            self._developer_name,
        )
