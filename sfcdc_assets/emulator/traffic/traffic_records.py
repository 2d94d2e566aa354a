"""The records traffic can choose from: ids of live and deleted records, kept current from the org's commits."""

from __future__ import annotations

from collections import Counter
from random import Random

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import DELETE, UPDATE, Transaction

_RECENT = 3
"""Exponent of the skew: with 3, half of all choices fall on the newest eighth of the records."""


class TrafficRecords:
    """Ids by object, oldest first, whoever changed the records. Hold the org's lock while choosing and using ids."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org
        self._live: dict[str, list[str]] = {}
        self._deleted: dict[str, list[str]] = {}
        self.changes: Counter[str] = Counter()
        """Changes of records since then by change type, whoever made them."""
        with org.database.lock:
            for entity in org.definitions:
                self._load(entity)
            org.subscribe_commits(self._follow)

    def choose(self, entity: str, dice: Random, *, count: int = 1, deleted: bool = False) -> list[str]:
        """Up to `count` different ids, recent ones more often than old ones; never the org's own users."""
        if entity not in self._live:
            self._load(entity)
        ids = (self._deleted if deleted else self._live)[entity]
        chosen: dict[str, None] = {}
        for _ in range(count * 2 if ids else 0):
            chosen[ids[len(ids) - 1 - int(len(ids) * dice.random() ** _RECENT)]] = None
            if len(chosen) == count:
                break
        return list(chosen)

    def _load(self, entity: str) -> None:
        own = {self._org.users.integration, self._org.users.automated_process}
        definition = self._org.definitions[entity]
        deleted = self._org.store.deleted_ids(definition)
        others = own.union(deleted)
        self._live[entity] = [each for each in self._org.store.ids(definition) if each not in others]
        self._deleted[entity] = deleted

    def _follow(self, transaction: Transaction) -> None:
        self.changes.update(change.change_type for change in transaction.changes)
        for change in transaction.changes:
            if change.change_type == UPDATE or change.entity not in self._live:
                continue
            live, deleted = self._live[change.entity], self._deleted[change.entity]
            gone, come = (live, deleted) if change.change_type == DELETE else (deleted, live)
            if change.record_id in gone:
                gone.remove(change.record_id)
            come.append(change.record_id)
