"""The bounded search for line ends that make a text with the claimed hash.

Guesses are tried by how many places differ from the first one: all with one place different, then two, and so on.
The hash of everything before the first differing place is computed once and copied, so that a guess costs the bytes
after its last differing place, and the search needs no memory beyond the text.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from sfcdc_assets.text_diff.apply import Outline
from sfcdc_assets.text_diff.line_ends import Ends, end_choices
from sfcdc_assets.text_diff.lines import Lines


@dataclass(slots=True)
class Budget:
    """What a search may cost: guesses and bytes hashed, so that a hopeless case ends the same way everywhere."""

    guesses: int
    hashed: int

    def spend(self, hashed: int) -> None:
        """Take one guess that hashes so many bytes."""
        self.guesses -= 1
        self.hashed -= hashed

    @property
    def spent(self) -> bool:
        """Whether no further guess may be made."""
        return self.guesses <= 0 or self.hashed <= 0


class LineEndSearch:
    """The search over one text: `pieces` with places for line ends between them.

    A place is `open` if the diff does not say its end, else `kept`: the end of an unchanged line, which a diff that
    compares lines without their ends does not show to change.
    """

    def __init__(self, pieces: list[bytes], choices: list[Ends], kept: list[bool], sha256: bytes) -> None:
        self._pieces = pieces
        self._choices = choices  # for each place, the first guess first
        self._sha256 = sha256
        self._first = [ends[0] for ends in choices]
        self._text = _joined(pieces, self._first)
        lengths = (len(piece) + len(end) for piece, end in zip(pieces[1:], self._first, strict=True))
        self._at = list(accumulate(lengths, initial=len(pieces[0])))  # where each place stands in the first guess
        free = [place for place, ends in enumerate(choices) if len(ends) > 1]
        self._open = [place for place in free if not kept[place]]
        self._kept = [place for place in free if kept[place]]
        self._all = free

    @classmethod
    def over_open_ends(cls, outline: Outline, sha256: bytes) -> LineEndSearch:
        """Search the line ends that the diff leaves open."""
        choices = end_choices(outline)
        return cls(list(outline.pieces), choices, [False] * len(choices), sha256)

    @classmethod
    def over_every_end(cls, outline: Outline, sha256: bytes) -> LineEndSearch:
        """Search those of unchanged lines too."""
        frequent = outline.base.ends_by_frequency
        pieces: list[bytes] = []
        choices: list[Ends] = []
        kept: list[bool] = []
        for piece, open_choices in zip(outline.pieces, [*end_choices(outline), None], strict=True):
            lines = Lines(piece, outline.base.breaks)
            pieces += (lines.content(index) for index in range(len(lines)))
            choices += (tuple(dict.fromkeys((lines.end(index), *frequent))) for index in range(len(lines) - 1))
            kept += [True] * (len(lines) - 1)
            if open_choices is not None:
                choices.append(open_choices)
                kept.append(False)
        return cls(pieces, choices, kept, sha256)

    @property
    def open_places(self) -> int:
        """How many open places have more than one end to choose from."""
        return len(self._open)

    @property
    def kept_places(self) -> int:
        """How many kept places have more than one end to choose from."""
        return len(self._kept)

    def with_differing(self, open_places: int, kept_places: int, budget: Budget) -> bytes | None:
        """Return the text with the hash, if one with exactly so many places different from the first guess has it."""
        if open_places + kept_places == 0:
            return None
        ends = self._search(0, 0, hashlib.sha256(), open_places, kept_places, budget)
        if ends is None:
            return None
        places = dict(ends)
        return _joined(self._pieces, [places.get(place, end) for place, end in enumerate(self._first)])

    def _search(
        self, start: int, done: int, before: hashlib._Hash, open_left: int, kept_left: int, budget: Budget
    ) -> list[tuple[int, bytes]] | None:
        """Return the differing places from `start` on. `before` has hashed the text up to `done`; as deep as places
        differ."""
        candidates = self._all if open_left and kept_left else self._open if open_left else self._kept
        spare_open = len(self._open) - open_left - bisect_left(self._open, start)
        spare_kept = len(self._kept) - kept_left - bisect_left(self._kept, start)
        view = memoryview(self._text)
        for index in range(bisect_left(candidates, start), len(candidates)):
            place = candidates[index]
            at = self._at[place]
            before.update(view[done:at])
            done = at
            is_open = self._is_open(place)
            if open_left if is_open else kept_left:
                found = self._differ(place, before, open_left - is_open, kept_left - (not is_open), budget)
                if found is not None or budget.spent:
                    return found
            spare_open -= is_open
            spare_kept -= not is_open
            if (open_left and spare_open < 0) or (kept_left and spare_kept < 0):
                return None
        return None

    def _differ(
        self, place: int, before: hashlib._Hash, open_left: int, kept_left: int, budget: Budget
    ) -> list[tuple[int, bytes]] | None:
        """Return the place with each other end, and so many places after it different."""
        following = self._at[place] + len(self._first[place])
        for end in self._choices[place][1:]:
            guess = before.copy()
            guess.update(end)
            if open_left + kept_left:
                rest = self._search(place + 1, following, guess, open_left, kept_left, budget)
                if rest is not None:
                    return [(place, end), *rest]
            else:
                budget.spend(len(self._text) - following)
                guess.update(memoryview(self._text)[following:])
                if guess.digest() == self._sha256:
                    return [(place, end)]
            if budget.spent:
                return None
        return None

    def _is_open(self, place: int) -> bool:
        index = bisect_left(self._open, place)
        return index < len(self._open) and self._open[index] == place


def _joined(pieces: list[bytes], ends: list[bytes]) -> bytes:
    return b"".join(part for pair in zip(pieces, [*ends, b""], strict=True) for part in pair)
