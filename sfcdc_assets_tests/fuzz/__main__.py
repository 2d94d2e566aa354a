"""Fuzzing led by coverage: `python -m sfcdc_assets_tests.fuzz TARGET`, or `make fuzz` for each of them.

What follows `TARGET` goes to libFuzzer: `-runs=1000000`, `-max_total_time=600`, `-seed=1`. Inputs that reach new code
go to build/fuzz/TARGET, one that fails to build/fuzz; one that is worth keeping belongs into corpus/TARGET.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

OUT = Path("build/fuzz")


def main() -> None:
    """Fuzz one target until it fails, or until libFuzzer's options say that it is enough."""
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(
        include=["sfcdc_assets", "json", "tomllib"], exclude=["sfcdc_assets.streams.pubsub.proto"]
    ):
        from sfcdc_assets_tests.fuzz.targets import CORPUS, SECONDS, TARGETS  # noqa: PLC0415 - instrumented
    (OUT / name).mkdir(parents=True, exist_ok=True)
    folders = [str(OUT / name), str(CORPUS / name)]
    given = [f"-artifact_prefix={OUT}/{name}-", f"-timeout={SECONDS:.0f}", "-max_len=4096", *options, *folders]
    atheris.Setup([sys.argv[0], *given], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
