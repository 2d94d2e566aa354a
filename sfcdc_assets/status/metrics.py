"""The status as metrics, in the text form of Prometheus: the same report, counted nowhere else.

There are about ten series an entity, and none that grows with records, with events or with time: 500 entities are some
5,000 series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sfcdc_assets.lake.tables.raw_events import NAME as RAW_EVENTS
from sfcdc_assets.status.status_report import ChannelStatus, EntityStatus, TableSize, WarehouseStatus

Number = float | int | bool | None
Samples = Iterable[tuple[tuple[str, ...], Number]]
"""Values of labels, and the value; None for one that is not known, which is left out."""


def metrics_text(status: WarehouseStatus, org: str | None = None) -> str:
    """Return the status in the text form of Prometheus, version 0.0.4. `org`: the name of the org, where there are
    several; it is a label of every series."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Report(status, org))
    return generate_latest(registry).decode()


class _Report(Collector):
    def __init__(self, status: WarehouseStatus, org: str | None) -> None:
        self._status = status
        self._org = {} if org is None else {"org": org}

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each metric."""
        yield from self._of_channels()
        yield from self._of_entities()
        yield from self._of_the_warehouse()

    def _of_channels(self) -> Iterator[Metric]:
        status = self._status

        def each(value: Callable[[ChannelStatus], Number]) -> Samples:
            return (((channel.channel,), value(channel)) for channel in status.channels)

        def gauge(name: str, text: str, value: Callable[[ChannelStatus], Number]) -> Metric:
            return self._gauge(f"channel_{name}", text, each(value), "channel")

        yield gauge("position", "Position of the last landed event.", lambda of: of.position)
        yield gauge("complete_position", "Up to here transactions are complete.", lambda of: of.complete_position)
        yield gauge("last_read_timestamp_seconds", "When it was last read, to a minute.", lambda of: _at(of.read_at))
        yield gauge("last_landed_timestamp_seconds", "When it was last landed.", lambda of: _at(of.landed_at))
        yield gauge("pending_events", "Delivered events that could not be landed yet.", lambda of: of.pending)
        yield gauge("lag_seconds", "The longest lag of its entities.", lambda of: _lag(status, of.channel))
        yield gauge(
            "unbridged_lost_checkpoints",
            "Lost checkpoints whose entities were not all read again.",
            lambda of: sum(not lost.bridged for lost in of.lost_checkpoints),
        )
        yield self._counter(
            "channel_lost_checkpoints",
            "Checkpoints that the org refused, ever.",
            each(lambda of: len(of.lost_checkpoints)),
            "channel",
        )
        yield self._counter(
            "channel_repeated_deliveries",
            "Deliveries that the org charged for events which had come before.",
            each(lambda of: of.repeated_deliveries),
            "channel",
        )
        cuts = {(channel,): cut for channel, cut in status.cuts.items()}
        yield self._gauge(
            "cut_position", "Of the newest consistent cut.", ((of, cut.position) for of, cut in cuts.items()), "channel"
        )
        yield self._gauge(
            "cut_reached_timestamp_seconds",
            "When the newest consistent cut was reached: the last run that went well.",
            ((of, _at(cut.applied_at)) for of, cut in cuts.items()),
            "channel",
        )
        yield self._gauge(
            "cut_lagging_entities",
            "Entities that lag behind the newest consistent cut.",
            ((of, cut.lagging) for of, cut in cuts.items()),
            "channel",
        )

    def _of_entities(self) -> Iterator[Metric]:
        entities, refused = self._status.entities, self._status.refused_reads

        def gauge(name: str, text: str, value: Callable[[EntityStatus], Number]) -> Metric:
            return self._gauge(f"entity_{name}", text, (((of.entity,), value(of)) for of in entities), "entity")

        yield gauge("rows", "Records in its table, deleted ones too.", lambda of: of.rows)
        yield gauge("deleted_rows", "Of these, records that are deleted.", lambda of: of.deleted)
        yield gauge("suspect_rows", "Of these, records that are suspect.", lambda of: of.suspects)
        yield gauge("waiting_events", "Landed events that are not applied.", lambda of: of.waiting_events)
        yield gauge("lag_seconds", "Since the oldest of them was committed in the org.", lambda of: of.lag_seconds)
        yield gauge(
            "up_to_date",
            "1 if something feeds it, and all that has landed is applied.",
            lambda of: of.up_to_date,
        )
        yield gauge(
            "refused_reads", "1 if a read of the org was refused or not believed.", lambda of: of.entity in refused
        )
        yield gauge("damaged_tables", "Tables that cannot be read whole.", lambda of: len(of.damaged))
        yield gauge("files", "Files of all of its tables.", lambda of: _total(of.sizes, lambda size: size.files))
        yield gauge("bytes", "Bytes of all of its tables.", lambda of: _total(of.sizes, lambda size: size.bytes))
        yield gauge("last_audit_timestamp_seconds", "When it was last audited whole.", lambda of: _at(of.last_audit))
        yield gauge(
            "polled_until_timestamp_seconds", "Up to when its polls have seen.", lambda of: _at(of.polled_until)
        )
        yield self._gauge(
            "suspects",
            "Open entries of the reconciliation ledger, where there are any.",
            (((of.entity, reason), count) for of in entities for reason, count in of.open_suspects.items()),
            "entity",
            "reason",
        )

    def _of_the_warehouse(self) -> Iterator[Metric]:
        status = self._status
        layers: dict[str, list[TableSize]] = {} if status.raw_events is None else {RAW_EVENTS: [status.raw_events]}
        for entity in status.entities:
            for layer, size in entity.sizes.items():
                layers.setdefault(layer, []).append(size)
        for name, value in (
            ("rows", lambda size: size.rows),
            ("files", lambda size: size.files),
            ("bytes", lambda size: size.bytes),
        ):
            totals = (((layer,), sum(map(value, sizes))) for layer, sizes in layers.items())
            yield self._gauge(f"layer_{name}", f"{name.capitalize()} of all tables of a layer.", totals, "layer")
        allowances = {(name,): each for name, each in status.allowances.items()}
        for name, text, of in (
            ("maximum", "What the org allows in 24 hours.", lambda each: each.maximum),
            ("remaining", "What of it was left when the org was last asked.", lambda each: each.remaining),
            ("used", "What of it all clients had used then.", lambda each: each.maximum - each.remaining),
            ("asked_timestamp_seconds", "When that was.", lambda each: _at(each.asked_at)),
        ):
            samples = ((labels, of(each)) for labels, each in allowances.items())
            yield self._gauge(f"allowance_{name}", text, samples, "allowance")
        requests = {(purpose,): each for purpose, each in status.requests.items()}
        for name, text, count in (
            ("24_hours", "Our own API requests for a purpose in 24 hours.", lambda each: each.in_24_hours),
            ("waiting_objects", "Objects that wait for more of them.", lambda each: len(each.waiting)),
        ):
            counts = ((labels, count(each)) for labels, each in requests.items())
            yield self._gauge(f"requests_{name}", text, counts, "purpose")
        tables = {(each.channel,): each for each in status.event_tables}
        yield self._gauge(
            "event_table_rows", "Events of a channel of its own.", ((of, t.rows) for of, t in tables.items()), "channel"
        )
        yield self._gauge(
            "event_table_problems",
            "Of these, events with values that fit no column.",
            ((of, t.problems) for of, t in tables.items()),
            "channel",
        )
        yield self._gauge("cuts", "Consistent cuts that can be opened.", [((), status.cuts_kept)])
        yield self._gauge("quarantined_events", "Events that nobody can read.", [((), status.quarantined)])
        yield self._gauge("damaged_tables", "Tables that cannot be read whole.", [((), len(status.damaged))])
        yield self._gauge("entities_waiting", "Entities that wait for a snapshot.", [((), len(status.waiting))])
        yield self._gauge(
            "entities_without_asset", "Entities that have come since Dagster loaded.", [((), len(status.without_asset))]
        )
        yield self._gauge("status_timestamp_seconds", "When this was computed.", [((), _at(status.at))])

    def _gauge(self, name: str, text: str, samples: Samples, *labels: str) -> Metric:
        return self._filled(GaugeMetricFamily(f"sfcdc_{name}", text, labels=[*self._org, *labels]), samples)

    def _counter(self, name: str, text: str, samples: Samples, *labels: str) -> Metric:
        return self._filled(CounterMetricFamily(f"sfcdc_{name}", text, labels=[*self._org, *labels]), samples)

    def _filled(self, family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
        for labels, value in samples:
            if value is not None:
                family.add_metric([*self._org.values(), *labels], float(value))
        return family


def _at(moment: str | None) -> float | None:
    return datetime.fromisoformat(moment).timestamp() if moment else None


def _lag(status: WarehouseStatus, channel: str) -> float | None:
    lags = [each.lag_seconds for each in status.entities if each.channel == channel]
    return max((lag for lag in lags if lag is not None), default=None)


def _total(sizes: Mapping[str, TableSize], of: Callable[[TableSize], int]) -> int:
    return sum(map(of, sizes.values()))
