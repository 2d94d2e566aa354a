"""A story: one org and its pipeline for all tests of a module. It is played once, each test looks at one thing in it.

Most of what a sync costs is the same however much happened in the org, so much is let happen before each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.tables import open_suspect
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import (
    CHANNEL,
    EmulatedPipeline,
    Rows,
    assert_same_rows,
    expected_rows,
)
from sfcdc_assets_tests.pipeline.fixtures import SPARK_OF_TESTS, new_org, only_settings_of_tests, served

VISIBILITY_SECONDS = "0.2"
RETRIEVE = "/composite/sobjects"
BULK = "/jobs/query"

_VERSION = re.compile(r"^/services/data/v[0-9.]+")

Entry = dict[str, Any]
"""A row of a reconciliation ledger."""


@contextmanager
def story(folder: Path, entities: Sequence[str], *, records: int = 12, seed: int = 23) -> Iterator[EmulatedPipeline]:
    """A pipeline over a new org, that was never run."""
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        folder.mkdir(parents=True, exist_ok=True)
        patch.chdir(folder)
        with served(new_org(folder / "org", entities, records, seed), folder / "org", patch) as pipeline:
            go_on(pipeline, patch)
            yield pipeline


def go_on(pipeline: EmulatedPipeline, patch: pytest.MonkeyPatch) -> None:
    """Settle a test in the story: its settings are in the environment, no fault is armed, and an entry is read back as
    soon as its event is 0.2 s old, and again without a pause after a failure."""
    settings = {**SPARK_OF_TESTS, **pipeline.server.client_environment(), "SFCDC_WAREHOUSE": str(pipeline.warehouse)}
    for name, value in {**settings, "SFCDC_VISIBILITY_SECONDS": VISIBILITY_SECONDS}.items():
        patch.setenv(name, value)
    patch.setattr(open_suspect, "FIRST_PAUSE_MS", 0)
    pipeline.server.faults.disarm()
    pipeline.server.rest_faults.disarm()


def gap(pipeline: EmulatedPipeline, entity: str, record_id: str, **values: object) -> None:
    """Make an update of which the stream says only that it happened."""
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    with pipeline.org.transaction() as one:
        one.update(entity, record_id, values)


def ledger(pipeline: EmulatedPipeline, *entities: str) -> list[Entry]:
    """All entries of the ledgers, with their `entity`, in the order of the positions they were opened at."""
    found = []
    for entity in entities or pipeline.org.selected_entities:
        if (pipeline.warehouse / "gap_reconciliation" / entity).exists():
            found += [{"entity": entity, **row} for row in pipeline.scan(f"gap_reconciliation/{entity}")]
    return sorted(found, key=lambda entry: (entry["opened_position"], entry["entity"], entry["record_id"]))


def unhealed(pipeline: EmulatedPipeline, *entities: str) -> list[Entry]:
    """The entries that are open."""
    return [entry for entry in ledger(pipeline, *entities) if entry["status"] == "open"]


def assert_equal_but_for(pipeline: EmulatedPipeline, entity: str, gone: Sequence[str]) -> None:
    """The table equals the org; of the records `gone` for good it keeps a row that says so."""
    found, expected = pipeline.rows(entity), expected_rows(pipeline.org, entity)
    assert not set(gone) & expected.keys()
    for record_id in gone:
        assert found.pop(record_id)["_is_deleted"], (entity, record_id)
    assert_same_rows(entity, found, expected)


def waits(rows: Rows) -> set[str]:
    """Ids of the rows that are marked as suspect."""
    return {record_id for record_id, row in rows.items() if row["_in_doubt"]}


def land_a_piece(pipeline: EmulatedPipeline, events: int, channel: str = CHANNEL) -> LandingReport:
    """Land so many delivered events and no more: the stream falls silent after them, and the reading ends. The next
    one is of another subscription, which begins at the durable place."""
    settings = load_settings()
    pipeline.server.faults.disarm()
    pipeline.server.faults.arm(Fault.STREAM_PAUSE, after=events, seconds=60)
    with connect(settings) as org, Poller(Warehouse(settings.warehouse), org, settings.settle_seconds, POLL) as poller:
        report = poller.land(channel)
    pipeline.server.faults.disarm()
    return report


def make_channel(name: str, members: Mapping[str, Sequence[str]]) -> None:
    """Make a custom channel as an admin does; `members`: change event -> enriched fields."""
    with connect(load_settings()) as connected:

        def post(resource: str, full_name: str, metadata: dict[str, Any]) -> None:
            body = {"FullName": full_name, "Metadata": metadata}
            assert connected.session.request("POST", f"tooling/sobjects/{resource}", json=body)["success"]

        post("PlatformEventChannel", name, {"channelType": "data", "label": name})
        for event, fields in members.items():
            enriched = [{"name": field} for field in fields]
            member = {"eventChannel": name, "selectedEntity": event, "enrichedFields": enriched}
            post("PlatformEventChannelMember", f"{name}_{event}".replace("__", "_"), member)


class Requests:
    """The REST requests that reach an org, as `POST /composite/sobjects/Account`, from now on, without those of the
    rolling audit, which is off."""

    def __init__(self, server: EmulatorServer, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("SFCDC_AUDIT_PERCENT", "0")
        self.seen: list[str] = []
        take = server.rest_faults.take

        def noted(method: str, path: str) -> Any:
            self.seen.append(f"{method} {_VERSION.sub('', path)}")
            return take(method, path)

        patch.setattr(server.rest_faults, "take", noted)

    def take_all(self) -> list[str]:
        """What came since the last call."""
        seen, self.seen[:] = list(self.seen), []
        return seen
