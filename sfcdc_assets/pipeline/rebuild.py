"""Rebuild: an entity's layers are removed, and the next run makes them anew from what was landed."""

from __future__ import annotations

from pyarrow import fs

from sfcdc_assets.lake import snapshots
from sfcdc_assets.lake.warehouse import Warehouse

LAYERS = ("text_fields", "history", "current_state")
"""What can be made anew; raw_events, snapshot, schemas and the doubt ledger are what it is made from."""


def remove_layers(warehouse: Warehouse, entity: str, *, and_snapshots: bool = False) -> list[str]:
    """Remove the entity's layers that can be made anew; with its snapshots they can from the org alone. Returns the
    names of the tables that are gone."""
    removed = []
    for layer in (*LAYERS, snapshots.LAYER) if and_snapshots else LAYERS:
        root = warehouse.filesystem(layer)
        if root.get_file_info(entity).type == fs.FileType.Directory:
            root.delete_dir(entity)
            removed.append(f"{layer}/{entity}")
    return removed
