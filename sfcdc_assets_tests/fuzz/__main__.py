"""Fuzzing led by coverage: `python -m sfcdc_assets_tests.fuzz TARGET`, or `make fuzz` for each of them.

What follows `TARGET` goes to libFuzzer: `-runs=1000000`, `-max_total_time=600`, `-seed=1`. Inputs that reach new code
go to build/fuzz/TARGET, one that fails to build/fuzz; one that is worth keeping belongs into corpus/TARGET.

More than `ROUND` runs are made by one process after another, each with the next seed and what the ones before have
found: instrumented code keeps some kilobytes of each array that it works on, which the parser by itself does not, and
libFuzzer ends a process of 2 GB.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import atheris

OUT = Path("build/fuzz")
ROUND = 500_000


def main() -> None:
    """Fuzz one target until it fails, or until libFuzzer's options say that it is enough."""
    name, *options = sys.argv[1:]
    wanted = dict(option.split("=", 1) for option in options if "=" in option)
    runs, seed = int(wanted.get("-runs", -1)), int(wanted.get("-seed", 1))
    if runs <= ROUND:
        _fuzz(name, options)
    others = [option for option in options if not option.startswith(("-runs=", "-seed="))]
    for number, made in enumerate(range(0, runs, ROUND)):
        numbers = [f"-runs={min(ROUND, runs - made)}", f"-seed={seed + number}"]
        code = subprocess.run([sys.executable, "-m", __package__, name, *others, *numbers], check=False).returncode
        if code:
            sys.exit(code)


def _fuzz(name: str, options: list[str]) -> None:
    """Fuzz in this process, which ends with it."""
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
