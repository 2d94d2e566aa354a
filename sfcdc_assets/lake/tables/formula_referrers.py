"""Which records of an entity refer to given ones over the lookups that its formulas follow, so that their values may
show those: now, or in any version that `history` has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.formulas.dependencies import FormulaDependencies, Lookup, dependencies_of_all
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.object_description import ObjectDescription

Path = tuple[Lookup, ...]
IsOne = Callable[[str], bool]
"""Whether an Id is that of one of the records."""

NOW, EVER = (current_state.LAYER,), (current_state.LAYER, history.LAYER)
"""Where lookups are looked up: as they are, or as they ever were."""


def paths_of(formulas: FormulaDependencies) -> frozenset[Path]:
    """Return the ways over lookups to each parent that a formula reads, or passes."""
    whole = [each.path for each in formulas.parents]
    return frozenset(path[:length] for path in whole for length in range(1, len(path) + 1))


def paths_of_all(warehouse: Warehouse, entity: str) -> frozenset[Path]:
    """Return the ways of all formulas of an entity, also of those that it had when it was described before."""
    known = Schemas(warehouse)

    def newest(name: str) -> ObjectDescription | None:
        return next((each.describe for each in reversed(known.of_entity(name)) if each.describe_json), None)

    described = {each.describe_json: each.describe for each in known.of_entity(entity)}
    return frozenset[Path]().union(
        *(
            paths_of(formula)
            for description in described.values()
            if description is not None
            for formula in dependencies_of_all(description, newest).values()
        )
    )


def referrers(
    warehouse: Warehouse, entity: str, paths: Iterable[Path], is_one: IsOne, layers: Sequence[str]
) -> frozenset[str]:
    """Return the records of an entity from which one of these ways leads to one of the records. Each step of each way
    is looked up once; memory holds two columns of a part of a table."""
    reached: dict[Path, set[str]] = {}
    for path in sorted(paths, key=len, reverse=True):
        beyond, (*nearer, last) = reached.pop(path, set()), path
        found = _holders(
            warehouse,
            nearer[-1].entity if nearer else entity,
            last.field,
            lambda each, beyond=beyond: each in beyond or is_one(each),  # type: ignore[misc]
            layers,
        )
        reached.setdefault(tuple(nearer), set()).update(found)
    return frozenset(reached.get((), ()))


def _holders(warehouse: Warehouse, entity: str, lookup: str, is_one: IsOne, layers: Sequence[str]) -> set[str]:
    found = set[str]()
    for layer in layers:
        table = Table.open(warehouse, f"{layer}/{entity}")
        if table is None or lookup not in table.schema.names:
            continue
        for part in table.batches(["Id", lookup], f'"{lookup}" is not null'):
            rows = arrow_frame(part).with_columns(pl.col(lookup).cast(pl.String))
            held = [each for each in rows[lookup].unique().to_list() if each is not None and is_one(each)]
            if held:
                found |= set(rows.filter(pl.col(lookup).is_in(held))["Id"].to_list())
    return found


def without_values(rows: pa.Table, hidden: Mapping[str, frozenset[str]]) -> pa.Table:
    """Return rows of formula values with null in each formula for the records that it is `hidden` of."""
    for name, ids in hidden.items():
        if ids and name in rows.column_names:
            number = rows.schema.get_field_index(name)
            field = rows.schema.field(number)
            is_hidden = pc.is_in(rows["Id"], pa.array(sorted(ids), pa.string()))
            values = pc.if_else(is_hidden, pa.scalar(None, field.type), rows[name])
            rows = rows.set_column(number, field, values)
    return rows
