"""What a cut shows of itself in a terminal and in a notebook: where it stands, and its first entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from sfcdc_assets.lake.tables.consistent_cuts import Cut, Lagging
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.foreign_text import terminal_text

ENTITIES_SHOWN = 12
"""To know how many rows an entity has, its table is opened: milliseconds each, and a cut may have hundreds."""
_HEADS = ("entity", "live rows", "as of (UTC)", "")


@dataclass(frozen=True)
class ShownEntity:
    """`living`: its live rows; None where they were not noted, or its table cannot be opened."""

    entity: str
    living: int | None
    as_of: datetime | None


@dataclass(frozen=True)
class CutSummary:
    """The first entities of a cut: those that lag come first, because they are what one has to know."""

    cuts: Sequence[Cut]
    shown: Sequence[ShownEntity]
    lagging: Mapping[str, Lagging]
    entities: int

    def text(self) -> str:
        """Return a line for each cut and each entity shown, in columns."""
        rows = [_HEADS, *map(self._cells, self.shown)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
        lines = [
            f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}".rstrip() for row in rows
        ]
        return terminal_text("\n".join([*self._said(), *lines, *self._more()]))

    def html(self) -> str:
        """Return the same as a table of HTML."""
        said = "".join(f"<div>{escape(each)}</div>" for each in self._said())
        head = "".join(f"<th>{escape(each)}</th>" for each in _HEADS)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in self._cells(each)) + "</tr>" for each in self.shown
        )
        more = "".join(f"<div>{escape(each.strip())}</div>" for each in self._more())
        return f"<div>{said}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}</div>"

    def _said(self) -> list[str]:
        return [
            f"ConsistentCut of {counted(self.entities, 'entity')}:",
            *(
                f"  {cut.channel} at position {cut.position}, as of {_moment(cut.commit_timestamp)}"
                for cut in self.cuts
            ),
        ]

    def _cells(self, each: ShownEntity) -> tuple[str, str, str, str]:
        lag = self.lagging.get(each.entity)
        said = f"lags since {_moment(lag.since)} ({lag.reason})" if lag is not None else ""
        return each.entity, "?" if each.living is None else f"{each.living:,}", _moment(each.as_of), said

    def _more(self) -> list[str]:
        left = self.entities - len(self.shown)
        return [f"  ... and {left:,} more: `.entities`, `.as_of` and `.lagging` have all"] if left > 0 else []


def _moment(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else "the first reading"
