"""The tutorial, run from its own text: what a reader would type, in two terminals, with the time that each step takes.

`python -m sfcdc_assets_tests.docs.tutorial` clones the repository into a new folder, runs every block of
docs/tutorial.md there, the installation and `make demo` included, and prints a transcript with times. A block with
`terminal=2` goes on in the background until the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sfcdc_assets_tests.documentation import ROOT, CodeBlock, code_blocks
from sfcdc_assets_tests.eventually import BOUND_SECONDS

PAGE = ROOT / "docs" / "tutorial.md"
READY = "Use it:"
"""What the org prints when it can be used."""
SECONDS = 1800
"""The most that a block may take, the installation included."""
_END = "sfcdc-tutorial-block-ends"


@dataclass(frozen=True)
class Step:
    """A block that ran, what it printed, and how long it took."""

    block: CodeBlock
    output: str
    seconds: float


class BlockFailed(Exception):
    """A block of the tutorial ended with an error, or did not end in time."""

    def __init__(self, block: CodeBlock, output: str) -> None:
        self.block, self.output = block, output
        super().__init__(f"{block} failed:\n{block.text}\n{output[-4000:]}")


def blocks() -> list[CodeBlock]:
    """What the tutorial has the reader type, in order."""
    return [block for block in code_blocks(PAGE) if block.language == "sh"]


def walk_through(chosen: Sequence[CodeBlock], folder: Path, environment: Mapping[str, str]) -> Iterator[Step]:
    """Run the blocks in the folder, one after another in one shell. Raises `BlockFailed`."""
    with ExitStack() as stack:
        shell = stack.enter_context(_shell(folder, environment))
        for block in chosen:
            started = time.monotonic()
            if block.options.get("terminal") == "2":
                output = stack.enter_context(_in_the_background(block, folder, environment))
            else:
                output = _run(shell, block)
            yield Step(block, output, time.monotonic() - started)


@contextmanager
def _shell(folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A shell that ends at the first error, as the output then does."""
    arguments = ["bash", "-eu", "-o", "pipefail"]
    with _process(arguments, folder, environment, subprocess.PIPE) as shell:
        yield shell


def _run(shell: subprocess.Popen[str], block: CodeBlock) -> str:
    assert shell.stdin is not None
    assert shell.stdout is not None
    lines: list[str] = []
    timer = threading.Timer(SECONDS, shell.kill)
    timer.start()
    try:
        # Commands do not read what the shell is to read; what they print last may lack its line end.
        shell.stdin.write(f"{{\n{block.text}}} </dev/null\nprintf '\\n%s\\n' {_END}\n")
        shell.stdin.flush()
        for line in shell.stdout:
            if line.strip() == _END:
                return "".join(lines).removesuffix("\n")
            lines.append(line)
    finally:
        timer.cancel()
    raise BlockFailed(block, "".join(lines))


@contextmanager
def _in_the_background(block: CodeBlock, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Runs until the end of the tutorial; what it printed until it was ready."""
    # The shell's place is taken by its last command, so that this gets the signal.
    *before, last = block.text.strip().splitlines()
    arguments = ["bash", "-eu", "-c", "\n".join([*before, f"exec {last}"])]
    with _process(arguments, folder, environment, subprocess.DEVNULL) as process:
        assert process.stdout
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(READY):
                break
        else:
            raise BlockFailed(block, "".join(lines))
        rest = threading.Thread(target=process.stdout.read, daemon=True)
        rest.start()
        try:
            yield "".join(lines)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(BOUND_SECONDS)
            rest.join(BOUND_SECONDS)


@contextmanager
def _process(
    arguments: list[str], folder: Path, environment: Mapping[str, str], stdin: int | IO[str]
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env=dict(environment),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.stdin:
                process.stdin.close()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def clean_environment() -> dict[str, str]:
    """That of a reader who has set nothing."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_", "PYTHON"))}


def _transcript() -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "sfcdc_assets"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        print(f"{time.monotonic() - started:7.1f} s  git clone", flush=True)
        for step in walk_through(blocks(), clone, clean_environment()):
            print(f"\n{step.seconds:7.1f} s  {step.block}", flush=True)
            for line in step.block.text.strip().splitlines():
                print(f"           $ {line}")
            for line in step.output.rstrip().splitlines():
                print(f"           {line}")
        print(f"\n{time.monotonic() - started:7.1f} s  in all", flush=True)


if __name__ == "__main__":
    sys.exit(_transcript())
