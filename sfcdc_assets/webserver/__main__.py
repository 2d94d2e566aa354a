"""Start Dagster's webserver with the guard: `python -m sfcdc_assets.webserver`, options of `dagster-webserver`.

`--allow-host NAME` (may be repeated) names a host under which people reach it besides this machine's own names, for
instance that of the company's proxy. `python -m sfcdc_assets.webserver dev ...` is `dagster dev` with this webserver;
with `--parent PID` first it ends, and all that it started with it, when that process is not its parent any more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from subprocess import Popen
from typing import Any

import click
from dagster._cli import dev, main

from sfcdc_assets.webserver.same_origin import LOOPBACK

LOOK_SECONDS = 2.0
"""How often it is looked whether the parent is still there."""


def _webserver() -> None:
    """Dagster has no setting for the class of its webserver; its factory takes the one that its module names."""
    # Not for `dev`, which starts this in another process: it takes seconds, and all else waits for `dev`.
    from dagster_webserver import app  # noqa: PLC0415
    from dagster_webserver.cli import create_dagster_webserver_cli  # noqa: PLC0415

    from sfcdc_assets.webserver.guarded import guarded_webserver  # noqa: PLC0415

    def allow(_context: click.Context, _option: click.Parameter, names: Sequence[str]) -> None:
        app.DagsterWebserver = guarded_webserver({*LOOPBACK, *names})  # type: ignore[attr-defined]

    command = create_dagster_webserver_cli()  # type: ignore[no-untyped-call]
    command.params.append(
        click.Option(
            ["--allow-host"],
            multiple=True,
            metavar="NAME",
            expose_value=False,
            callback=allow,
            help="Answer requests to this host name too, besides those of this machine.",
        )
    )
    command(auto_envvar_prefix="DAGSTER_WEBSERVER")


def _dev() -> None:
    """`dagster dev` starts `python -m dagster_webserver`; here it starts this module in its place."""
    if sys.argv[2:3] == ["--parent"]:
        parent = int(sys.argv[3])
        del sys.argv[2:4]
        threading.Thread(target=_end_without, args=(parent,), name="look for the parent", daemon=True).start()
    start = dev.open_ipc_subprocess  # type: ignore[attr-defined]

    def start_guarded(parts: Sequence[str], **kwargs: Any) -> Popen[Any]:
        return start(["sfcdc_assets.webserver" if part == "dagster_webserver" else part for part in parts], **kwargs)

    dev.open_ipc_subprocess = start_guarded  # type: ignore[attr-defined]
    main()  # type: ignore[no-untyped-call]


def _end_without(parent: int) -> None:
    """Kill this process and its group when its parent is gone: killed, it could not do that itself, and daemon and runs
    would go on beside those of the next start. A run that is killed leaves tables that the next one completes."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(LOOK_SECONDS)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["dev"]:
        _dev()
    else:
        _webserver()
