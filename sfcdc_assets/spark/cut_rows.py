"""Rows of one version of a table as a Spark data frame of a session of the reader's own."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

__all__ = ["DataFrame", "SparkSession", "rows_of_files", "rows_of_table"]


def rows_of_files(session: SparkSession, paths: Sequence[str], schema: pa.Schema, condition: str) -> DataFrame:
    """Return the rows of Parquet files of this machine or a shared file system, those that a condition selects; a
    column that a file lacks is null."""
    plain = pa.schema([field.remove_metadata().with_nullable(nullable=True) for field in schema])
    wanted = from_arrow_schema(plain)
    if not paths:
        return session.createDataFrame([], wanted)
    literally = (re.sub(r"([\\*?{}\[\]])", r"\\\1", path) for path in paths)
    return session.read.schema(wanted).parquet(*(f"file:{path}" for path in literally)).where(condition)


def rows_of_table(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows that this process has read."""
    return session.createDataFrame(rows)
