"""Tables of an entity that somebody has deleted by hand."""

from __future__ import annotations

from pyarrow import fs

from sfcdc_assets.lake.tables import snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.reconciliation.rebuild import LAYERS


def remove_layers(warehouse: Warehouse, entity: str, *, and_snapshots: bool = False) -> list[str]:
    """Remove the entity's layers that can be rebuilt; with its snapshots they can from the org alone. Returns the
    names of the tables that are gone."""
    removed = []
    for layer in (*LAYERS, snapshots.LAYER) if and_snapshots else LAYERS:
        root = warehouse.filesystem(layer)
        if root.get_file_info(entity).type == fs.FileType.Directory:
            root.delete_dir(entity)
            removed.append(f"{layer}/{entity}")
    return removed
