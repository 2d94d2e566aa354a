"""The org as a Dagster resource."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from sfcdc_assets.config import load_settings
from sfcdc_assets.pipeline.org import Org, connect


class OrgResource(dg.ConfigurableResource):
    """The org of the SFCDC_* settings. It has no configuration of its own, so no secret can be shown in the UI."""

    @contextmanager
    def connect(self) -> Iterator[Org]:
        """An open session, closed at the end."""
        with connect(load_settings()) as org:
            yield org
