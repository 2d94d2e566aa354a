"""Managed event subscriptions: the org keeps the place up to which a subscriber has processed a topic
(https://developer.salesforce.com/docs/platform/pub-sub-api/guide/managed-sub.html)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org_core import OrgCore

MAX_SUBSCRIPTIONS = 200
REPLAYS = ("LATEST", "EARLIEST")
STATES = ("RUN", "STOP")
_NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


@dataclass(frozen=True)
class ManagedSubscription:
    """One as it stands. `committed` is the replay id of what was processed last; None before the first commit."""

    id: str
    name: str
    label: str
    topic: str
    default_replay: str
    error_recovery_replay: str
    state: str
    created: int
    committed: bytes | None = None


class ManagedSubscriptions:
    """Those of one org, kept in its database. Raises RecordError for what cannot be done."""

    def __init__(self, org: OrgCore) -> None:
        self._org = org
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _managed_subscription (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "name TEXT UNIQUE NOT NULL, label TEXT NOT NULL, topic TEXT NOT NULL, default_replay TEXT NOT NULL, "
            "error_recovery_replay TEXT NOT NULL, state TEXT NOT NULL, created INTEGER NOT NULL, committed BLOB)"
        )

    def all(self) -> list[ManagedSubscription]:
        """Return the subscriptions, the oldest first."""
        rows = self._database.rows("SELECT * FROM _managed_subscription ORDER BY number")
        return [ManagedSubscription(self._id(number), *rest) for number, *rest in rows]

    def create(
        self, name: str, label: str, topic: str, default_replay: str, error_recovery_replay: str, state: str
    ) -> ManagedSubscription:
        """Create a subscription, without a commit."""
        known = self.all()
        if not _NAME.fullmatch(name):
            raise RecordError("INVALID_NAME", f"{name!r} is no developer name", ("FullName",))
        if any(each.name.lower() == name.lower() for each in known):
            raise RecordError("DUPLICATE_DEVELOPER_NAME", f"there is already a managed subscription {name}")
        if len(known) >= MAX_SUBSCRIPTIONS:
            raise RecordError("LIMIT_EXCEEDED", f"an org has at most {MAX_SUBSCRIPTIONS} managed subscriptions")
        _check(default_replay, error_recovery_replay, state)
        self._database.execute(
            "INSERT INTO _managed_subscription (name, label, topic, default_replay, error_recovery_replay, state, "
            "created) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (name, label, topic, default_replay, error_recovery_replay, state, self._org.clock()),
        )
        return self.all()[-1]

    def update(
        self, subscription_id: str, label: str, default_replay: str, error_recovery_replay: str, state: str
    ) -> None:
        """All but the name and the topic may change. One that is stopped forgets what was committed
        (https://developer.salesforce.com/docs/atlas.en-us.api_meta.meta/api_meta/meta_managedeventsubscription.htm)."""
        found = self.get(subscription_id)
        _check(default_replay, error_recovery_replay, state)
        self._database.execute(
            "UPDATE _managed_subscription SET label = ?, default_replay = ?, error_recovery_replay = ?, state = ?, "
            "committed = ? WHERE name = ?",
            (
                label,
                default_replay,
                error_recovery_replay,
                state,
                found.committed if state == "RUN" else None,
                found.name,
            ),
        )

    def delete(self, subscription_id: str) -> None:
        """Forget one, and what was committed."""
        self._database.execute("DELETE FROM _managed_subscription WHERE name = ?", (self.get(subscription_id).name,))

    def commit(self, name: str, replay_id: bytes) -> None:
        """Keep the place up to which events are processed."""
        self._database.execute("UPDATE _managed_subscription SET committed = ? WHERE name = ?", (replay_id, name))

    def get(self, subscription_id: str) -> ManagedSubscription:
        """Return a subscription by its id of 15 or 18 characters. Raises RecordError NOT_FOUND."""
        found = self.find(subscription_id=subscription_id)
        if found is None:
            raise RecordError("NOT_FOUND", "The requested resource does not exist", status=404)
        return found

    def find(self, *, subscription_id: str = "", name: str = "") -> ManagedSubscription | None:
        """Return a subscription by one of the two."""
        for each in self.all():
            if (subscription_id and each.id[:15] == subscription_id[:15]) or (name and each.name == name):
                return each
        return None

    def _id(self, number: int) -> str:
        return new_id("18x", instance_characters(self._org.seed), number)


def _check(default_replay: str, error_recovery_replay: str, state: str) -> None:
    for name, value, allowed in (
        ("defaultReplay", default_replay, REPLAYS),
        ("errorRecoveryReplay", error_recovery_replay, REPLAYS),
        ("state", state, STATES),
    ):
        if value not in allowed:
            raise RecordError("FIELD_INTEGRITY_EXCEPTION", f"{name} must be one of {', '.join(allowed)}", (name,))
