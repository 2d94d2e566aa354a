"""Several channels: custom ones made by the Tooling API, one object on two of them, and settings that change later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.config import load_settings
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.pipeline.org import connect
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import go_on, story, unhealed

SEED = 61
SALES = "/data/Sales__chn"


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Sales__chn has Account, enriched, and Case, which no other channel has; ChangeEvents has Account and Contact."""
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("channels"), ["Account", "Contact"], records=8, seed=SEED) as pipeline:
        make_channel("Sales__chn", {"AccountChangeEvent": ["Name", "Site", "BillingAddress"], "CaseChangeEvent": []})
        with pytest.MonkeyPatch.context() as patch:
            channels(patch, SALES, CHANNEL)
            pipeline.sync()
        yield pipeline


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    go_on(shared, monkeypatch)
    channels(monkeypatch, SALES, CHANNEL)
    return shared


def channels(patch: pytest.MonkeyPatch, *names: str) -> None:
    patch.setenv("SFCDC_CHANNELS", ",".join(names))


def make_channel(name: str, members: dict[str, Sequence[str]]) -> None:
    """As an admin makes it."""
    with connect(load_settings()) as connected:

        def post(resource: str, full_name: str, metadata: dict[str, Any]) -> None:
            body = {"FullName": full_name, "Metadata": metadata}
            assert connected.session.request("POST", f"tooling/sobjects/{resource}", json=body)["success"]

        post("PlatformEventChannel", name, {"channelType": "data", "label": name})
        for event, fields in members.items():
            enriched = [{"name": field} for field in fields]
            member = {"eventChannel": name, "selectedEntity": event, "enrichedFields": enriched}
            post("PlatformEventChannelMember", f"{name}_{event}".replace("__", "_"), member)


def update(pipeline: EmulatedPipeline, *record_ids: str, **values: object) -> None:
    with pipeline.org.transaction() as one:
        for record_id in record_ids:
            one.update("Account", record_id, values)


def lose(pipeline: EmulatedPipeline, record_id: str, **values: object) -> None:
    """A change of which no event tells."""
    pipeline.server.faults.arm(Fault.LOST_EVENT)
    update(pipeline, record_id, **values)


def assert_equal(pipeline: EmulatedPipeline) -> None:
    pipeline.assert_equal_to_the_org(["Account", "Contact", "Case"])
    assert unhealed(pipeline, "Account", "Contact", "Case") == []


def test_an_object_on_two_channels_is_applied_once_and_follows_the_settings_when_they_change(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions of two channels have nothing to do with each other. Those of ChangeEvents are far ahead here."""
    drifted, other, third = ids(org.org, "Account")[:3]
    for number in range(5):
        with org.org.transaction() as one:
            one.update("Contact", ids(org.org, "Contact")[number], {"Title": "puts this channel ahead"})
    update(org, drifted, Site="first")
    lose(org, drifted, Site="nobody told of this")
    update(org, drifted, other, Industry="Energy")
    org.sync()
    assert org.rows("Account")[drifted]["Site"] == "nobody told of this"
    assert_equal(org)

    channels(monkeypatch, CHANNEL, SALES)  # applies "first" again, if positions are mixed
    update(org, third, Site="after the first change of settings")
    org.sync()
    assert_equal(org)

    channels(monkeypatch, SALES)  # takes its positions for those of long ago, if they are mixed
    update(org, third, Site="after the second")
    update(org, other, Site="after the second too")
    org.sync()
    org.assert_equal_to_the_org(["Account", "Case"])
