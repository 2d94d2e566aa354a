"""The console script: Ctrl-C and SIGTERM are answered before anything that takes time is imported."""

from __future__ import annotations

import atexit
import gc
import sys

from sfcdc_assets.cli.terminal.stopping import stop_on_signals
from sfcdc_assets.runtime.native_memory import keep_native_memory_small


def main() -> None:
    """Run the `sfcdc` command."""
    stop_on_signals()
    keep_native_memory_small()
    atexit.register(_leave_memory)
    from sfcdc_assets.cli.main import app  # noqa: PLC0415 - takes seconds
    from sfcdc_assets.cli.terminal.output import show_exceptions_as_text  # noqa: PLC0415

    show_exceptions_as_text()

    app(prog_name="sfcdc")  # the name in help and in completions, also under `python -m`


def _leave_memory() -> None:
    """End the process: its memory need not be searched for cycles first, for 0.1 s. With DuckDB it is: the library its
    Python module is made with (nanobind) reports on standard error what was not freed."""
    if "duckdb" not in sys.modules:
        gc.freeze()


if __name__ == "__main__":
    main()
