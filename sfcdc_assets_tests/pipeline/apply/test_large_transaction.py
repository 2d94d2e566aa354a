"""A transaction of very many changes costs no more memory than a small one, but for what Spark's tasks hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.apply.large_transaction import FIELDS_OF_UPDATE, run

CHANGES = 20_000
TEXT = 4_000
FIRST_CHANGE = 1
MOST_MB = 250
"""To hold all 80 MB of payloads at once, as rows and as Arrow, takes over 400 MB."""


@pytest.mark.soak
def test_landing_and_the_driver_do_not_hold_a_large_transaction(tmp_path: Path) -> None:
    figures = run(CHANGES, TEXT, tmp_path)
    print(figures)
    assert figures.events == FIRST_CHANGE + CHANGES - FIELDS_OF_UPDATE + 1
    assert figures.contacts == figures.contacts_in_cut == 20 + CHANGES - FIELDS_OF_UPDATE
    assert figures.payload_mb > 80
    assert figures.landing_mb < MOST_MB
    assert figures.driver_mb < MOST_MB
