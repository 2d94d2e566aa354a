"""The channels that this process keeps open between ticks.

A subscription belongs to the process that evaluates the sensor, which lives between ticks; a run is another process and
opens none. When this process ends or is replaced, the next one resumes from the durable place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN, RetryPause, durable_pauses
from sfcdc_assets.landing.run_lander import land_by
from sfcdc_assets.orchestration.sensors.open_channel import ChannelInUse, OpenChannel
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings

FORGOTTEN_SECONDS = 120.0
"""A channel that no tick has asked for is closed: its sensor was switched off, or another process has it now."""


@dataclass(frozen=True)
class Pauses:
    """Between the tries of one channel, and between the logins of all, with the settings that were tried: other ones
    are tried at once. They outlive what they are about."""

    settings: Settings
    login: RetryPause
    channel: RetryPause


@dataclass(frozen=True)
class OneSubscription:
    """Lands by channels that are open for others too, as the syncs between two comparisons are: nothing is delivered
    twice."""

    channels: OpenChannels
    settings: Settings
    timeouts: PollTimeouts

    def land(self, channel: str, entity: str | None = None) -> LandingReport:
        """Land what there is. `entity`: the polled object to ask, due or not."""
        return land_by(self.channels.of_settings(channel, self.settings).reader, self.timeouts, entity)


class OpenChannels:
    """Opens channels when they are first asked for. Close it, or leave it as a context manager, at the end."""

    def __init__(
        self,
        forgotten_seconds: float = FORGOTTEN_SECONDS,
        *,
        tries_at_once: bool = False,
        lands_between_ticks: bool = False,
    ) -> None:
        """`tries_at_once`: whatever other processes were refused a short time ago. `lands_between_ticks`: for who ticks
        as Dagster's daemon does; another one reads as long as it wants to."""
        self._lands_between_ticks = lands_between_ticks
        self._tries_at_once = tries_at_once
        self._forgotten_seconds = forgotten_seconds
        self._open: dict[tuple[str, str], OpenChannel] = {}
        """By whose they are, and their names."""
        self._opening: set[tuple[str, str]] = set()
        self._pauses: dict[tuple[str, str], Pauses] = {}
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None

    def copies_that_wait(self) -> dict[str, str]:
        """Entity -> why no snapshot of it was asked for by the last tick of its channel."""
        found = [opened.last_look.no_room for opened in self._open.values() if opened.last_look.no_room is not None]
        return {entity: reason for reason, entities in found for entity in entities}

    def of(
        self,
        channel: str,
        warehouse: Warehouse,
        settings: Settings,
        connect: Callable[[], AbstractContextManager[OrgConnection]],
        of_org: str = "",
    ) -> OpenChannel:
        """Return the open channel; opened again when the settings or the warehouse are not those it was opened with.
        `of_org`: tells channels apart that several orgs have under one name.

        Raises `ChannelInUse` and what `connect` raises; nothing is open then. That is raised again and not tried again
        before its pause is over, which grows (`RetryPause`), or the settings change: what is about the login for all
        channels, because an org locks out users after some wrong passwords.
        """
        key = of_org, channel
        with self._changed:
            pauses = self._pauses_of(key, warehouse, settings)
            pauses.login.check()
            found = self._open.get(key)
            if found is not None and (found.settings, found.warehouse) == (settings, warehouse):
                found.touch()
                return found
            pauses.channel.check()
            if key in self._opening:
                raise ChannelInUse(channel, "the tick before is still connecting to the org")
            self._opening.add(key)
        # Not while others wait for us: to close a call, or to log in to an org that does not answer, takes long.
        opened: OpenChannel | None = None
        try:
            self.drop(channel, of_org)
            opened = OpenChannel(
                channel,
                warehouse,
                settings,
                connect,
                pauses.channel,
                lands_between_ticks=self._lands_between_ticks,
            )
            return opened
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised
            failed = pauses.login if isinstance(error, OF_THE_LOGIN) else pauses.channel
            failed.failed(error)
            raise failed.said(error) from error.__cause__
        finally:
            with self._changed:
                self._opening.remove(key)
                if opened is not None:
                    pauses.login.worked()
                    self._open[key] = opened
                    self._watch_them()

    def of_settings(self, channel: str, settings: Settings) -> OpenChannel:
        """Return the open channel of these settings as `of` does, with their warehouse and their login."""
        warehouse = Warehouse(settings.warehouse)
        return self.of(channel, warehouse, settings, partial(open_org, warehouse, settings))

    def _pauses_of(self, key: tuple[str, str], warehouse: Warehouse, settings: Settings) -> Pauses:
        """Return those of a channel with these settings. The caller holds the lock."""
        found = self._pauses.get(key)
        if found is None or found.settings != settings:
            same = (each.login for each in self._pauses.values() if each.settings == settings)
            login, stream = RetryPause(), RetryPause()
            if not self._tries_at_once:
                login, stream = durable_pauses(warehouse, settings, key[1])
            found = Pauses(settings, next(same, None) or login, stream)
            self._pauses[key] = found
        return found

    def count_anew(self) -> None:
        """Count what is landed from here on, as a sync does that finds channels open."""
        with self._changed:
            for opened in self._open.values():
                opened.landed = 0

    def drop(self, channel: str, of_org: str = "") -> None:
        """End a channel that is not to be read on as it is: the next tick opens it again."""
        with self._changed:
            found = self._open.pop((of_org, channel), None)
        if found is not None:
            found.end()

    @property
    def names(self) -> tuple[str, ...]:
        """The channels that are open."""
        with self._changed:
            return tuple(name for _, name in self._open)

    def close(self, *, lands: bool = False) -> None:
        """End all. Raises what `OpenChannel.end` raises, after the others are ended too."""
        with self._changed:
            opened, self._open = self._open, {}
            self._changed.notify_all()
        with ExitStack() as stack:
            for each in opened.values():
                stack.callback(each.end, lands=lands)

    def __enter__(self) -> OpenChannels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(lands=kind is None)

    def _watch_them(self) -> None:
        """Have a thread that ends what is forgotten. The caller holds the lock."""
        if self._watcher is None and self._forgotten_seconds < float("inf"):
            self._watcher = threading.Thread(target=self._watch, name="forgotten channels", daemon=True)
            self._watcher.start()

    def _watch(self) -> None:
        """End what is forgotten, until nothing is open."""
        while True:
            with self._changed:
                at_most = self._forgotten_seconds / 4
                clock.current().wait_for(self._changed, lambda: not self._open, at_most)
                names = [name for name, each in self._open.items() if each.is_forgotten(self._forgotten_seconds)]
                ending = [self._open.pop(name) for name in names]
                is_over = not self._open
                if is_over:
                    self._watcher = None  # the next channel that is opened has a watcher of its own
            for each in ending:
                each.end()
            if is_over:
                return
