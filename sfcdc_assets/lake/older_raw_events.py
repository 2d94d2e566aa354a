"""`raw_events` of format 1, in which resume points were metadata of commits.

They are read here, and the next commit of the channel keeps them in today's form.
"""

from __future__ import annotations

import json
from dataclasses import replace

from sfcdc_assets.lake.table import Table
from sfcdc_assets.streams.checkpoint import EARLIEST, StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint


def checkpoint_of_format_1(table: Table, checkpoint: StreamCheckpoint) -> StreamCheckpoint:
    """The checkpoint with its resume point: what the newest commit says, or where the log was cleaned up, the last
    replay id but one that was landed. Events after it may be delivered once more, which changes nothing."""
    key = f"replay_id:{checkpoint.channel}"
    commit = next((each for each in table.told_by_commits() if key in each), None)
    if commit is None:
        return replace(checkpoint, resume=ResumePoint(_last_id_but_one(table, checkpoint)), begun=EARLIEST)
    beside = json.loads(commit.get(f"resume:{checkpoint.channel}") or "{}")
    return replace(
        checkpoint,
        resume=ResumePoint(bytes.fromhex(commit[key]) or None, beside.get("known_at_ms")),
        transaction_key=commit.get(f"transaction_key:{checkpoint.channel}") or None,
        begun=beside.get("begun"),
        begun_at_ms=beside.get("begun_at_ms"),
    )


def organization_of_format_1(table: Table) -> str | None:
    """The org that events were last landed from, as the kept log shows; None when it does not."""
    for commit in table.told_by_commits():
        for key, value in commit.items():
            if key.startswith("organization_id:") and value:
                return str(value)
    return None


def _last_id_but_one(table: Table, checkpoint: StreamCheckpoint) -> bytes | None:
    quoted = checkpoint.channel.replace("'", "''")
    of_channel = f"channel = '{quoted}' and position <= {checkpoint.position}"
    rows = table.scan(["position", "replay_id"], of_channel).sort_by("position")
    ids = rows["replay_id"].to_pylist()
    return next((each for each in reversed(ids) if each != ids[-1]), None)
