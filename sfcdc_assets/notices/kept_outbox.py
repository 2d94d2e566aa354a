"""The outbox as a note in the warehouse, so that it outlives processes, and Dagster's instance."""

from __future__ import annotations

from typing import Any

from sfcdc_assets.lake.store.notes import put_json, read_json
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.notices.notice import Notice
from sfcdc_assets.notices.outbox import Outbox, Queue
from sfcdc_assets.settings.notice_kinds import NoticeKind

PATH = "notices/outbox.json"


def kept_outbox(warehouse: Warehouse) -> Outbox:
    """Return what was kept; an empty one where there is nothing, or nothing that can be read. Raises what `read_note`
    raises."""
    return read_json(warehouse, PATH, _of_json, otherwise=Outbox())


def keep_outbox(warehouse: Warehouse, outbox: Outbox) -> None:
    """Keep it in the place of the one before. Raises what `put_json` raises."""
    put_json(warehouse, PATH, _to_json(outbox))


def _to_json(outbox: Outbox) -> dict[str, Any]:
    return {
        "seen": {
            kind: {key: notice.to_json() for key, notice in seen.items()} for kind, seen in sorted(outbox.seen.items())
        },
        "marks": {kind: dict(marks) for kind, marks in outbox.marks.items()},
        "queues": {
            name: {
                kind: {**vars(queue), "notices": [notice.to_json() for notice in queue.notices]}
                for kind, queue in queues.items()
            }
            for name, queues in outbox.queues.items()
        },
    }


def _of_json(values: dict[str, Any]) -> Outbox:
    return Outbox(
        {
            NoticeKind(kind): {key: Notice.of_json(notice) for key, notice in seen.items()}
            for kind, seen in values["seen"].items()
        },
        {NoticeKind(kind): marks for kind, marks in values["marks"].items()},
        {
            name: {
                NoticeKind(kind): Queue(**{**queue, "notices": tuple(map(Notice.of_json, queue["notices"]))})
                for kind, queue in queues.items()
            }
            for name, queues in values["queues"].items()
        },
    )
