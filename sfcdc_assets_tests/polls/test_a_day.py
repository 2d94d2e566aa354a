"""A day of 300 polled objects, ten of them busy, without an org: which are asked when, and what that takes."""

from __future__ import annotations

import random
from bisect import bisect_left

from sfcdc_assets.polls.cost import requests_a_day
from sfcdc_assets.polls.due import Asked, due_objects
from sfcdc_assets.salesforce.composite_query import MOST_QUERIES

INTERVAL, DAY, TICK = 900, 86_400, 60
OBJECTS, BUSY = 300, 10
BESIDE = DAY // 600 + DAY // 3600 + OBJECTS
"""The list of the org's objects, its allowances, and a count of each object's records."""
MOST_REQUESTS = 6_000


def test_a_day_of_300_objects_takes_few_requests_and_changes_are_read_within_an_interval_and_two_minutes() -> None:
    dice = random.Random(11)
    names = [f"Object_{number:03}" for number in range(OBJECTS)]
    changes = {name: [dice.randrange(2 * DAY)] for name in names} | {
        name: sorted(dice.randrange(2 * DAY) for _ in range(1_000)) for name in names[:BUSY]
    }
    asked, read, changed = dict.fromkeys(names, Asked(1)), dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    requests, ages = BESIDE, list[int]()
    for now in range(TICK, 2 * DAY, TICK):
        due = due_objects(names, asked, now * 1000, INTERVAL * 1000)
        if now >= DAY:
            requests += -(-len(due) // MOST_QUERIES) + bool(due)
        for name in due:
            seen = bisect_left(changes[name], now)
            if seen > read[name]:
                changed[name] = now
                ages += [now - at for at in changes[name][read[name] : seen] if at >= DAY]
            read[name] = seen
            asked[name] = Asked(now * 1000, quiet_ms=(now - changed[name]) * 1000)
    assert requests <= MOST_REQUESTS // 2, requests
    assert sorted(ages)[len(ages) * 95 // 100] <= INTERVAL + 120
    said = sum(requests_a_day(1_000 if name in names[:BUSY] else 0.5, INTERVAL) for name in names)
    assert said <= MOST_REQUESTS // 2, said
    print(f"{requests} requests, p95 {sorted(ages)[len(ages) * 95 // 100]} s, greatest {max(ages)} s; said {said:.0f}")


def test_a_day_of_a_cron_each_five_minutes_asks_no_more_than_what_is_due() -> None:
    names = [f"Object_{number:03}" for number in range(OBJECTS)]
    asked = {name: Asked(1) for name in names}
    requests, every, syncs = OBJECTS, 300, 0  # each object is counted once
    for now in range(every, 2 * DAY, every):
        due = due_objects(names, asked, now * 1000, INTERVAL * 1000)
        if now >= DAY:
            syncs += 1
            requests += 1 + -(-len(due) // MOST_QUERIES) + bool(due)  # the list of the org's objects, and what is open
        for name in due:
            quiet = 0 if name in names[:BUSY] else now
            asked[name] = Asked(now * 1000, quiet_ms=quiet * 1000)
    assert requests <= MOST_REQUESTS // 2, requests
    assert requests <= syncs * (OBJECTS // MOST_QUERIES + 3) // 6, "where each sync asks all of them"
    print(f"{requests} requests of {syncs} syncs")
