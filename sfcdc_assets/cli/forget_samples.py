"""`sfcdc forget-samples`: values of records that older materializations show in Dagster, deleted."""

from __future__ import annotations

import os

from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.settings.settings import load_settings


class DagsterHomeMissing(SfcdcError):
    """It is not known which Dagster instance is meant."""

    def __init__(self) -> None:
        super().__init__(
            "DAGSTER_HOME is not set, so it is not known whose event log is meant. Set it to the folder that "
            "dagster.yaml lies in; the file that `sfcdc dev` names for another terminal sets it."
        )


@stops_at_once
def forget_samples() -> None:
    """Delete sample rows, which materializations have shown, from Dagster's event log.

    For when SFCDC_SAMPLE_ROWS was set, or a release that always showed ten rows has run: Dagster keeps the newest of
    each partition for ever. Every materialization stays, with its figures. Set SFCDC_SAMPLE_ROWS to 0 first, or the
    next run stores new ones; a warning says so.

    Works on the instance of DAGSTER_HOME and is safe beside its webserver and daemon. PostgreSQL frees the space with
    its next vacuum, and backups keep what they have. Makes no API calls.
    """
    settings = load_settings()
    say(f"Samples deleted from {counted(forget_stored_samples(), 'event')}.")
    if settings.sample_rows:
        say("SFCDC_SAMPLE_ROWS is still set: the next run stores new ones.", err=True)


def forget_stored_samples() -> int:
    """Delete samples from the event log of DAGSTER_HOME; returns from how many events. Raises `DagsterHomeMissing`."""
    if not os.environ.get("DAGSTER_HOME"):
        raise DagsterHomeMissing
    import dagster as dg  # noqa: PLC0415 - the check above answers at once

    from sfcdc_assets.definitions import ASSETS  # noqa: PLC0415
    from sfcdc_assets.orchestration.jobs import ours  # noqa: PLC0415
    from sfcdc_assets.orchestration.jobs.stored_samples import forget_samples_of  # noqa: PLC0415

    with dg.DagsterInstance.get() as instance:
        return forget_samples_of(instance, ours(ASSETS))
