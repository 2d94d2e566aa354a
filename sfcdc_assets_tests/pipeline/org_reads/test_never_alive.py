"""A record that one transaction makes and deletes: the org has it in its recycle bin, and raised no event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.lives.quiet_life import QuietLife, quiet


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as opened:
        opened.sync()
        yield opened


def test_it_is_in_no_table_until_a_copy_finds_it_in_the_recycle_bin(life: QuietLife) -> None:
    with life.org.transaction() as work:
        never_alive = work.create("Account", {"Name": "made and deleted at once"})
        work.delete("Account", never_alive)
    life.update(life.ids()[0], Name="changed afterwards")
    life.catch_up()
    life.assert_equal()
    assert never_alive not in life.rows()
    life.snapshot()
    life.catch_up()
    row = life.rows()[never_alive]
    assert (row["_is_deleted"], row["Name"]) == (True, "made and deleted at once")
