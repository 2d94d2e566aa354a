"""The console script: Ctrl-C and SIGTERM are answered before anything that takes time is imported."""

from __future__ import annotations

from sfcdc_assets.cli.stopping import stop_on_signals


def main() -> None:
    """The `sfcdc` command."""
    stop_on_signals()
    from sfcdc_assets.cli.main import app  # noqa: PLC0415 - takes seconds

    app()


if __name__ == "__main__":
    main()
