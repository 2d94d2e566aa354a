"""A pause that outlives the process: a sync that cron starts each minute would try a refused login each minute.

It is kept where the warehouse knows whose it is, so a warehouse that belongs to no org yet keeps none: a first login
that fails writes nothing.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from pydantic import SecretStr

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.organization import OrganizationLog
from sfcdc_assets.lake.tables.request_failures import InVain
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import duration_text
from sfcdc_assets.settings.setting_values import LOGIN
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.backoff import Backoff


class RefusedBefore(SfcdcError):
    """Another process was refused with the same settings a short time ago, and the next try is still to come."""

    def __init__(self, what: str, tries: int, refused_ms: int, left_ms: int) -> None:
        self.what, self.tries = what, tries
        times = "" if tries == 1 else f" {tries} times in a row, the last time"
        super().__init__(
            f"{what} was refused{times} {duration_text(refused_ms / 1000)} ago, by another process, whose error says "
            f"why. The next try is in {duration_text(left_ms / 1000)}; with other settings, and by `sfcdc sync` in a "
            "terminal, it is made at once."
        )


class KeptPause:
    """What the org refused to the login of these settings. `what`: in words; `of`: by which errors; `backoff`: how long
    the pauses are."""

    def __init__(
        self,
        warehouse: Warehouse,
        settings: Settings,
        what: str,
        of: tuple[type[Exception], ...],
        backoff: Backoff,
    ) -> None:
        self._warehouse = warehouse
        self._what = what
        self._of = of
        self._backoff = backoff
        self._name = f"refused: {what} of {_mark(settings)}"
        self._known = InVain()

    def check(self) -> None:
        """Raise `RefusedBefore` while the pause of another process goes on."""
        self._known = InVain.of(OrganizationLog(self._warehouse).version_of(self._name))
        now_ms = clock.now_ms()
        until_ms = self._known.until_ms(int(self._backoff.first * 1000), int(self._backoff.longest * 1000))
        if now_ms < until_ms:
            raise RefusedBefore(self._what, self._known.tries, now_ms - self._known.at_ms, until_ms - now_ms)

    def failed(self, error: Exception) -> None:
        """Note that it failed again, perhaps by a refusal. Where that cannot be noted, this process pauses all the
        same."""
        if isinstance(error, self._of):
            with suppress(SfcdcError):
                self._note(self._known.again(clock.now_ms()))

    def worked(self) -> None:
        """Nothing is left of the refusals."""
        if self._known.tries:
            with suppress(SfcdcError):
                self._note(InVain())

    @retry_on_conflict
    def _note(self, known: InVain) -> None:
        log = OrganizationLog(self._warehouse)
        if log.organization_id is not None:
            log.note_version(self._name, known.number)
            self._known = known


def _mark(settings: Settings) -> str:
    """Say which settings of a login these are, by so few bits that no secret can be told by them."""
    given = [getattr(settings, name) for name in LOGIN]
    values = [str(each.get_secret_value() if isinstance(each, SecretStr) else each) for each in given]
    key = settings.private_key_file
    with suppress(OSError):
        values.append(key.read_text(errors="replace") if key is not None else "")
    return hashlib.sha256("\0".join(values).encode()).hexdigest()[:4]
