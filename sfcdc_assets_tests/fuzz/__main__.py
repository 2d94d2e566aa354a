"""Fuzzing led by coverage: `python -m sfcdc_assets_tests.fuzz TARGET`, or `make fuzz` for each of them.

What follows `TARGET` goes to libFuzzer: `-runs=1000000`, `-max_total_time=600`, `-seed=1`. Inputs that reach new code
go to build/fuzz/TARGET, one that fails to build/fuzz; give that a name in corpus/TARGET. `TARGET --keep` keeps as few
of the others as reach the same code, for the tests and for the next search (`corpus`).

More than `ROUND` runs are made by one process after another, each with the next seed and what the ones before have
found: instrumented code keeps some kilobytes of each array that it works on, which the parser by itself does not, and
libFuzzer ends a process of 2 GB.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import NoReturn

import atheris

from sfcdc_assets_tests.fuzz.corpus import CORPUS, keep, unpack

OUT = Path("build/fuzz")
ROUND = 500_000


def main() -> None:
    """Fuzz one target until it fails, or until libFuzzer's options say that it is enough."""
    name, *options = sys.argv[1:]
    (OUT / name).mkdir(parents=True, exist_ok=True)
    unpack(name, OUT / name)
    if options == ["--keep"]:
        _keep(name)
        return
    wanted = dict(option.split("=", 1) for option in options if "=" in option)
    runs, seed = int(wanted.get("-runs", -1)), int(wanted.get("-seed", 1))
    if runs <= ROUND:
        _fuzz(name, options)
    others = [option for option in options if not option.startswith(("-runs=", "-seed="))]
    for number, made in enumerate(range(0, runs, ROUND)):
        numbers = [f"-runs={min(ROUND, runs - made)}", f"-seed={seed + number}"]
        code = subprocess.run([_program(name), *others, *numbers], check=False).returncode
        if code:
            sys.exit(code)


def _fuzz(name: str, options: list[str]) -> NoReturn:
    """Fuzz in this process, which ends with it. Without folders among the options, in those of the target."""
    with atheris.instrument_imports(
        include=["sfcdc_assets", "json", "tomllib"], exclude=["sfcdc_assets.streams.pubsub.proto"]
    ):
        from sfcdc_assets_tests.fuzz.targets import SECONDS, TARGETS  # noqa: PLC0415 - instrumented
    given = [f"-artifact_prefix={OUT}/{name}-", f"-timeout={SECONDS:.0f}", "-max_len=4096", *options]
    if all(option.startswith("-") for option in options):
        given += [str(OUT / name), str(CORPUS / name)]
    atheris.Setup([_program(name), *given], TARGETS[name])
    atheris.Fuzz()
    raise AssertionError("libFuzzer ends its process")


def _keep(name: str) -> None:
    """Have libFuzzer choose those that are needed."""
    with TemporaryDirectory() as needed:
        subprocess.run([_program(name), "-merge=1", needed, str(CORPUS / name), str(OUT / name)], check=True)
        chosen = [file.read_bytes() for file in Path(needed).iterdir()]
    keep(name, chosen)
    print(f"{len(chosen)} inputs are kept in {CORPUS / name}.found")


def _program(name: str) -> str:
    """Path of a program that fuzzes the target: libFuzzer starts itself again by one."""
    path = OUT.absolute() / f"{name}.sh"
    path.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -m {__package__} {name} "$@"\n')
    path.chmod(0o700)
    return str(path)


if __name__ == "__main__":
    main()
