"""What an open transaction can do, for the rules of single objects that it calls: they change further records by it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.identity_map import IdentityMap


class Dml(IdentityMap):
    """Records as the transaction sees them, and the ways to change them; `UnitOfWork` and its bases have them."""

    is_automated: bool
    """Whether the org itself makes the changes, by rules and processes."""

    @abstractmethod
    def create(self, entity: str, values: Mapping[str, object], *, number: int | None = None) -> str:
        """See `UnitOfWork.create`."""

    @abstractmethod
    def update(self, entity: str, record_id: str, values: Mapping[str, object], *, touch: bool = True) -> None:
        """See `UnitOfWork.update`."""

    @abstractmethod
    def delete(self, entity: str, record_id: str) -> None:
        """See `RecycleBin.delete`."""

    @abstractmethod
    def delete_with(self, parent_id: str, entity: str, record_id: str) -> None:
        """See `RecycleBin.delete_with`."""

    @abstractmethod
    def delete_into(self, entity: str, record_id: str, master_id: str) -> None:
        """See `RecycleBin.delete_into`."""

    @abstractmethod
    def companions(self) -> Mapping[str, Sequence[ObjectDefinition]]:
        """See `UnitOfWork.companions`."""

    @abstractmethod
    def definition(self, entity: str) -> ObjectDefinition:
        """See `UnitOfWork.definition`."""

    @abstractmethod
    def name_of(self, record_id: StoredValue) -> StoredValue:
        """See `UnitOfWork.name_of`."""

    @abstractmethod
    def add_row(self, definition: ObjectDefinition, values: Mapping[str, StoredValue]) -> None:
        """See `UnitOfWork.add_row`."""
