"""Poll and land: from the Subscribe call to committed rows of `raw_events`, at two sizes.

The service does nothing but deliver (`event_server`). Peers are a bare read of the same call, which makes nothing of
what it reads, and the vendor's quick start for Python as it is written: one event at a time, whose schema is asked for
and parsed again for each.
"""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import resource
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import avro.io
import avro.schema
import grpc
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events import read_header
from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.credentials import Credentials
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets.streams.pubsub.transport import PubSubTransport
from sfcdc_assets.timeline.untrusted_rows import VanishLimits
from sfcdc_assets_tests.benchmarks.event_server import Served, event_id, replay_id, served
from sfcdc_assets_tests.benchmarks.interleave import interleaved
from sfcdc_assets_tests.benchmarks.sample_events import SampleEvents, sample_events
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

CHANNEL = "/data/ChangeEvents"
FIELDS = 60
BARE, VENDOR = "bare gRPC read", "the vendor's quick start"
MOST_OUTSTANDING = 100
_CREDENTIALS = Credentials("token", "https://localhost", "00D000000000001AAA")


class _Org(OrgConnection):
    """An org of which only the streams are asked."""

    def describe(self, entity: str) -> None:
        return None

    def delivery_allowance(self) -> Limit | None:
        return None


class _Session:
    organization_id = _CREDENTIALS.tenant_id
    calls = 0


def _org(at: Served) -> OrgConnection:
    def transport(_channel: str) -> PubSubTransport:
        return PubSubTransport(PubSubConnection(at.endpoint, lambda refresh: _CREDENTIALS, at.ca_file))

    session, nothing = cast(Any, _Session()), cast(Any, None)
    return _Org(session, transport(""), NOTHING_PRIVATE, nothing, VanishLimits(1, 1), lambda: None, transport)


def land(at: Served, warehouse: Warehouse) -> int:
    """Land all there is; how many events that were."""
    reader = ChannelReader(warehouse, _org(at), CHANNEL, 10.0)
    count = reader.land(POLL).count
    reader.drop()
    return count


def bare_read(at: Served, count: int) -> int:
    """Read all there is, asking as we ask; how many events."""
    return sum(len(response.events) for response in bare_responses(at, count))


def bare_responses(at: Served, count: int, credentials: Credentials = _CREDENTIALS) -> Iterator[pb.FetchResponse]:
    """The responses that bring the first `count` events of the channel, asked for as we ask."""
    requests: SimpleQueue[pb.FetchRequest | None] = SimpleQueue()
    requests.put(pb.FetchRequest(topic_name=CHANNEL, replay_preset=pb.EARLIEST, num_requested=MOST_OUTSTANDING))
    read, outstanding = 0, MOST_OUTSTANDING
    with _channel(at) as channel:
        call = pb_grpc.PubSubStub(channel).Subscribe(iter(requests.get, None), metadata=credentials.metadata())
        for response in call:
            yield response
            read += len(response.events)
            if read >= count:
                break
            outstanding -= len(response.events)
            if outstanding <= MOST_OUTSTANDING // 2:
                requests.put(pb.FetchRequest(topic_name=CHANNEL, num_requested=MOST_OUTSTANDING - outstanding))
                outstanding = MOST_OUTSTANDING
        call.cancel()
        requests.put(None)


def quick_start(at: Served, count: int) -> list[dict[str, Any]]:
    """What the vendor's quick start does (Pub/Sub API guide, Python Quick Start), without printing; the events."""
    semaphore = threading.Semaphore(1)
    over = threading.Event()

    def fetch_requests() -> Iterator[pb.FetchRequest]:
        while not over.is_set():
            semaphore.acquire()
            yield pb.FetchRequest(topic_name=CHANNEL, replay_preset=pb.EARLIEST, num_requested=1)

    def decode(schema: str, payload: bytes) -> Any:
        parsed = avro.schema.parse(schema)
        decoder = avro.io.BinaryDecoder(io.BytesIO(payload))
        return avro.io.DatumReader(parsed).read(decoder)

    events = []
    with _channel(at) as channel:
        stub = pb_grpc.PubSubStub(channel)
        substream = stub.Subscribe(fetch_requests(), metadata=_CREDENTIALS.metadata())
        for event in substream:
            if event.events:
                semaphore.release()
                payload, schema_id = event.events[0].event.payload, event.events[0].event.schema_id
                request = pb.SchemaRequest(schema_id=schema_id)
                schema = stub.GetSchema(request, metadata=_CREDENTIALS.metadata()).schema_json
                events.append(json.loads(json.dumps(decode(schema, payload))))
                if len(events) == count:
                    break
        over.set()
        substream.cancel()
        semaphore.release()
    return events


def _channel(at: Served) -> grpc.Channel:
    return grpc.secure_channel(at.endpoint, grpc.ssl_channel_credentials(at.ca_file.read_bytes()))


def _measure(quick: bool) -> Sequence[Figure]:
    count, few, rounds = (2_000, 100, 1) if quick else (150_000, 1_500, 5)
    events = sample_events(FIELDS, 500 if quick else 5_000, varied=True)
    schema_json = json.dumps(events.schema)
    cpu: list[float] = []
    with tempfile.TemporaryDirectory() as name, served(Path(name), schema_json, events.payloads, count) as at:
        warehouses = (Warehouse(str(Path(name) / f"warehouse {number}")) for number in range(rounds + 1))
        landed: list[Warehouse] = []

        def ours() -> float:
            warehouse = next(warehouses)
            begun, cpu_begun = time.perf_counter(), time.process_time()
            _same("events landed", land(at, warehouse), count)
            cpu.append(count / (time.process_time() - cpu_begun))
            landed.append(warehouse)
            return count / (time.perf_counter() - begun)

        def bare() -> float:
            begun = time.perf_counter()
            _same("events read bare", bare_read(at, count), count)
            return count / (time.perf_counter() - begun)

        def vendor() -> float:
            begun = time.perf_counter()
            decoded = quick_start(at, few)
            seconds = time.perf_counter() - begun
            _compare_with_vendor(landed[-1], decoded)
            return few / seconds

        ours()
        cpu.clear()
        found = interleaved({"ours": ours, BARE: bare, VENDOR: vendor}, rounds=rounds)
        for warehouse in landed[-2:]:
            _compare(warehouse, events, count)
    memory = _memory(quick, events)
    peers = {BARE: found[BARE], VENDOR: found[VENDOR]}
    return [
        Figure("events on the clock", "events/s", found["ours"], peers),
        Figure("events a CPU second", "events/s", cpu),
        Figure("memory: four times the events", "MB", [memory[4]], {"once": [memory[1]]}, Goal(1.1, "once")),
    ]


def _memory(quick: bool, events: SampleEvents) -> dict[int, float]:
    """The peak memory of a process that lands so many times the events."""
    base, found = 1_000 if quick else 60_000, {}
    spawn = multiprocessing.get_context("spawn")
    for times in (1, 4):
        with (
            tempfile.TemporaryDirectory() as name,
            served(Path(name), json.dumps(events.schema), events.payloads, base * times) as at,
        ):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_land_and_report, args=(theirs, at, name))
            process.start()
            found[times] = ours.recv()
            process.join()
    return found


def _land_and_report(to_owner: Connection, at: Served, folder: str) -> None:
    land(at, Warehouse(str(Path(folder) / "warehouse")))
    to_owner.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _rows(warehouse: Warehouse, columns: list[str]) -> pa.Table:
    return RawEvents.open(warehouse).table.scan(columns).sort_by("position")


def _compare(warehouse: Warehouse, events: SampleEvents, count: int) -> None:
    """Every event once, in order, byte for byte, with what its header says when it is read by itself."""
    rows = RawEvents.open(warehouse).table.scan(None).sort_by("position")
    _same("positions", rows["position"].to_pylist(), list(range(1, count + 1)))
    _same("event ids", rows["event_id"].to_pylist(), [event_id(number) for number in range(count)])
    _same("replay ids", rows["replay_id"].to_pylist(), [replay_id(number) for number in range(count)])
    expected = [hashlib.sha256(payload).digest() for payload in events.payloads]
    written = [hashlib.sha256(payload).digest() for payload in rows["payload"].to_pylist()]
    _same("payloads", written, [expected[number % len(expected)] for number in range(count)])
    heads = [read_header(payload, events.schema) for payload in events.payloads[:count]]
    for column in ("entity_name", "record_ids", "transaction_key", "sequence_number", "commit_number", "commit_user"):
        reported = [getattr(head, column) for head in heads]
        reported = [list(value) if isinstance(value, tuple) else value for value in reported]
        _same(column, rows[column].slice(0, len(heads)).to_pylist(), reported)
    times = pc.cast(rows["commit_timestamp"].slice(0, len(heads)), pa.int64()).to_pylist()
    _same("commit timestamps", times, [head.commit_timestamp * 1000 for head in heads])


def _compare_with_vendor(warehouse: Warehouse, decoded: list[dict[str, Any]]) -> None:
    rows = _rows(warehouse, ["position", "record_ids", "change_type", "transaction_key"]).slice(0, len(decoded))
    heads = [event["ChangeEventHeader"] for event in decoded]
    reported = [
        {"record_ids": head["recordIds"], "change_type": head["changeType"], "transaction_key": head["transactionKey"]}
        for head in heads
    ]
    _same("headers of the quick start", rows.drop_columns(["position"]).to_pylist(), reported)


def _same(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise WrongAnswer(f"{what}: {str(found)[:200]} instead of {str(expected)[:200]}")


STAGE = Stage(
    "Poll and land",
    _measure,
    "Every row of raw_events with the events that were served (position, ids, payload) and with what read_header tells "
    "of each payload by itself; the first ones with what the vendor's quick start decodes.",
    "The gRPC read itself, in Python's one thread at a time, and the Parquet file of the commit.",
)
