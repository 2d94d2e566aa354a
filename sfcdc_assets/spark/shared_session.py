"""A session on a standing Spark. Its import takes pandas and gRPC with it: only who uses one waits for that."""

from __future__ import annotations

import logging

from pyspark.sql.connect.client import ChannelBuilder, DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from sfcdc_assets.spark.standing import HOST, StandingSpark

log = logging.getLogger(__name__)

# It prints every failed attempt, as a page of JSON. What comes of them is an exception, and told.
logging.getLogger("pyspark.sql.connect.logging").setLevel(logging.CRITICAL)

_RETRIES = 3
"""PySpark tries for ten minutes by default; a server of this machine that does not answer at once is gone."""


class SharedSession(ConnectSession):  # type: ignore[misc]
    """A session of its own on the server; `stop` gives back what the server keeps for it.

    Not made by `SparkSession.builder`, which makes the whole process one of Spark Connect: should the server be lost,
    a Spark of its own takes over in the same process.
    """

    def __init__(self, standing: StandingSpark) -> None:
        channel = DefaultChannelBuilder(f"sc://{HOST}:{standing.port}")
        channel.set(ChannelBuilder.PARAM_TOKEN, standing.token)
        super().__init__(channel)
        self.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
        self._standing = standing

    @property
    def is_lost(self) -> bool:
        """Whether the server is gone, and the session with it."""
        return not self._standing.is_alive()


def connect(standing: StandingSpark) -> SharedSession | None:
    """Return a session, or None if the server does not answer."""
    session = SharedSession(standing)
    try:
        session.conf.get("spark.sql.shuffle.partitions")
    except Exception:
        log.warning("The standing Spark of process %s does not answer and is not used.", standing.pid, exc_info=True)
        return None
    return session
