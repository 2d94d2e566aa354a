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
from collections.abc import Callable

from sfcdc_assets.pubsub.channel import PubSubConnection
from sfcdc_assets.pubsub.fetch_stream import FetchStream
from sfcdc_assets.pubsub.managed_stream import CommitAnswer, ManagedFetchStream
from sfcdc_assets.pubsub.subscription import PubSubSubscription
from sfcdc_assets.streams.replay import ReplayStart
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import Received

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
        """The place that a call may begin at which the org keeps: all that was taken is durable there. None when some
        is not, and for a while after the org did not accept it."""
        is_due = self._clock.monotonic() >= self._agree_at
        return self._durable.replay_id if is_due and not self._has_more else None

    def _managed(self, place: bytes) -> ManagedFetchStream | None:
        """A call that begins at our place; None when the org does not take it over.

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
        """A call on which the org has accepted the place as its own; None, with a warning, when it does not."""
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
