"""The status as metrics, read by prometheus_client's own parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from sfcdc_assets.status.metrics import metrics_text
from sfcdc_assets.status.status_report import (
    AllowanceStatus,
    ChannelStatus,
    CutStatus,
    DamageStatus,
    EntityStatus,
    EventTableStatus,
    LostCheckpointStatus,
    PrivacyStatus,
    RequestStatus,
    TableSize,
    WarehouseStatus,
)

CHANNEL = "/data/ChangeEvents"
MOMENT, SECONDS = "2026-11-24T15:00:00+00:00", 1_795_532_400.0
LAYERS = ("snapshot", "text_fields", "gap_reconciliation", "history", "current_state")
SIZES = {layer: TableSize(10, 2, 1_000) for layer in LAYERS}

ACCOUNT = EntityStatus(
    "Account",
    rows=12,
    deleted=2,
    suspects=3,
    channel=CHANNEL,
    applied=40,
    open_suspects={"GAP_UPDATE": 2, "wildcard": 1},
    last_audit=MOMENT,
    waiting_events=5,
    lag_seconds=61.5,
    sizes=SIZES,
)
CONTACT = replace(ACCOUNT, entity="Contact", open_suspects={}, waiting_events=0, lag_seconds=0.0, up_to_date=True)
LOST = LostCheckpointStatus("expired", 20, None, MOMENT, bridged=False, waiting=("Account",))
STATUS = WarehouseStatus(
    "warehouse",
    "00D",
    (
        ChannelStatus(
            CHANNEL,
            position=45,
            complete_position=44,
            landed_at=MOMENT,
            read_at=MOMENT,
            repeated_deliveries=7,
            pending=1,
            lost_checkpoints=(LOST, replace(LOST, bridged=True)),
        ),
        ChannelStatus("/event/Order__e"),
    ),
    (ACCOUNT, CONTACT),
    PrivacyStatus(),
    {"Contact": "why"},
    4,
    (DamageStatus("history/Account", "Account", None, "is damaged"),),
    event_tables=(EventTableStatus("/event/Order__e", "platform_events", 9, 1),),
    waiting={"Lead": None},
    cuts={CHANNEL: CutStatus(44, MOMENT, MOMENT, 1)},
    cuts_kept=6,
    allowances={"DailyApiRequests": AllowanceStatus(15_000, 14_900, MOMENT)},
    raw_events=TableSize(45, 3, 5_000),
    at=MOMENT,
    requests={"polls": RequestStatus(31, ("Asset", "Lead"), "the share is used up", MOMENT)},
    without_asset=("Lead",),
)

Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(series: Series, name: str, **labels: str) -> float | None:
    return series.get((f"sfcdc_{name}", frozenset(labels.items())))


def test_every_figure_of_the_report_is_a_series() -> None:
    found = read(metrics_text(STATUS))
    of_channel = {
        "channel_position": 45.0,
        "channel_complete_position": 44.0,
        "channel_last_read_timestamp_seconds": SECONDS,
        "channel_last_landed_timestamp_seconds": SECONDS,
        "channel_pending_events": 1.0,
        "channel_lag_seconds": 61.5,
        "channel_lost_checkpoints_total": 2.0,
        "channel_unbridged_lost_checkpoints": 1.0,
        "channel_repeated_deliveries_total": 7.0,
        "cut_position": 44.0,
        "cut_reached_timestamp_seconds": SECONDS,
        "cut_lagging_entities": 1.0,
    }
    assert {name: value(found, name, channel=CHANNEL) for name in of_channel} == of_channel
    of_entity = {
        "entity_rows": 12.0,
        "entity_deleted_rows": 2.0,
        "entity_suspect_rows": 3.0,
        "entity_waiting_events": 5.0,
        "entity_lag_seconds": 61.5,
        "entity_up_to_date": 0.0,
        "entity_refused_reads": 0.0,
        "entity_files": 10.0,
        "entity_bytes": 5_000.0,
        "entity_last_audit_timestamp_seconds": SECONDS,
    }
    assert {name: value(found, name, entity="Account") for name in of_entity} == of_entity
    assert value(found, "suspects", entity="Account", reason="GAP_UPDATE") == 2.0
    assert (
        value(found, "entity_up_to_date", entity="Contact"),
        value(found, "entity_refused_reads", entity="Contact"),
    ) == (1, 1)
    assert [value(found, f"layer_{name}", layer="history") for name in ("rows", "files", "bytes")] == [20, 4, 2_000]
    assert value(found, "layer_rows", layer="raw_events") == 45
    allowance = {"maximum": 15_000, "remaining": 14_900, "used": 100, "asked_timestamp_seconds": SECONDS}
    assert {name: value(found, f"allowance_{name}", allowance="DailyApiRequests") for name in allowance} == allowance
    requests = {"24_hours": 31, "waiting_objects": 2}
    assert {name: value(found, f"requests_{name}", purpose="polls") for name in requests} == requests
    of_warehouse = {
        "cuts": 6,
        "quarantined_events": 4,
        "damaged_tables": 1,
        "entities_waiting": 1,
        "entities_without_asset": 1,
        "status_timestamp_seconds": SECONDS,
    }
    assert {name: value(found, name) for name in of_warehouse} == of_warehouse
    assert value(found, "event_table_rows", channel="/event/Order__e") == 9
    assert value(found, "event_table_problems", channel="/event/Order__e") == 1


def test_what_is_not_known_has_no_series() -> None:
    found = read(metrics_text(replace(STATUS, entities=(replace(ACCOUNT, lag_seconds=None, last_audit=None),))))
    assert value(found, "entity_lag_seconds", entity="Account") is None
    assert value(found, "channel_lag_seconds", channel=CHANNEL) is None
    assert value(found, "entity_last_audit_timestamp_seconds", entity="Account") is None
    assert value(found, "channel_last_read_timestamp_seconds", channel="/event/Order__e") is None


def test_the_values_of_labels_are_escaped_and_no_text_of_an_error_is_among_them() -> None:
    name = 'a"b\\c\nsfcdc_cuts 99 é'
    found = read(metrics_text(replace(STATUS, entities=(replace(ACCOUNT, entity=name),)), org="emea"))
    assert value(found, "entity_rows", entity=name, org="emea") == 12
    assert value(found, "cuts", org="emea") == 6
    text = metrics_text(STATUS)
    assert not any(reported in text for reported in ("expired", "why", "is damaged"))


def test_500_entities_are_some_thousand_series_and_the_number_does_not_depend_on_what_they_hold() -> None:
    few = tuple(replace(ACCOUNT, entity=f"Object{number}__c") for number in range(500))
    many = tuple(replace(each, rows=10**9, waiting_events=10**6) for each in few)
    found = read(metrics_text(replace(STATUS, entities=few)))
    assert len(found) == len(read(metrics_text(replace(STATUS, entities=many)))) < 15 * 500
