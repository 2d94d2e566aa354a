"""Where a subscription starts. Replay ids are opaque: they are stored and sent back, never compared or computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb


@dataclass(frozen=True)
class ReplayStart:
    """`ReplayStart.EARLIEST`, `ReplayStart.LATEST`, or `ReplayStart.after(replay_id)`.

    LATEST promises nothing until the first response: a stream that breaks before it starts at a later tip.
    """

    preset: pb.ReplayPreset
    replay_id: bytes = b""

    LATEST: ClassVar[ReplayStart]
    EARLIEST: ClassVar[ReplayStart]

    @staticmethod
    def after(replay_id: bytes) -> ReplayStart:
        """Strictly after this id. Raises `ValueError` for an empty one, which the service would refuse."""
        if not replay_id:
            raise ValueError("an empty replay id is no place in the stream; use ReplayStart.EARLIEST")
        return ReplayStart(pb.CUSTOM, replay_id)

    def fetch_request(self, topic: str, number: int) -> pb.FetchRequest:
        """The first request of a call; it alone decides on topic and start."""
        return pb.FetchRequest(
            topic_name=topic, replay_preset=self.preset, replay_id=self.replay_id, num_requested=number
        )


ReplayStart.LATEST = ReplayStart(pb.LATEST)
ReplayStart.EARLIEST = ReplayStart(pb.EARLIEST)
