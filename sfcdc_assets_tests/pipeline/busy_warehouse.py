"""A warehouse that six busy objects feed: real sockets and tables, a simulated clock, batches applied in this process.

`python -m sfcdc_assets_tests.pipeline.busy_warehouse --records 9500 --batches 100` prints what a batch writes:
three changes a second, recent records more often than old ones, and a batch every five seconds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.apply.record_cut import CutNoted, note_cut
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets_tests.pipeline.fixtures import only_settings_of_tests
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import (
    with_roots_read_once,
    with_schemas_read_once,
    without_spark,
)
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream
from sfcdc_assets_tests.run_contexts import run_on

FIELDS = {
    "Account": "Phone",
    "Contact": "Phone",
    "Lead": "Phone",
    "Opportunity": "NextStep",
    "Case": "Subject",
    "Task": "Subject",
}
BATCH_SECONDS, CHANGES = 5, 15
"""A batch is of so many changes."""
RECENT = 3
"""Half of the changes are of the newest eighth of the records, as those of the emulated org's traffic are."""


class BusyWarehouse:
    """The org's changes, and what ticks and runs do with them."""

    def __init__(self, opened: Stream, seed: int = 3, changes: int = CHANGES) -> None:
        self.stream = opened
        self._changes = changes
        self._dice = Random(seed)
        self._entities = dict.fromkeys(opened.org.selected_entities, CHANNEL)
        self._ids = {entity: [str(each["Id"]) for each in opened.org.records(entity)] for entity in self._entities}
        self._reader = opened.reader()

    def begin(self) -> None:
        """Copy the org."""
        self._change()
        self.settle()

    def batch(self) -> CutNoted:
        """Five seconds of changes, landed and applied, and their cut."""
        self._change()
        return self._run(self._tick())

    def settle(self) -> CutNoted:
        """Apply the last transaction too, of which a while of silence says that it is complete."""
        for _ in range(7):
            self._tick()
        return self._run(self._tick())

    def _tick(self) -> LandingReport:
        self.stream.pass_time(BATCH_SECONDS)
        return self.stream.tick(self._reader)

    def _change(self) -> None:
        for _ in range(self._changes):
            entity = self._dice.choice(list(self._entities))
            ids = self._ids[entity]
            chosen = ids[len(ids) - 1 - int(len(ids) * self._dice.random() ** RECENT)]
            with self.stream.org.transaction() as work:
                work.update(entity, chosen, {FIELDS[entity]: f"{self._dice.random():.8f}"})

    def _run(self, report: LandingReport) -> CutNoted:
        warehouse, clock, entities = self.stream.warehouse, self.stream.clock, self._entities
        landed = LandedOnly(warehouse, {CHANNEL: report.complete_through_ms})
        run = run_on(warehouse, self.stream.connected, visibility_seconds=5.0, describe_seconds=900.0)
        for state in entity_states(warehouse, entities, clock()):
            if state.needs_snapshot:
                watermarks = Watermarks(run, landed)
                take_snapshot(
                    run,
                    ToCopy(state.entity, CHANNEL),
                    lambda least: watermarks.of(CHANNEL, least),  # noqa: B023
                )
        CatchUp(run, landed, entities, entities, ApplyListener(), every_entity=False).run()
        return note_cut(warehouse, entities, CHANNEL, report.complete_position, report.complete_through_ms)

    # -- looking

    @property
    def living_bytes(self) -> int:
        """Of the files of the newest version of every `current_state`."""
        opened = (CurrentState.open(self.stream.warehouse, entity) for entity in self._entities)
        return sum(file.size for state in opened if state is not None for file in state.files().values())

    def on_disk(self) -> Mapping[tuple[str, str], tuple[int, int]]:
        """Layer and kind of file -> how many, and their bytes."""
        count, size = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        folder = self.stream.warehouse.folder
        for path in folder.rglob("*"):
            if path.is_file():
                layer, *below = path.relative_to(folder).parts
                kind = "log" if "_delta_log" in below else "data"
                count[layer, kind] += 1
                size[layer, kind] += path.stat().st_size
        return {each: (count[each], size[each]) for each in sorted(count)}


@contextmanager
def busy_warehouse(
    folder: Path,
    patch: pytest.MonkeyPatch,
    records: int,
    entities: Sequence[str] = tuple(FIELDS),
    changes: int = CHANGES,
) -> Iterator[BusyWarehouse]:
    """An org with so many records of each object, copied."""
    without_spark(patch, Random(1))
    with_roots_read_once(patch)
    with_schemas_read_once(patch)
    with stream(folder, records=records, entities=entities) as opened:
        busy = BusyWarehouse(opened, changes=changes)
        busy.begin()
        yield busy


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=9_500, help="of each object")
    parser.add_argument("--batches", type=int, default=100, help="that are measured, after as many others")
    given = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        with busy_warehouse(Path(folder), patch, given.records) as busy:
            print(f"{busy.living_bytes / 1e6:.1f} MB of living rows")
            for _ in range(given.batches):
                busy.batch()
            before = busy.on_disk()
            for _ in range(given.batches):
                busy.batch()
            for each, (files, size) in busy.on_disk().items():
                of_files, of_size = before.get(each, (0, 0))
                print(
                    f"{' '.join(each):30} {(files - of_files) / given.batches:6.2f} files "
                    f"{(size - of_size) / given.batches / 1e3:9.1f} kB a batch"
                )
            print(f"{busy.living_bytes / 1e6:.1f} MB of living rows")


if __name__ == "__main__":
    main()
