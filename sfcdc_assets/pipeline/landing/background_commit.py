"""A commit that is made while the next events are read: one at a time, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures

from sfcdc_assets.change_events.raw_event_rows import StreamCheckpoint


class BackgroundCommit:
    """At most one commit that is under way. For one owner, who asks for its outcome before the next one begins."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread, for whoever looks at the process."""
        self._thread = futures.ThreadPoolExecutor(1, name)
        self._under_way: futures.Future[StreamCheckpoint] | None = None

    def begin(self, commit: Callable[[], StreamCheckpoint]) -> None:
        """Begin a commit, which gives the checkpoint after it."""
        assert self._under_way is None
        self._under_way = self._thread.submit(commit)

    @property
    def is_over(self) -> bool:
        """Whether there is an outcome to be asked for."""
        return self._under_way is not None and self._under_way.done()

    def outcome(self) -> StreamCheckpoint | None:
        """Wait for the commit that is under way: the checkpoint after it; None if there is none. Raises what it
        raised."""
        if self._under_way is None:
            return None
        futures.wait([self._under_way])
        under_way, self._under_way = self._under_way, None
        return under_way.result()

    def wait(self) -> None:
        """Wait until nothing is under way, whatever became of it: what is durable stays as it is from then on."""
        if self._under_way is not None:
            futures.wait([self._under_way])
            self._under_way = None
