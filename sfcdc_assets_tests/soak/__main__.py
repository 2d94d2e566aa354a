"""The services of deploy/ with traffic, while one part after another dies: `python -m sfcdc_assets_tests.soak`.

Six objects change three times a second. Every few minutes something dies, each kind in its turn, and only what restarts
containers starts it again. The soak fails, at its end and with all figures, if tables are not fresh again within a
minute of a fault, differ from the org when traffic has ended, have a commit that is no step of the model, or if a part
holds a fifth more memory, threads or open files in the end. The minute is meant for a machine that does nothing
else. With `--write` the figures go to docs/soak.json, and their picture to docs/images/soak.svg.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from sfcdc_assets_tests.soak import report
from sfcdc_assets_tests.soak.container import can_be_run
from sfcdc_assets_tests.soak.followed_org import followed_org
from sfcdc_assets_tests.soak.soak import Soak

WARM_SECONDS, EVERY_SECONDS = 120.0, 225.0


def main() -> int:
    """Read the command line, run, print the figures. Exit code: 1 when the soak has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--warm", type=float, default=WARM_SECONDS, help="seconds before the first fault")
    parser.add_argument("--every", type=float, default=EVERY_SECONDS, help="seconds from a fault to the next")
    parser.add_argument("--fault", action="append", default=[], help="only those whose name has these words")
    parser.add_argument("--out", type=Path, default=Path("build/soak"), help="folder of the figures and the logs")
    parser.add_argument("--write", action="store_true", help="the figures and their picture into docs/ as well")
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: sys.exit(128 + sent))  # containers are ended then
    if not can_be_run():
        sys.exit("The soak runs its parts in namespaces of Linux, which this user may not make here: run it as root.")
    given.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=given.out.absolute()))
    folder.chmod(0o755)
    with followed_org(folder / "org") as org:
        soak = Soak(folder, org, given.fault)
        soak.run(given.minutes, given.warm, given.every)
        summary = soak.summary(soak.difference())
    figures = report.Figures(summary, soak.struck, soak.samples.taken, soak.samples.began)
    figures.write(given.out / "soak.json", given.out / "soak.svg")
    if given.write:
        figures.write(report.POINTS, report.PICTURE)
    print(figures.table(), summary, sep="\n")
    return 1 if summary.has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
