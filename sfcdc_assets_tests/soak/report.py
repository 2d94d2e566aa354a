"""The figures of a soak: as JSON, as plots, as a table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sfcdc_assets_tests.docs.line_plot import Line, Panel, drawn
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.soak.freshness import FRESH_SECONDS, Look
from sfcdc_assets_tests.soak.samples import Sample

POINTS, PICTURE = ROOT / "docs" / "soak.json", ROOT / "docs" / "images" / "soak.svg"
BOUND_SECONDS = 60.0
"""After each fault tables are fresh again within this time, without help."""
HEALED_SECONDS = 120.0
"""After each fault no record is suspect any more within this time: one whose read-back failed while REST answered
nothing is tried again after a pause, which may be a minute by then."""
STAYS_SECONDS = 30.0
"""They are fresh again once they have been for so long."""
CALM_SECONDS = 10.0
GROWTH, FEW = 1.2, 1
"""A part that holds more than so many times what it held has grown, if by more than one file or thread: the median of
the last sixth of the samples beside that of the second, when all have started."""
COMES_AND_GOES = "runs"
"""The part that is there only while a run is."""


@dataclass(frozen=True)
class Struck:
    """A fault that began and was over at moments (epoch s). `stale_seconds`: the longest time for which tables were not
    fresh; None if they never were again. `oldest_seconds`: for how long a change has waited meanwhile, at most."""

    name: str
    began: float
    over: float
    stale_seconds: float | None
    oldest_seconds: float
    healed_seconds: float | None
    """From its end until no record was suspect; None if there were none, or they still are."""
    is_healed: bool = True
    """Whether none of its records stayed suspect."""

    @property
    def is_missed(self) -> bool:
        """Whether the soak has failed here."""
        is_healed = self.is_healed and (self.healed_seconds or 0.0) <= HEALED_SECONDS
        is_fresh = self.stale_seconds is not None and max(self.stale_seconds, self.oldest_seconds) <= BOUND_SECONDS
        return not (is_healed and is_fresh)


def judged(name: str, began: float, over: float, looks: Sequence[Look]) -> Struck:
    """What a reader saw of a fault, from its beginning on. A change from before it counts as not seen until it is, also
    where tables are fresh otherwise: who is dead has served nothing yet."""
    stale_from, longest, fresh_from, recovered = began, 0.0, None, False
    oldest = 0.0
    for look in (each for each in looks if each.at >= began):
        has_passed = look.waits_since is None or look.waits_since > began
        if has_passed and look.waits <= FRESH_SECONDS:
            if fresh_from is None:
                fresh_from, longest = look.at, max(longest, look.at - stale_from)
            if look.at >= over and look.at - max(fresh_from, over) >= STAYS_SECONDS:
                recovered = True
                break
        else:
            if fresh_from is not None:
                stale_from, fresh_from = look.at, None
            oldest = max(oldest, look.waits)
    healed, has_suspects = None, _has_suspects(began, over, looks)
    if has_suspects:
        healed = next((round(look.at - over, 1) for look in looks if look.at > over and not look.suspects), None)
    stale = round(longest, 1) if recovered else None
    return Struck(name, began, over, stale, round(oldest, 1), healed, is_healed=not has_suspects or healed is not None)


def _has_suspects(began: float, over: float, looks: Sequence[Look]) -> bool:
    """Whether records became suspect while the fault lasted, and none was before."""
    before = [look for look in looks if look.at < began]
    return not (before and before[-1].suspects) and any(look.suspects for look in looks if began <= look.at <= over)


def calm(looks: Sequence[Look], faults: Sequence[Struck]) -> dict[str, float]:
    """How long the oldest change waited while nothing was wrong: percentiles of the looks outside of faults."""

    def is_calm(look: Look) -> bool:
        return not any(
            each.began <= look.at <= each.over + (each.stale_seconds or BOUND_SECONDS) + CALM_SECONDS for each in faults
        )

    waits = [look.waits for look in looks if is_calm(look)]
    if len(waits) < 2:
        return {}
    percentiles = statistics.quantiles(waits, n=100)
    return {"p50": round(percentiles[49], 1), "p95": round(percentiles[94], 1), "most": round(max(waits), 1)}


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return which parts have grown in what, in words. What is to grow is not asked: the warehouse and its files with
    the changes, Dagster's log and database with the runs until the daily purge."""
    sixth = len(samples) // 6
    if not sixth:
        return []
    early, late = samples[sixth : 2 * sixth], samples[-sixth:]
    measures: dict[str, Callable[[Sample], Mapping[str, float]]] = {
        "MB of memory": lambda each: each.memory_mb,
        "threads": lambda each: each.threads,
        "open files": lambda each: each.open_files,
    }
    found = []
    for measure, held in measures.items():
        for part in sorted({part for each in samples for part in held(each)} - {COMES_AND_GOES}):
            before = [held(each)[part] for each in early if part in held(each)]
            after = [held(each)[part] for each in late if part in held(each)]
            if not (before and after):
                continue
            was, is_ = statistics.median(before), statistics.median(after)
            if is_ > GROWTH * was and is_ - was > FEW:
                found.append(f"{part}: {was:g} {measure}, then {is_:g}")
    return found


@dataclass(frozen=True)
class Summary:
    """A soak in a few figures."""

    changes: int
    calm_seconds: Mapping[str, float]
    """For how long the oldest change waited while nothing was wrong."""
    restarts: Mapping[str, int]
    """How often each container was started by its policy."""
    missed: Sequence[str]
    """Faults after which tables were not fresh again in time."""
    tables: str
    has_failed: bool
    grown: Sequence[str] = ()
    """Parts that hold more than they did. Soaks of before this was asked have none."""


@dataclass(frozen=True)
class Figures:
    """All that was noted. `began`: the moment (epoch s) from which samples count."""

    summary: Summary
    faults: Sequence[Struck]
    samples: Sequence[Sample]
    began: float

    @classmethod
    def read(cls, points: Path) -> Figures:
        """What `write` wrote."""
        found = json.loads(points.read_text())
        faults, samples = [Struck(**each) for each in found["faults"]], [Sample(**each) for each in found["samples"]]
        return cls(Summary(**found["summary"]), faults, samples, found["began"])

    def write(self, points: Path, picture: Path) -> None:
        """As JSON, with a sample a line, and as an SVG."""
        faults = [asdict(each) for each in self.faults]
        found = {"began": self.began, "summary": asdict(self.summary), "faults": faults}
        samples = ",\n".join(json.dumps(asdict(each)) for each in self.samples)
        points.write_text(json.dumps(found, indent=1).removesuffix("\n}") + f',\n "samples": [\n{samples}\n]\n}}\n')
        picture.write_text(self.picture())

    def picture(self) -> str:
        """As an SVG."""
        return _drawn(self.samples, [(each.began - self.began) / 60 for each in self.faults])

    def table(self) -> str:
        """As Markdown: a row a fault, with the figures of each time that it struck."""
        rows = ["| what dies | seconds until tables are fresh again |", "|---|---|"]
        for name in dict.fromkeys(each.name for each in self.faults):
            seconds = (each.stale_seconds for each in self.faults if each.name == name)
            rows.append(f"| {name} | {', '.join('never' if each is None else f'{each:.0f}' for each in seconds)} |")
        return "\n".join(rows)


def _drawn(samples: Sequence[Sample], marks: Sequence[float]) -> str:
    """The samples over minutes; `marks` are the minutes at which something died."""

    def line(name: str, value: Callable[[Sample], float | None]) -> Line:
        points = [(round(each.at / 60, 2), found) for each in samples if (found := value(each)) is not None]
        return Line(name, points)

    def memory(part: str) -> Line:
        return line({"code": "code server"}.get(part, part), lambda sample: sample.memory_mb.get(part))

    panels = (
        Panel("seconds for which the oldest change waits", (line("oldest change", lambda each: each.waits),)),
        Panel("seconds of a tick", (line("tick", lambda each: each.tick_seconds),)),
        Panel("MB of memory", tuple(memory(part) for part in ("code", "daemon", "webserver"))),
        Panel("MB of memory", tuple(memory(part) for part in ("Spark's Java", "Spark's Python", "runs"))),
        Panel("files of the warehouse", (line("files", lambda each: each.warehouse_files),)),
        Panel(
            "MB on disk",
            (
                line("warehouse", lambda each: each.warehouse_mb),
                line("Postgres", lambda each: each.database_mb),
            ),
        ),
        Panel("events in Dagster's log", (line("events", lambda each: each.events),)),
    )
    panels = tuple(panel for panel in panels if any(line.points for line in panel.lines))
    return drawn("An hour in which one part after another dies", "minute", panels, marks=marks)
