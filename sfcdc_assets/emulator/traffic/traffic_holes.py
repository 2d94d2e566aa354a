"""Holes in the stream that traffic makes on the way: a share of the transactions meets one, of a kind drawn by seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from random import Random

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.org.org import EmulatedOrg


@dataclass(frozen=True)
class HoleMix:
    """Relative weights of the kinds of holes. The field names are those of `Fault`, and `wildcard`.

    Holes that make a whole object suspect (overflow, wildcard, an unreadable header) are rare by default, as healing
    one reads all of it. Losses are off: nothing in the stream tells of them, and only an audit finds them.
    """

    internal_error: float = 30
    database_change: float = 10
    duplicate: float = 20
    enriched: float = 15
    garbled_body: float = 12
    unknown_change_type: float = 10
    garbled_header: float = 1
    overflow: float = 1
    wildcard: float = 1
    lost_event: float = 0


class TrafficHoles:
    """Arms a hole before some transactions. `made` counts them by kind."""

    def __init__(self, org: EmulatedOrg, faults: Faults, share: float, seed: int, mix: HoleMix | None = None) -> None:
        """`share` (0 to 1) of the transactions get a hole."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share of holes of {share:g} is not possible; give a number from 0 to 1")
        self._org = org
        self._faults = faults
        self._share = share
        # A source of its own: the transactions are the same with holes and without.
        self._dice = Random(f"holes:{seed}")
        mix = mix or HoleMix()
        self._kinds = [kind.name for kind in fields(mix)]
        self._weights = [getattr(mix, kind) for kind in self._kinds]
        self.made: Counter[str] = Counter()

    def before_transaction(self) -> None:
        """Perhaps arm a hole; a wildcard is a transaction of its own and happens at once."""
        if not self._share or self._dice.random() >= self._share:
            return
        kind = self._dice.choices(self._kinds, self._weights)[0]
        if kind == "wildcard":
            if not self._clear_a_field():
                return
        elif kind == Fault.DUPLICATE:
            self._faults.arm(Fault.DUPLICATE, after=self._dice.choice((0, 0, 1, 3, 20)))
        else:
            self._faults.arm(Fault(kind))
        self.made[kind] += 1

    def _clear_a_field(self) -> bool:
        candidates = [
            (entity, field.name)
            for entity, definition in self._org.definitions.items()
            if entity in self._org.selected_entities
            for field in definition.stored_fields
            if _may_be_cleared(field)
        ]
        if not candidates:
            return False
        entity, name = self._dice.choice(candidates)
        try:
            with self._org.transaction() as unit_of_work:
                unit_of_work.clear_field(entity, name)
        except RecordError:  # another object sums it up
            return False
        return True


def _may_be_cleared(field: FieldDefinition) -> bool:
    """Return whether the field is a custom one: only those change their type."""
    return field.custom and field.updateable and field.nillable and field.type not in {"boolean", "reference"}
