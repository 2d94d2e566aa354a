"""What a table holds, read from its files beside the code that wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable


def rows_of(uri: str, schema: pa.Schema) -> pl.LazyFrame:
    """A table's rows in these columns, read file by file; a column that a file lacks is null."""
    wanted = pl.DataFrame(schema.empty_table()).schema
    files = DeltaTable(uri).file_uris()
    return pl.scan_parquet(files, schema=wanted, missing_columns="insert", extra_columns="ignore")


def bytes_in(folder: Path) -> int:
    """Bytes of the Parquet files in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def checksums(rows: pl.LazyFrame, names: Sequence[str]) -> dict[str, int]:
    """Of each column the sum of its cells' hashes, each with its record's Id, and how many rows there are."""
    found = rows.select(
        pl.len().alias("rows"),
        *(pl.struct("Id", name).hash().sum().alias(name) for name in names),
    )
    return dict(found.collect(engine="streaming").row(0, named=True))
