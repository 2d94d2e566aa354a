"""Which channels the files of `raw_events` hold, with their positions and times: by the log, and of files whose
statistics do not say it by what is in them."""

from __future__ import annotations

import polars as pl

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged

MOST_READ = 20_000
"""Files of which is remembered what was read of them."""
_MEASURED = ("position", "received_at", "commit_timestamp")
_READ: dict[tuple[str, int], pl.DataFrame] = {}
"""Path and bytes of a file, whose name is unique -> its channels, with what `_MEASURED` goes from and to."""


def files_by_channel(table: Table) -> pl.DataFrame:
    """`file_statistics` of `raw_events` with a row for each channel of a file, `channel`: numbers of rows, positions
    and times are those of that channel's events.

    Writers cut off the statistics of long texts: delta-rs keeps 64 bytes, Spark 32 characters, of the greatest value
    raised by one. So they name a channel only where the least and the greatest are equal. Other files, and those
    without statistics, are read once in a process; of one that is damaged the channels are those that are known
    otherwise and that it may hold.
    """
    return table.answer("files by channel", lambda: _files_by_channel(table))


def _files_by_channel(table: Table) -> pl.DataFrame:
    files = table.file_statistics()
    if files.is_empty():
        return files.with_columns(pl.lit(None, pl.String).alias("channel"))
    if not {f"{end}.{name}" for end in ("min", "max") for name in ("channel", "position")} <= set(files.columns):
        return pl.concat([_as_read(table, row) for row in files.partition_by("path")], how="diagonal_relaxed")
    known = (pl.col("min.channel") == pl.col("max.channel")) & pl.col("min.position").is_not_null()
    known &= pl.col("max.position").is_not_null() & pl.col("num_records").is_not_null()
    named = files.filter(known.fill_null(value=False)).with_columns(channel=pl.col("min.channel"))
    found = [named]
    for row in files.filter(~known.fill_null(value=False)).partition_by("path"):
        try:
            found.append(_as_read(table, row))
        except TableDamaged:
            names = pl.concat([each["channel"] for each in found]).unique().to_frame("channel")
            low, high = pl.col("min.channel").fill_null(""), pl.col("max.channel").fill_null("\U0010ffff")
            may_be = row.join(names, how="cross").filter(pl.col("channel").is_between(low, high))
            found.append(may_be if may_be.height else row.with_columns(channel=pl.col("min.channel").fill_null("")))
    return pl.concat(found, how="diagonal_relaxed")


def channels_of_files(table: Table) -> dict[str, tuple[str, ...]]:
    """Path of each file of `raw_events` -> its channels, in alphabetical order."""
    found = files_by_channel(table).group_by("path").agg(pl.col("channel").sort())
    return {path: tuple(channels) for path, channels in found.iter_rows()}


def _as_read(table: Table, file: pl.DataFrame) -> pl.DataFrame:
    """Return the row of a file, once for each channel in it."""
    path, size = file["path"].item(), file["size_bytes"].item()
    if (path, size) not in _READ:
        events = pl.DataFrame(table.read_files([path], ["channel", *_MEASURED]))
        ends = [getattr(pl.col(name), end)().alias(f"{end}.{name}") for name in _MEASURED for end in ("min", "max")]
        while len(_READ) >= MOST_READ:
            _READ.pop(next(iter(_READ)), None)
        _READ[path, size] = events.group_by("channel").agg(pl.len().cast(pl.Int64).alias("num_records"), *ends)
    of_channels = _READ[path, size]
    return file.drop([name for name in of_channels.columns if name in file.columns]).join(of_channels, how="cross")
