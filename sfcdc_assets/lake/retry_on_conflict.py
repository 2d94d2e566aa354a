"""What to do when another writer committed first: everything is retried, after a short pause of random length."""

from __future__ import annotations

import tenacity

from sfcdc_assets.lake.errors import ConcurrentCommit

ATTEMPTS = 10

retry_on_conflict = tenacity.retry(
    retry=tenacity.retry_if_exception_type(ConcurrentCommit),
    stop=tenacity.stop_after_attempt(ATTEMPTS),
    wait=tenacity.wait_random_exponential(multiplier=0.05, max=2.0),
    reraise=True,
)
"""Decorates a function that opens tables, decides by what it finds, and commits through the same handles."""
