"""A soak: traffic, one fault after another, what was noted of each, and a comparison of every table with the org."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sfcdc_assets_tests.benchmarks.org_process import clean_environment, compare, sfcdc
from sfcdc_assets_tests.benchmarks.stage import WrongAnswer
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.model.relation import Followed, NotAllowed
from sfcdc_assets_tests.model.table_trace import read_trace
from sfcdc_assets_tests.soak import report
from sfcdc_assets_tests.soak.deployment import READY_SECONDS, Deployment
from sfcdc_assets_tests.soak.faults import Faults
from sfcdc_assets_tests.soak.followed_org import ENTITIES, FollowedOrg
from sfcdc_assets_tests.soak.freshness import Freshness
from sfcdc_assets_tests.soak.samples import Samples

GIVE_UP_SECONDS = 300.0
"""So long after a fault nobody waits any more for fresh tables."""
PROGRESS_SECONDS = 30.0
LOOK_SECONDS = 1.0


def follow(warehouse: Path) -> Mapping[str, int]:
    """Follow the commits that the logs of a warehouse still have; how many there were of each kind. Raises
    `NotAllowed`."""
    followed = Followed()
    followed.take_all(read_trace(warehouse))
    return dict(followed.counts)


class Soak:
    """One, in a folder that everybody may enter."""

    def __init__(self, folder: Path, org: FollowedOrg, names: Sequence[str]) -> None:
        """`names`: words of the faults that are wanted; of all, if there are none."""
        self._folder = folder
        self.warehouse = folder / "warehouse"
        self.settings = {
            "PYTHONPATH": str(ROOT),
            **org.server.client_environment(),
            "SFCDC_WAREHOUSE": str(self.warehouse),
        }
        self.org = org
        self.deployment = Deployment(folder, self.settings)
        self.freshness = Freshness(self.warehouse, org.commits)
        self.samples = Samples(self.deployment, self.warehouse, self.freshness)
        every = Faults(self.deployment, org).all
        self.faults = {name: strike for name, strike in every.items() if not names or any(n in name for n in names)}
        self.struck: list[report.Struck] = []
        self.failed: list[str] = []
        """Faults that could not be brought about."""
        self.began = time.time()

    def run(self, minutes: float, warm: float, every: float) -> None:
        """For so many minutes, with the first fault after `warm` seconds and one every `every` seconds. Traffic and all
        parts end then. Raises AssertionError when the tables do not come in the first place."""
        with self.deployment.running(), self.freshness.looking(), self.org.serving():
            self.org.flows.set()
            eventually(self.freshness.has_all, self.deployment.said, seconds=READY_SECONDS)
            self._say("every table is there")
            with self.samples.taking():
                began, round_ = time.monotonic(), 0
                self._wait(warm)
                while time.monotonic() - began + every <= minutes * 60:
                    due = time.monotonic() + every
                    name = list(self.faults)[round_ % len(self.faults)]
                    self._strike(name)
                    self._wait(due - time.monotonic())
                    round_ += 1
                self._wait(began + minutes * 60 - time.monotonic())
                self.org.flows.clear()
        self.struck = [report.judged(each.name, each.began, each.over, self.freshness.looks) for each in self.struck]
        self._say("traffic has ended")

    def difference(self) -> str:
        """Sync to the end; what then differs from the org in any table, or why nobody knows, and otherwise the first
        commit, of those that the logs still have, which is no step of the model. Empty if nothing does."""
        try:
            sfcdc("sync", "--until-caught-up", env={**clean_environment(), **self.settings}, cwd=self._folder)
            compare(self.org.org, self._folder)
            self._say(f"the model has every commit: {follow(self.warehouse)}")
        except WrongAnswer as wrong:
            return str(wrong)
        except NotAllowed as refused:
            return f"a commit that the model does not have: {refused}"
        return ""

    def _strike(self, name: str) -> None:
        self._say(f"now: {name}")
        began = time.time()
        try:
            self.faults[name]()
        except AssertionError as error:
            self._say(f"could not be: {error}")
            self.failed.append(f"{name}: {error}")
            return
        over = time.time()
        while True:
            struck = report.judged(name, began, over, self.freshness.looks)
            if struck.stale_seconds is not None or time.time() - over > GIVE_UP_SECONDS:
                break
            self._wait(LOOK_SECONDS)
        self.struck.append(struck)
        verdict = "MISSED" if struck.is_missed else "fresh again"
        self._say(f"{verdict}: {struck}")

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, PROGRESS_SECONDS))
            if seconds > LOOK_SECONDS:
                self._say(self.samples.taken[-1].line() if self.samples.taken else "begins")

    def _say(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} +{time.time() - self.began:.0f}s {what}", flush=True)

    def summary(self, difference: str) -> report.Summary:
        """In a few figures."""
        grown = report.grown(self.samples.taken)
        return report.Summary(
            changes=self.org.changes,
            calm_seconds=report.calm(self.freshness.looks, self.struck),
            restarts={name: each.restarts for name, each in self.deployment.containers.items()},
            missed=[*self.failed, *(each.name for each in self.struck if each.is_missed)],
            tables=difference or f"{len(ENTITIES)} tables equal the org",
            has_failed=bool(difference or grown or self.failed or any(each.is_missed for each in self.struck)),
            grown=grown,
        )
