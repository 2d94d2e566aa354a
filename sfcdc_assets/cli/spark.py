"""`sfcdc spark`: a Spark that stays, for the commands and runs of this machine to share."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.stopping import before_stopping, stops_at_once
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark import standing
from sfcdc_assets.spark.server import listening, watch
from sfcdc_assets.spark.warm_up import prepare
from sfcdc_assets.spark.worker_archive import pack
from sfcdc_assets.spark.worker_archive import settings as pack_settings


@stops_at_once
def spark(
    *,
    prepares: Annotated[bool, typer.Option("--prepare", help="Record the classes that Spark loads, and end.")] = False,
    archive: Annotated[
        Path | None,
        typer.Option("--pack", metavar="FILE", help="Write what tasks import into an archive for a cluster, and end."),
    ] = None,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Keep a Spark running that `sfcdc sync` and Dagster's runs on this machine share.

    It saves each of them the start of a Java process. They find it by the file SFCDC_SPARK_STANDING, and do without
    when it is not there, or has other code or options than they. It listens on the loopback interface only, and asks
    for a token that stands in the file. Exit code 1 when Spark ends by itself, or when the code has changed: for a
    service that is started again then. `sfcdc dev` has one of its own, and so has a code location of Dagster for which
    neither SFCDC_SPARK_STANDING nor SFCDC_SPARK_REMOTE is set.

    `--prepare` makes every later start of a Spark on this machine take half as long: it records once what its Java
    process loads, 160 MB beside the Python environment. For the building of an image, or after an installation.

    `--pack` is for a cluster whose workers do not have this package: the archive is shipped with each session. Prints
    the settings for that, to be put into the environment or `.env`.
    """
    settings = load_settings(of_all=True)
    if archive is not None:
        size = pack(archive)
        say(f"{archive} has what tasks import, {size / 1e6:.0f} MB. A session ships it with these settings:", err=True)
        for name, value in pack_settings(archive).items():
            say(f"{name}={value}")
        return
    if prepares:
        say(f"Spark's classes are recorded in {prepare(settings)}.", err=True)
        return
    if settings.spark_remote:
        raise SettingsError("SFCDC_SPARK_REMOTE", "names a server already", "Unset it, or do without `sfcdc spark`")
    path = settings.spark_standing
    with before_stopping(lambda: standing.forget(path, os.getpid())), listening(settings) as session:
        say(f"Spark is ready and noted in {path}{' (Ctrl-C ends it)' * (parent is None)}.", err=True)

        def is_left_alone(seconds: float) -> bool:
            threading.Event().wait(seconds)
            return parent is not None and os.getppid() != parent

        watch(session, settings, is_left_alone)
