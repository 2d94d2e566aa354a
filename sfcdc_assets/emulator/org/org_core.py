"""What every part of an org stands on: its clock, its rows, its objects, its transactions. `EmulatedOrg` puts the parts
together; none of them knows it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.faults.faults import Faults
from sfcdc_assets.emulator.org.clock import Clock
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.org.store import RecordStore
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork


class OrgCore:
    """See `EmulatedOrg`, which has all of it."""

    clock: Clock
    faults: Faults
    settings: OrgSettings
    database: Database
    seed: int
    definitions: dict[str, ObjectDefinition]
    hidden_objects: set[str]
    selected_entities: list[str]

    @property
    @abstractmethod
    def store(self) -> RecordStore:
        """The rows; whoever uses them holds `database.lock` meanwhile."""

    @property
    @abstractmethod
    def clock_skew(self) -> int:
        """How far (ms) the org's clock, as its clients see it, is ahead of `clock`."""

    @property
    @abstractmethod
    def rest_delay(self) -> int:
        """How long ago (ms) was what REST shows of the records."""

    @property
    @abstractmethod
    def stale_modstamp(self) -> int:
        """How much older (ms) than its commit are the stamps of the next transaction."""

    @property
    @abstractmethod
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open now; ask while holding `database.lock`."""

    @abstractmethod
    def transaction(
        self, *, user_id: str | None = None, change_origin: str = "", as_client: bool = False
    ) -> AbstractContextManager[UnitOfWork]:
        """All DML inside is one transaction; see `EmulatedOrg.transaction`."""

    @abstractmethod
    def records(self, entity: str, *, include_deleted: bool = False) -> Iterator[dict[str, StoredValue]]:
        """Return the truth of all records in order of Id; see `Oracle.records`."""

    @abstractmethod
    def field_generation(self, entity: str, name: str) -> int:
        """Return how many versions of an object have had a field of that name."""

    @abstractmethod
    def replace_definition(
        self,
        definition: ObjectDefinition,
        renamed: Mapping[str, str] | None = None,
        *,
        replaced: Mapping[str, Mapping[str, StoredValue]] | None = None,
    ) -> None:
        """Add an object, or change one; see `EmulatedOrg.replace_definition`."""

    @abstractmethod
    def stamp_all(self, entity: str) -> int:
        """Give all live records of an object a new SystemModstamp; see `EmulatedOrg.stamp_all`."""

    @abstractmethod
    def note_modified(self) -> None:
        """Say that what describe answers has changed."""
