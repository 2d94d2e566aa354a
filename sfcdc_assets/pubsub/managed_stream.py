"""One ManagedSubscribe call: the org keeps the place up to which its client has processed the topic.

The call begins after what was committed last, and no request can say otherwise. See
https://developer.salesforce.com/docs/platform/pub-sub-api/guide/managed-sub.html
"""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.clock import Clock
from sfcdc_assets.pubsub.channel import PubSubConnection
from sfcdc_assets.pubsub.fetch_stream import FetchStream
from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.open_call import Arrival
from sfcdc_assets.streams.replay import ReplayStart

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
        """What the org says of a commit, waiting for it; None if it says nothing for so long. Raises what ended the
        call. These are seconds of the machine, as those of gRPC's deadlines are."""
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
        """What it has said since it was last asked, without waiting."""
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
