"""Up to when an org's changes are visible, as one of its objects says for all."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.polls.cursor import Cursor
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import ApiLimitReached, RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.replication import covered_until

log = logging.getLogger(__name__)

TRIES = 3
"""Objects that are asked at once, until one answers: not every object is replicateable."""
EVERY_ORG_HAS = "User"
"""It is replicateable (Object Reference, "User": `getUpdated()`), and the answer is the same for all objects."""


class CoveredTime:
    """Asks one object of an org, the one that answered last, or the first that does."""

    def __init__(self, org: OrgConnection) -> None:
        self._org = org
        self._refused: set[str] = set()
        self._answered: tuple[str, ...] = ()

    def ask(self, entities: Sequence[str]) -> int:
        """Return the time (epoch ms, UTC, by the org's clock) before which no change becomes visible any more that was
        not before, by one of these objects or by users; 0 where none of them says. Raises what concerns all
        requests."""
        now = clock.now()
        # One that was refused comes last, and is asked again: that may have been of the moment, as when more than
        # 600,000 of its records were stamped within two minutes (EXCEEDED_ID_LIMIT).
        asked = [*self._answered, *sorted(entities, key=self._refused.__contains__)]
        for entity in dict.fromkeys([*asked[: TRIES - 1], EVERY_ORG_HAS]):
            try:
                covered = covered_until(self._org.session, entity, now)
            except ApiLimitReached:
                raise
            except (RequestRefused, UnexpectedAnswer) as refused:
                log.info("%s does not say which transactions are open: %s", entity, refused)
                self._refused.add(entity)
                self._answered = ()
            else:
                self._refused.discard(entity)
                self._answered = (entity,)
                return Cursor(covered).stamp_ms
        return 0
