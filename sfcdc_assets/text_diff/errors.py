"""What can be wrong with a text difference; nothing of the text itself is in a message, it is customers' data."""

from __future__ import annotations

from sfcdc_assets.runtime.errors import SfcdcError


class TextDiffError(SfcdcError):
    """No new value is proven: the diff is not one, does not fit its base, or no text it can mean has its hash.

    `hunk` and `line` (a line of the base or of the diff, as `problem` says) count from 1; `expected` and `found`
    are SHA-256 in lower-case hex, `found` that of the most likely text.
    """

    def __init__(
        self,
        problem: str,
        *,
        hunk: int | None = None,
        line: int | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        self.problem = problem
        self.hunk = hunk
        self.line = line
        self.expected = expected
        self.found = found
        where = "" if hunk is None else f" in hunk {hunk}"
        hashes = f" (expected SHA-256 {expected}, found {found})" if expected and found else ""
        super().__init__(
            f"The text difference{where} proves no value: {problem}{hashes}. Read the field back from the org."
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Survives the way back from a Spark worker, where exceptions are pickled."""
        return (_rebuild, (self.problem, self.hunk, self.line, self.expected, self.found))


def _rebuild(
    problem: str, hunk: int | None, line: int | None, expected: str | None, found: str | None
) -> TextDiffError:
    return TextDiffError(problem, hunk=hunk, line=line, expected=expected, found=found)
