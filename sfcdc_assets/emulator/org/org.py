"""The emulated org: its objects, its records, its transactions. REST, Pub/Sub and tests all stand on this class."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sfcdc_assets.emulator.definitions.definition_versions import DefinitionVersions
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions
from sfcdc_assets.emulator.definitions.platform_event_definition import PlatformEventDefinition
from sfcdc_assets.emulator.definitions.platform_event_definitions import PlatformEventDefinitions
from sfcdc_assets.emulator.errors import NestedTransactionError
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.org.clock import Clock, system_clock, whole_second
from sfcdc_assets.emulator.org.companion_population import populate_companions
from sfcdc_assets.emulator.org.data_storage import DataStorage
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.directory_lock import DirectoryLock
from sfcdc_assets.emulator.org.housekeeping import Housekeeping
from sfcdc_assets.emulator.org.ids import instance_characters
from sfcdc_assets.emulator.org.long_transactions import LongTransaction, LongTransactions
from sfcdc_assets.emulator.org.oracle import Oracle
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.org.org_identity import OrgIdentity
from sfcdc_assets.emulator.org.population import populate
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.org.standard_users import StandardUsers, create_standard_users
from sfcdc_assets.emulator.org.store import RecordStore
from sfcdc_assets.emulator.org.transaction import StoredValue, Transaction
from sfcdc_assets.emulator.org.transaction_log import TransactionLog
from sfcdc_assets.emulator.records.roll_up import RollUps
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets.emulator.rest.rest_view import RestView
from sfcdc_assets.emulator.setup.channels import Channels
from sfcdc_assets.emulator.setup.encryption_keys import EncryptionKeys
from sfcdc_assets.emulator.setup.field_security import FieldSecurity
from sfcdc_assets.emulator.setup.managed_subscriptions import ManagedSubscriptions
from sfcdc_assets.emulator.setup.org_setup import Setup
from sfcdc_assets.emulator.setup.record_visibility import ViewAll
from sfcdc_assets.emulator.setup.silent_changes import SilentChange, SilentChanges

CommitListener = Callable[[Transaction], None]


class EmulatedOrg(OrgIdentity, Oracle, OrgCore):
    """One org in one SQLite database. Thread-safe: every method takes the lock it needs; a transaction holds it
    throughout."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Clock = system_clock,
        seed: int = 0,
        objects: Sequence[ObjectDefinition] | None = None,
        platform_events: Sequence[PlatformEventDefinition] | None = None,
        settings: OrgSettings | None = None,
    ) -> None:
        """Open the org in the folder `path` (made if missing; file `org.db`), or a new one in memory.

        An org that exists keeps its own objects, events, ids and seed; `objects` and `platform_events` (default: the
        built-in ones) and `seed` set up a new one. Raises OrgInUseError while another process (or Org) has the folder
        open.
        """
        self._directory_lock = DirectoryLock(path) if path is not None else None
        self.clock = clock
        self.faults = Faults(clock)
        """What goes wrong in it and with its events, calls and streams; those of REST are `RestFaults`."""
        self.settings = settings or OrgSettings()
        """May be replaced at any time."""
        self.database = Database(path / "org.db" if path is not None else None)
        """For other parts of the org that keep their state beside the records."""
        self.database.tell_time(clock)
        self.hidden_objects: set[str] = set()
        """Objects the client may not see at all: to it they do not exist."""
        self.unreadable_objects: set[str] = set()
        """Objects the client sees but may not read: INSUFFICIENT_ACCESS."""
        self._listeners: list[CommitListener] = []
        self._in_transaction = False
        with self.database.transaction():
            self.seed = int(self.database.setting("seed") or seed)
            self.database.set_setting("seed", str(self.seed))
            self._store = RecordStore(self.database, instance_characters(self.seed))
            self.rest_view = RestView(self.database, self._store, clock, lambda: self.rest_delay)
            """The records as REST shows them: as of `rest_delay` ms ago."""
            self._log = TransactionLog(self.database, self.seed)
            self.database.execute(
                "CREATE TABLE IF NOT EXISTS _object (name TEXT PRIMARY KEY, definition TEXT NOT NULL)"
            )
            self.definitions: dict[str, ObjectDefinition] = self._open_definitions(objects)
            self._versions = DefinitionVersions(self.database)
            self._versions.begin(self.definitions)
            self._silent_changes = SilentChanges(self.database)
            self._roll_ups = self._open_roll_ups()
            self.users: StandardUsers = create_standard_users(self)
            kept = self.database.setting("selected_entities")
            self._kept_selected_entities = kept
            self.selected_entities: list[str] = json.loads(kept) if kept else self._capturable()
            """Objects enabled for change data capture; change the list (or set it) at any time. It is kept with the
            next commit and when the org is closed."""
            self.platform_events = PlatformEventDefinitions(self, platform_events)
            self.channels = Channels(self, self.platform_events)
            self.managed_subscriptions = ManagedSubscriptions(self)
            self.field_security = FieldSecurity(self)
            self.view_all = ViewAll(self, self.users)
            self.encryption_keys = EncryptionKeys(self)
            self.data_storage = DataStorage(self)
            self.long_transactions = LongTransactions(
                self, lambda user_id, held: self.unit_of_work(user_id=user_id, held=held)
            )
            self.housekeeping = Housekeeping(self, self.users, self.long_transactions)

    @property
    def rest_delay(self) -> int:
        """How long ago (ms) was what REST shows of the records."""
        return self.settings.rest_delay or self.faults.lasting_ms(Fault.REST_LAG, "behind", 60)

    @property
    def clock_skew(self) -> int:
        """How far (ms) the org's clock, as its clients see it, is ahead of `clock`."""
        return self.faults.lasting_ms(Fault.CLOCK_SKEW, "ahead", 300)

    @property
    def stale_modstamp(self) -> int:
        """How much older (ms) than its commit are the SystemModstamps of the next transaction, by an armed fault."""
        if not self.faults.armed(Fault.STALE_MODSTAMP):
            return 0
        return 1000 * int(self.faults.option(Fault.STALE_MODSTAMP, "behind", 60))

    @property
    def definitions_modified(self) -> datetime:
        """When an object definition last changed, in whole seconds, UTC; two changes are never in the same second."""
        return datetime.fromtimestamp(int(self.database.setting("definitions_modified") or 0), UTC)

    @property
    def store(self) -> RecordStore:
        """The rows; for the parts of the org itself, which hold `database.lock` while using it."""
        return self._store

    @contextmanager
    def transaction(
        self, *, user_id: str | None = None, change_origin: str = "", as_client: bool = False
    ) -> Iterator[UnitOfWork]:
        """All DML inside is one transaction: committed at the end, rolled back if an exception leaves the block.

        Listeners hear of it inside the lock and inside the database transaction, so what they write to `database`
        commits with it. A transaction that changes nothing is not logged. `as_client`: what field-level security
        hides cannot be set, and data storage is limited. Raises NestedTransactionError inside
        another one.
        """
        self.housekeeping.look()
        with self.database.transaction():
            if self._in_transaction:
                raise NestedTransactionError
            self._in_transaction = True
            try:
                is_stale = self.stale_modstamp
                unit_of_work = self.unit_of_work(user_id=user_id, as_client=as_client)
                yield unit_of_work
                changes = unit_of_work.finish(self._roll_ups)
                if unit_of_work.cleared_values:
                    entity, values = unit_of_work.cleared_values
                    self._silent_changes.add(SilentChange(entity, self.last_commit_number, replaced=values))
                if changes:
                    if is_stale:
                        self.faults.take(Fault.STALE_MODSTAMP)
                    unit_of_work.committed = self._log.append(
                        committed_at=self.clock() + self.clock_skew,
                        commit_user=unit_of_work.user_id,
                        change_origin=change_origin,
                        changes=changes,
                    )
                    for listener in self._listeners:
                        listener(unit_of_work.committed)
                if self.rest_view.delay:
                    self.rest_view.note(unit_of_work.replaced_rows())
                self._keep_selected_entities()
            finally:
                self._in_transaction = False

    def unit_of_work(
        self, *, user_id: str | None = None, as_client: bool = False, held: LongTransaction | None = None
    ) -> UnitOfWork:
        """Return the DML of a transaction that begins now; `held`: of one that has locks. Changes nothing by itself."""
        now = self.clock() + self.clock_skew
        length = self.settings.longest_transaction
        if length and held is None:
            now -= random.Random(f"{self.seed}:{self.last_commit_number}:length").randrange(length + 1)
        work = UnitOfWork(
            self.definitions,
            self._store,
            user_id=user_id or self.users.integration,
            timestamp=whole_second(now),
            modstamp=whole_second(now - self.stale_modstamp),
            hidden_fields=self.field_security.hidden if as_client else None,
            as_client=as_client,
            before_create=self.data_storage.gate() if as_client else None,
            locked=self.long_transactions.locked(but=held),
            is_in_order=bool(length),
            purged_shown=self.settings.purged_shown,
        )
        work.sets_audit_fields = self.settings.sets_audit_fields
        work.is_automated = user_id == self.users.automated_process
        return work

    def _capturable(self) -> list[str]:
        return [name for name, definition in self.definitions.items() if definition.has_change_events]

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open now; ask while holding `database.lock`."""
        return self._in_transaction

    def subscribe_commits(self, listener: CommitListener) -> None:
        """Call `listener` for each transaction from now on, in commit order, inside the lock."""
        with self.database.lock:
            self._listeners.append(listener)

    def populate(self, records_per_object: int | Mapping[str, int], seed: int | None = None) -> dict[str, int]:
        """Day-0 data: records that were there before the first event; nothing is logged and listeners hear nothing.

        Returns the number of records added to each object. The same seed gives the same records.
        """
        counts = (
            records_per_object
            if isinstance(records_per_object, Mapping)
            else {name: records_per_object for name, each in self.definitions.items() if each.companion is None}
        )
        with self.database.loading():
            before = {name: self.store.last_id(self.definitions[name]) for name in counts}
            added = populate(self, counts, self.seed if seed is None else seed)
            added_companions = populate_companions(self, before)
            self._roll_ups.recalculate_all()
            if self._log.has_any:
                for entity, count in added.items():
                    self._note_loaded(self.definitions[entity], count)
                for entity, ids in added_companions.items():
                    self._silent_changes.add(SilentChange(entity, self.last_commit_number, loaded=ids))
        return added

    def _note_loaded(self, definition: ObjectDefinition, count: int) -> None:
        """Note records loaded in mid-life: they were not there before, though no transaction says so."""
        if count:
            end = self._store.reserve(definition, 0)
            ids = (self._store.record_id(definition, end - count), self._store.record_id(definition, end - 1))
            self._silent_changes.add(SilentChange(definition.name, self.last_commit_number, loaded=ids))

    @property
    def setup(self) -> Setup:
        """What an administrator changes while the org runs: fields, objects, who sees what."""
        return Setup(self, self.channels, self.field_security)

    def replace_definition(
        self,
        definition: ObjectDefinition,
        renamed: Mapping[str, str] | None = None,
        *,
        replaced: Mapping[str, Mapping[str, StoredValue]] | None = None,
    ) -> None:
        """Add an object, or change one while the org runs: rows keep the fields both definitions have.

        `renamed` maps old field names to new ones; a retyped field keeps its values as they are stored. `replaced`:
        old values, by field and record id, that the caller is about to overwrite; the oracle keeps them.
        Raises NestedTransactionError inside a transaction of the org.
        """
        with self.database.transaction():
            if self._in_transaction:
                raise NestedTransactionError
            old = self.definitions.get(definition.name)
            if old is None:
                self._store.tables.create(definition)
            else:
                self._silent_changes.add(self._silent_change(old, definition, renamed or {}, replaced or {}))
                self._store.tables.replace(old, definition, renamed or {})
            self._save_definition(definition)
            self._versions.add(definition, self.last_commit_number)
            self.note_modified()
            self.rest_view.forget()
            self.definitions = {**self.definitions, definition.name: definition}
            self._roll_ups = self._open_roll_ups()

    def _silent_change(
        self,
        old: ObjectDefinition,
        new: ObjectDefinition,
        renamed: Mapping[str, str],
        replaced: Mapping[str, Mapping[str, StoredValue]],
    ) -> SilentChange:
        before = {renamed.get(field.name, field.name) for field in old.stored_fields}
        after = {field.name for field in new.stored_fields}
        dropped = [field for field in old.stored_fields if renamed.get(field.name, field.name) not in after]
        values = {field.name: self._store.values(old, field) for field in dropped}
        return SilentChange(
            new.name,
            self.last_commit_number,
            added=tuple(sorted(after - before)),
            renamed={name: new_name for name, new_name in renamed.items() if new_name in before},
            replaced={**values, **replaced},
        )

    def stamp_all(self, entity: str) -> int:
        """Give all live records of an object a new SystemModstamp, the same, and nothing else; returns how many there
        are. So do internal jobs of the org: a picklist value that is renamed, a roll-up that is new, a field that is
        erased. No event says so."""
        with self.database.transaction():
            definition = self.definitions[entity]
            stamp = definition.fields_by_name["SystemModstamp"]
            replaced = {stamp.name: self._store.values(definition, stamp)}
            self._silent_changes.add(SilentChange(entity, self.last_commit_number, replaced=replaced))
            now = self.clock() + self.clock_skew
            count = self._store.set_all(definition, stamp, whole_second(now))
            self.rest_view.forget()
            # So that the oracle knows when it was.
            self._log.append(committed_at=now, commit_user=self.users.automated_process, change_origin="", changes=())
            return count

    def close(self) -> None:
        """Close the database and free the folder. A long query of another thread is not waited for."""
        with self.database.taken_over():
            with self.database.transaction():
                self._keep_selected_entities()
            self.database.close()
        if self._directory_lock is not None:
            self._directory_lock.release()

    def _keep_selected_entities(self) -> None:
        text = json.dumps(self.selected_entities)
        if text != self._kept_selected_entities:
            self.database.set_setting("selected_entities", text)
            self._kept_selected_entities = text
            self.channels.follow_selection()

    def _open_definitions(self, objects: Sequence[ObjectDefinition] | None) -> dict[str, ObjectDefinition]:
        rows = self.database.rows("SELECT definition FROM _object ORDER BY rowid")
        if rows:
            kept = [ObjectDefinition.from_json(json.loads(row[0])) for row in rows]
            return {definition.name: definition for definition in kept}
        definitions = {d.name: d for d in (built_in_definitions() if objects is None else objects)}
        for definition in definitions.values():
            self._store.tables.create(definition)
            self._save_definition(definition)
        self.note_modified()
        return definitions

    def _save_definition(self, definition: ObjectDefinition) -> None:
        self.database.execute(
            "INSERT INTO _object VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET definition = excluded.definition",
            (definition.name, definition.json_text),
        )

    def note_modified(self) -> None:
        """Say that what describe answers has changed."""
        before = int(self.database.setting("definitions_modified") or 0)
        self.database.set_setting("definitions_modified", str(max(self.clock() // 1000, before + 1)))

    def _open_roll_ups(self) -> RollUps:
        roll_ups = RollUps(self.database, self.definitions)
        for _, _, roll_up in roll_ups.summaries:
            self._store.tables.index_references(roll_up.child, roll_up.parent_field)
        return roll_ups
