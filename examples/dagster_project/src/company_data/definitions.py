"""What Dagster loads: everything below `defs/`."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Return what the folder defines."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
