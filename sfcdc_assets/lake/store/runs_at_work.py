"""Runs that are at work, each with a note in the warehouse that its process renews: who waits for one finds out there
whether it lives, also after a power loss, when nobody is left who knows.

A note is one small file, there for as long as the run is at work, and renewed every ten seconds.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from socket import gethostname

from sfcdc_assets.lake.store.notes import put_json, read_json, remove_note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.process_identity import is_there, process_began

FOLDER = "runs_at_work"


@dataclass(frozen=True)
class AtWork:
    """That a run was at work at a time (epoch ms, UTC, by the clock of its machine), in a process: its host and number,
    and when that began."""

    at_ms: int
    host: str
    process: int
    began: int | None = None

    @property
    def process_is_gone(self) -> bool:
        """Whether it is known that the process is there no more: it was one of this host. Where the system does not say
        when a process began, its number may be another one's by now."""
        return self.host == gethostname() and not is_there(self.process, self.began)


def note_at_work(warehouse: Warehouse, run_id: str, at_ms: int) -> None:
    """Note that the run is at work in this process. Raises what `put_json` raises."""
    pid = os.getpid()
    facts = AtWork(at_ms, gethostname(), pid, process_began(pid))
    put_json(warehouse, _path_of(run_id), asdict(facts))


def noted_at_work(warehouse: Warehouse, run_id: str) -> AtWork | None:
    """Return what was noted last; None where nothing is, or nothing that can be read. Raises what `read_json`
    raises."""
    return read_json(warehouse, _path_of(run_id), lambda noted: AtWork(**noted), otherwise=None)


def remove_at_work(warehouse: Warehouse, run_id: str) -> None:
    """Remove the note of a run that is over. Raises what `remove_note` raises."""
    remove_note(warehouse, _path_of(run_id))


def _path_of(run_id: str) -> str:
    return f"{FOLDER}/{run_id}.json"
