"""Serve the code location: `python -m sfcdc_assets.code_server --port 4000`, with the options of `dagster api grpc`.

`dagster code-server start` keeps the code in a second process, and when that one dies, the first lives on and answers
health checks, while no sensor is evaluated any more. Here it is one process, whose death ends its container, and
SIGTERM ends it and its runs within ten seconds (`ending`). `--check` asks a running one for what it serves (`health`).
"""

from __future__ import annotations

import os
import signal
import sys

from sfcdc_assets.runtime.native_memory import keep_native_memory_small

DEFAULTS = ("--module-name", "sfcdc_assets.definitions", "--location-name", "sfcdc_assets")
GRACE_SECONDS = 2
"""How long calls that are under way may take when it ends, a tick of a sensor among them."""


def main() -> None:
    """Serve, or check."""
    arguments = sys.argv[1:]
    if "--check" in arguments:
        from sfcdc_assets.code_server.health import check  # noqa: PLC0415 - it is asked often, and needs little

        sys.exit(check([each for each in arguments if each != "--check"]))
    keep_native_memory_small()
    from dagster._cli.api import grpc_command  # noqa: PLC0415
    from dagster._grpc import server  # noqa: PLC0415

    from sfcdc_assets.code_server.ending import EndingServer  # noqa: PLC0415
    from sfcdc_assets.runtime.json_logs import OURS, write_logs_as_json  # noqa: PLC0415
    from sfcdc_assets.settings.setting_values import ORG, environment, values_of  # noqa: PLC0415

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in the background of a shell script. Dagster does on SIGTERM what it does on SIGINT: nothing.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("DAGSTER_GRPC_SHUTDOWN_GRACE_PERIOD", str(GRACE_SECONDS))
    server.DagsterApiServer = EndingServer  # type: ignore[misc]  # the command takes the one that the module names
    given = environment()
    if values_of(given.get(ORG), given, ["log_format"]).get("log_format") == "json":
        write_logs_as_json(of=OURS, org=given.get(ORG))
        arguments = ["--log-format", "json", *arguments]  # of Dagster's own loggers; the last one that is given counts
    # What the module raises at its import is then answered to who asks, so that the UI shows it.
    grpc_command([*DEFAULTS, "--lazy-load-user-code", *arguments])


if __name__ == "__main__":
    main()
