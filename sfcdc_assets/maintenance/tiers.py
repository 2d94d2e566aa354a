"""Which files to pack together: small ones that lie side by side, each with at least as much as itself.

Files are taken in the order of the rows they hold. A group never holds more than a full file does, and never a file
that is larger than all the others in it together: so a row is written again at most once for each doubling of its file,
a full file never, and what is left of small files grows with the logarithm of what was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

FULL_BYTES = 32 * 1024 * 1024
"""A file of this size is left as it is. What is packed at one time is this much, in compressed form."""
SMALLEST_BYTES = 64 * 1024
"""What a smaller file counts as: to have it costs no less. So at most 512 are packed at one time."""


def groups(sizes: Sequence[int], full: int = FULL_BYTES) -> list[range]:
    """Files to pack, as ranges of indices of `sizes`, each of two or more; in order, without overlap."""
    found: list[range] = []
    for run in _runs(sizes, full):
        found += _balanced(sizes, run)
    return found


def _runs(sizes: Sequence[int], full: int) -> Iterator[range]:
    """The files in ranges that fit into a full one; a full one ends the range before it."""
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if total + size > full:
            yield range(start, index)
            start, total = index, 0
        total += size
    yield range(start, len(sizes))


def _balanced(sizes: Sequence[int], run: range) -> Iterator[range]:
    """The range without files that are larger than the others together; these part it."""
    waiting = [run]
    while waiting:
        each = waiting.pop()
        if len(each) < 2:
            continue
        largest = max(each, key=lambda index: sizes[index])
        if 2 * sizes[largest] <= sum(sizes[index] for index in each):
            yield each
        else:
            waiting += [range(largest + 1, each.stop), range(each.start, largest)]
