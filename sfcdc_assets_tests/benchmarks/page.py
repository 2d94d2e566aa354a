"""The table of docs/benchmarks.md, drawn from the results, so that page and figures cannot differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from sfcdc_assets_tests.benchmarks.results import Result
from sfcdc_assets_tests.benchmarks.stage import Figure, ratio

BEGIN = "<!-- figures: written by `make bench` from benchmarks.json -->"
END = "<!-- end of figures -->"
HEAD = ("case", "ours", "instead", "ours / instead", "goal", "reached")
"""Of the tables in a terminal, with every spread."""
_INSTEAD = "instead (ours / instead)"
"""A column of the page where a stage has something to compare with."""


def with_figures(page: str, results: Mapping[str, Result]) -> str:
    """`page` with its section between the two markers drawn again; most stages' day and machine are named once."""
    before, found, rest = page.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"docs/benchmarks.md lacks the line {(END if found else BEGIN)!r}: put it back")
    day = _most(result.date for result in results.values())
    machine = _most(result.machine for result in results.values())
    sections = "\n".join([_section(result, day, machine) for result in results.values()])
    measured = f"Measured on {day} with {machine}, unless a stage says otherwise."
    return f"{before}{BEGIN}\n\n{measured}\n\n{sections}{END}{after}"


def _most(values: Iterable[str]) -> str:
    return next((value for value, _ in Counter(values).most_common(1)), "")


def _section(result: Result, day: str, machine: str) -> str:
    """A stage, with the figures that have a goal or something to compare with; benchmarks.json has the others too."""
    figures = [figure for figure in result.figures if figure.goal or figure.peers]
    head = ("case", "ours", *([_INSTEAD] if any(figure.peers for figure in figures) else []), "goal")
    unusual = [result.date] if result.date != day else []
    unusual += [f"with {result.machine}"] if result.machine != machine else []
    return "\n".join(
        [
            f"### {result.title}",
            "",
            _line(head),
            _line("---" for _ in head),
            *(_line(cell for name, cell in _page_row(figure).items() if name in head) for figure in figures),
            "",
            f"What limits it: {_first_sentence(result.limit)} ({', '.join([f'{result.seconds:.0f} s', *unusual])}.)",
            "",
        ]
    )


def _first_sentence(text: str) -> str:
    """What stands before the first full stop; benchmarks.json has the rest."""
    return " ".join(text.split()).split(". ")[0].removesuffix(".") + "."


def _page_row(figure: Figure) -> Mapping[str, str]:
    """One row a figure, by column: medians of ours and of what it is compared with, and whether the goal is reached."""
    instead = [
        f"{peer}: {number(median(figure.peers[peer]))} ({ratio(figure.ours, figure.peers[peer]):.2f})"
        for peer in _peers(figure)
    ]
    goal, reached = _goal(figure)
    if figure.goal is not None and figure.goal.of:
        goal = goal.removesuffix(f" {figure.goal.of}")  # the first of those it is compared with
    ours = f"{number(median(figure.ours))} {figure.unit}"
    of_goal = f"{goal}: {reached.replace(': ', ', ')}" if goal else ""
    return {"case": figure.case, "ours": ours, _INSTEAD: "; ".join(instead), "goal": of_goal}


def _peers(figure: Figure) -> Sequence[str]:
    """The one that the goal is about first."""
    return sorted(figure.peers, key=lambda peer: figure.goal is None or figure.goal.of != peer)


def _goal(figure: Figure) -> tuple[str, str]:
    if figure.goal is None or figure.value is None:
        return "", ""
    reached = "yes" if figure.goal.is_reached(figure.value) else f"no: {number(figure.value)}"
    return figure.goal.text(figure.unit), reached


def figure_rows(figure: Figure) -> Iterable[Sequence[str]]:
    ours = spread(figure.ours, figure.unit)
    goal, reached = _goal(figure)
    peers = _peers(figure)
    if not peers:
        yield figure.case, ours, "", "", goal, reached
    for nth, peer in enumerate(peers):
        times = f"{ratio(figure.ours, figure.peers[peer]):.2f}"
        instead = f"{peer}: {spread(figure.peers[peer], figure.unit)}"
        yield (figure.case, ours, instead, times, goal, reached) if nth == 0 else ("", "", instead, times, "", "")


def spread(samples: Sequence[float], unit: str) -> str:
    """Median with smallest and largest, such as `2.1 s (1.9 to 2.6)`; the value alone where there is one sample."""
    middle = f"{number(median(samples))} {unit}"
    return middle if len(samples) == 1 else f"{middle} ({number(min(samples))} to {number(max(samples))})"


def number(value: float) -> str:
    """Three digits that matter, thousands parted by commas."""
    if value == 0 or abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
