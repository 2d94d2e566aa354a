"""A process that lands the configured channels round after round, until it is killed: `python -m` this module."""

from __future__ import annotations

import time

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings

LONGEST_SECONDS = 280.0
"""Should nobody kill it."""
PAUSE_SECONDS = 0.05
"""After an error, of which the next attempt may have to wait for its turn."""
ROUND = PollTimeouts(first_answer=2.0, quiet=0.05, budget=2.0, goes_on=True)


def main() -> None:
    """Land; an outage ends a round and no more."""
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    ends = time.monotonic() + LONGEST_SECONDS
    with connect(settings) as org, Poller(warehouse, org, settings.settle_seconds, ROUND) as poller:
        while time.monotonic() < ends:
            for channel in settings.channels:
                try:
                    poller.land(channel)
                except SfcdcError as error:
                    print(f"{channel}: {error}", flush=True)
                    time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
