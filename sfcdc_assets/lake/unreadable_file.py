"""Which of a table's files cannot be read: found by reading them, after something has failed."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.lake.store_errors import reason_of
from sfcdc_assets.lake.stores import store_refusals


def unreadable(root: str, filesystem: fs.FileSystem, paths: Iterable[str]) -> tuple[str, str] | None:
    """The first of the Parquet files that cannot be read, and why. `root`: of the warehouse; what its store refuses is
    in no file, and is raised as `StoreRefused` or `StoreUnavailable`."""
    for path in paths:
        try:
            with store_refusals(root), filesystem.open_input_file(unquote(path)) as source:
                parquet = pq.ParquetFile(source)
                for number in range(parquet.num_row_groups):
                    parquet.read_row_group(number)
        except (OSError, pa.ArrowException) as error:
            return path, reason_of(error)
    return None
