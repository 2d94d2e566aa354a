"""Plots for the documentation: panels of lines over one axis, as an SVG that shows on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, PANEL, GAP, LEFT, RIGHT, TOP = 760, 130, 44, 64, 120, 48
COLOURS = ("#3b6fd4", "#c8641e", "#2f8f5b")
GREY = "#808080"


@dataclass(frozen=True)
class Line:
    """A name and its points, in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Lines with one scale, which begins at zero."""

    title: str
    lines: Sequence[Line]


def drawn(title: str, axis: str, panels: Sequence[Panel], marks: Sequence[float] = ()) -> str:
    """The picture. `marks`: where on the axis something happened, a dashed line through each panel."""
    height = TOP + len(panels) * (PANEL + GAP) + 16
    xs = [x for panel in panels for line in panel.lines for x, _ in line.points]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" '
        f'font-size="12" fill="{GREY}">',
        f"<title>{escape(title)}</title>",
        f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + number * (PANEL + GAP), (min(xs), max(xs)), marks)
    parts += [_text((LEFT + WIDTH - RIGHT) / 2, height - 8, axis, "middle"), "</svg>"]
    return "\n".join(parts) + "\n"


def _panel(panel: Panel, top: float, axis: tuple[float, float], marks: Sequence[float]) -> Iterator[str]:
    first, last = axis
    most = _round_above(max(y for line in panel.lines for _, y in line.points))
    bottom, right = top + PANEL, WIDTH - RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        share = (x - first) / (last - first) if last > first else 0.5
        return round(LEFT + share * (right - LEFT), 1), round(bottom - y / most * PANEL, 1)

    yield _text(LEFT, top - 8, panel.title)
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * PANEL
        yield f'<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="{GREY}" stroke-opacity="0.3"/>'
        yield _text(LEFT - 6, y + 4, f"{most * share:,.10g}", "end")
    for x, anchor in ((first, "start"), (last, "end")):
        yield _text(place(x, 0)[0], bottom + 15, f"{x:g}", anchor)
    for x in (place(mark, 0)[0] for mark in marks):
        yield (
            f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="{GREY}" stroke-opacity="0.6" '
            'stroke-dasharray="2 3"/>'
        )
    ends: list[float] = []
    for number, line in enumerate(panel.lines):
        colour, points = COLOURS[number % len(COLOURS)], [place(x, y) for x, y in line.points]
        path = " ".join(f"{x},{y}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        y = _apart(points[-1][1] + 4, ends)
        yield f'<text x="{right + 8}" y="{y}" fill="{colour}">{escape(line.name)}</text>'


def _apart(y: float, others: list[float]) -> float:
    """Below names that are there already, if it would touch one."""
    while any(abs(y - other) < 13 for other in others):
        y += 13
    others.append(y)
    return round(y, 1)


def _round_above(most: float) -> float:
    """The next number of one digit and zeros, or a half of one."""
    step = 1.0
    while step * 10 <= most:
        step *= 10
    while step > most > 0:
        step /= 10
    return next(step * each for each in _STEPS if step * each >= most)


_STEPS: Iterable[float] = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
