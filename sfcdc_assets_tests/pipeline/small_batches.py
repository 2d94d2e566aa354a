"""`python -m sfcdc_assets_tests.pipeline.small_batches ...`: the `sfcdc` command with small pages and commits.

A sync of a few hundred records then has as many steps as one of millions, so that it can be killed between any two.
"""

from sfcdc_assets.cli.__main__ import main
from sfcdc_assets.landing import land
from sfcdc_assets.snapshot import pages

PAGE_ROWS = 40
COMMIT_EVENTS = 60

if __name__ == "__main__":
    pages.MOST_ROWS_PER_PAGE = pages.FEWEST_ROWS_PER_PAGE = PAGE_ROWS
    land.COMMIT_EVENTS = COMMIT_EVENTS
    main()
