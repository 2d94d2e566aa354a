"""Whose records the rolling audit compares next, and how long a pass over all records takes.

An entity of millions of records is looked at thousands of times until all of them were compared. That must end, and
keep no other entity from being compared meanwhile.
"""

from collections.abc import Collection, Mapping, Sequence

DAY_MS = 86_400_000


def whose_turn(entities: Collection[str], passes: Mapping[str, int], windows: Mapping[str, int], now_ms: int) -> str:
    """Return the entity of which the next window is compared: the one whose last whole pass is the oldest, and after
    each window of that one the entity whose last window is longest ago, where that is a day.

    So the pass that is due has half of the looks at least, and all of those that nobody needs who waits for a day.
    `passes`: when the last window of an entity's last pass was compared, epoch ms; `windows`: when its last one was, in
    the order of these times.
    """
    due = min(entities, key=lambda entity: (passes.get(entity, 0), entity))
    if list(windows)[-1:] != [due]:
        return due
    waits_longest = min(entities, key=lambda entity: (windows.get(entity, 0), entity))
    return waits_longest if now_ms - windows.get(waits_longest, 0) >= DAY_MS else due


def days_for_all(windows: Sequence[int], looks_a_day: float) -> float:
    """Return how many days a pass over all records takes at most, by the rule of `whose_turn`. `windows`: how many each
    entity has."""
    of_large = sum(each for each in windows if each > 1)
    for_others = min(len(windows) - 1, looks_a_day / 2)
    return windows.count(1) / looks_a_day + of_large / (looks_a_day - for_others)
