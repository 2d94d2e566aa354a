"""`sfcdc demo`, small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_ends_with_every_table_equal_to_the_org(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    command = [str(Path(sys.executable).with_name("sfcdc")), "demo", "--dir", str(tmp_path / "demo")]
    done = subprocess.run(
        [*command, "--records", "20", "--events", "60", "--rounds", "1"],
        cwd=tmp_path,
        env={**kept, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "every table equals the org │ yes" in done.stdout
