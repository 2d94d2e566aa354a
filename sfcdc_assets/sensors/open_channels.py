"""The channels that this process keeps open between ticks.

A subscription belongs to the process that evaluates the sensor, which lives between ticks; a run is another process and
opens none. When this process ends or is replaced, the next one resumes from the durable place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType

from sfcdc_assets import clock
from sfcdc_assets.config import Settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.channel_reader import ChannelReader
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.salesforce.channel_members import ChannelMembers

FORGOTTEN_SECONDS = 120.0
"""A channel that no tick has asked for is closed: its sensor was switched off, or another process has it now."""
MEMBERS_SECONDS = 600.0
"""How long the members of a channel are believed: Salesforce itself takes that long until a change counts."""


@dataclass
class Looked:
    """What the last look at the tables saw, so that a tick to which nothing happened does not look again."""

    at: float = float("-inf")
    complete_position: int = -1
    was_busy: bool = True
    cut_owed: bool = True


class OpenChannel:
    """An open channel: the session with its org, the reader of its stream, and what the last tick looked at."""

    def __init__(
        self, channel: str, warehouse: Warehouse, settings: Settings, connect: Callable[[], AbstractContextManager[Org]]
    ) -> None:
        self.settings = settings
        self.warehouse = warehouse
        self.looked = Looked()
        self.used_at = clock.current().monotonic()
        self.in_use = threading.Lock()
        self._stack = ExitStack()
        self.org = self._stack.enter_context(connect())
        self.reader = ChannelReader(warehouse, self.org, channel, settings.settle_seconds)
        self._members: dict[str, tuple[float, ChannelMembers | None]] = {}

    def members(self, channel: str) -> ChannelMembers | None:
        """As `Org.members`, asked anew every ten minutes."""
        now = clock.current().monotonic()
        asked_at, members = self._members.get(channel, (float("-inf"), None))
        if now - asked_at > MEMBERS_SECONDS:
            members = self.org.members(channel)
            self._members[channel] = (now, members)
        return members

    def close(self, *, lands: bool) -> None:
        """End the subscription and the session; `lands`: what is on its way is landed first."""
        with self._stack:
            if lands:
                self.reader.close()
            else:
                self.reader.drop()


class OpenChannels:
    """Opens channels when they are first asked for. Close it, or leave it as a context manager, at the end."""

    def __init__(self, forgotten_seconds: float = FORGOTTEN_SECONDS) -> None:
        self._forgotten_seconds = forgotten_seconds
        self._open: dict[str, OpenChannel] = {}
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None

    def of(
        self,
        channel: str,
        warehouse: Warehouse,
        settings: Settings,
        connect: Callable[[], AbstractContextManager[Org]],
    ) -> OpenChannel:
        """The open channel; opened anew when the settings or the warehouse are not those it was opened with."""
        with self._changed:
            found = self._open.get(channel)
            if found is not None and (found.settings, found.warehouse) != (settings, warehouse):
                del self._open[channel]
                found.close(lands=False)
                found = None
            if found is None:
                found = self._open[channel] = OpenChannel(channel, warehouse, settings, connect)
            found.used_at = clock.current().monotonic()
            if self._watcher is None and self._forgotten_seconds < float("inf"):
                self._watcher = threading.Thread(target=self._watch, name="forgotten channels", daemon=True)
                self._watcher.start()
            return found

    def drop(self, channel: str) -> None:
        """Close a channel that failed in a way its reader does not mend: the next tick opens it anew."""
        with self._changed:
            found = self._open.pop(channel, None)
        if found is not None:
            found.close(lands=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The channels that are open."""
        with self._changed:
            return tuple(self._open)

    def close(self, *, lands: bool = False) -> None:
        """Close all."""
        with self._changed:
            opened, self._open = self._open, {}
            self._changed.notify_all()
        for each in opened.values():
            each.close(lands=lands)

    def __enter__(self) -> OpenChannels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(lands=kind is None)

    def _watch(self) -> None:
        """Close what is forgotten, until nothing is open."""
        while True:
            with self._changed:
                if not self._open:
                    self._watcher = None
                    return
                at_most = self._forgotten_seconds / 4
                clock.current().wait_for(self._changed, lambda: not self._open, at_most)
                now = clock.current().monotonic()
                forgotten = [
                    name
                    for name, each in self._open.items()
                    if now - each.used_at > self._forgotten_seconds and not each.in_use.locked()
                ]
                closing = [self._open.pop(name) for name in forgotten]
            for each in closing:
                each.close(lands=False)
