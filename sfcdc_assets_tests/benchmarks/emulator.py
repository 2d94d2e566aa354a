"""The emulated org as a person and their clients meet it: how long it takes to start and to end, what a million records
take, and how many change events it makes and serves in a second.

Everything goes through `sfcdc emulator` and its sockets, in a process of its own.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import fastavro
import grpc
import requests

from sfcdc_assets.change_events import read_header
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.benchmarks.emulator_command import EmulatorCommand, emulator_command
from sfcdc_assets_tests.benchmarks.poll_and_land import CHANNEL, bare_responses
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

ENTITY = "Contact"
_DATA = "/services/data/v65.0"
_A_REQUEST = 200
"""Records that one request of `composite/sobjects` may change."""
_CLIENTS = 3
_STREAMS = 4
_SUBSCRIBERS, _CONNECTIONS = 500, 5
_CONNECTS = 2
_OWN_RATE = 50
_NO_LIMIT = 10**9
_SECONDS = 60


def measure(quick: bool) -> Sequence[Figure]:
    """Starts and ends first, then a million records, then events."""
    some, million, rounds = (60, 150, 1) if quick else (10_000, 125_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        figures = [*_starts(Path(folder), some, rounds), *_million(Path(folder) / "million", million)]
    with tempfile.TemporaryDirectory() as folder:
        return [*figures, *_events(Path(folder) / "org", quick, rounds)]


def _starts(folder: Path, records: int, rounds: int) -> Iterator[Figure]:
    """New orgs; each ends while streams are open, long polls are held and traffic is made."""
    started, ended = [], []
    for number in range(rounds):
        with emulator_command(folder / f"org{number}", records) as command:
            started.append(command.started)
            _compare_counts(command, records)
            with _open_calls(command):
                command.post("/emulator/traffic/rate", json={"rate": _OWN_RATE})
                ended.append(command.interrupt())
    yield Figure(f"start with {records:,} records of each of 8 objects", "s", started, goal=Goal(2))
    yield Figure(f"end, with {_STREAMS} streams, {_CONNECTS} long polls and traffic", "s", ended, goal=Goal(1))


def _million(folder: Path, records: int) -> Iterator[Figure]:
    of = f"{8 * records:,} records"
    with emulator_command(folder, records) as command:
        _compare_counts(command, records)
        yield Figure(f"first start with {of}", "s", [command.started], goal=Goal(20))
        yield Figure(of, "MB on disk", [command.megabytes_on_disk()], goal=Goal(2000))
        yield Figure(f"peak memory, filling {of}", "MB", [command.peak_megabytes()])
        command.interrupt()
    with emulator_command(folder, records) as command:
        command.post("/emulator/traffic", json={"transactions": 10, "mix": "plain"})
        yield Figure(f"second start with {of}", "s", [command.started], goal=Goal(2))
        yield Figure(f"peak memory, serving {of}, with traffic", "MB", [command.peak_megabytes()])
        command.interrupt()


def _events(folder: Path, quick: bool, rounds: int) -> Iterator[Figure]:
    """Every record of an object is changed in each round, each to a value of its own, and all events are read."""
    records, subscribers = (200, 50) if quick else (4_000, _SUBSCRIBERS)
    with emulator_command(folder, records) as command:
        command.post("/emulator/settings", json={"daily_event_deliveries": _NO_LIMIT, "daily_api_requests": _NO_LIMIT})
        ids = _ids(command)
        reached = _until_all_have_it(command, ids[0], subscribers, 5 * rounds)
        before = command.get("/emulator/events")["published"]
        made, cpu = [], []
        own: dict[str, list[float]] = {"plain": [], "load": []}
        for number in range(-1, 5 * rounds):
            cpu_begun, begun = command.org.cpu_seconds(), time.perf_counter()
            _change_all(command, ids, number)
            if number >= 0:  # the first one makes the caches warm
                made.append(len(ids) / (time.perf_counter() - begun))
                cpu.append(len(ids) / max(0.01, command.org.cpu_seconds() - cpu_begun))
        for mix, rates in own.items():
            for _ in range(rounds):
                begun = time.perf_counter()
                found = command.post("/emulator/traffic", json={"events": len(ids) // 4, "mix": mix})["events"]
                rates.append(found / (time.perf_counter() - begun))
        published = command.get("/emulator/events")["published"]
        served, served_cpu = [], []
        for _ in range(3 * rounds):
            cpu_begun, begun, count = command.org.cpu_seconds(), time.perf_counter(), 0
            for response in bare_responses(command.pubsub, published, command.credentials):
                count += len(response.events)
            served.append(count / (time.perf_counter() - begun))
            served_cpu.append(count / max(0.01, command.org.cpu_seconds() - cpu_begun))
        _compare_events(command, ids, before, 5 * rounds + 1, published)
        command.interrupt()
    yield Figure("made by REST, 200 records a request", "events/s", made, goal=Goal(5_000, at_least=True))
    yield Figure("made by REST", "events a CPU second", cpu)
    yield Figure(
        "made by its own traffic, 1.5 events a transaction", "events/s", own["plain"], goal=Goal(5_000, at_least=True)
    )
    yield Figure(
        "made by its own traffic, 200 records a transaction", "events/s", own["load"], goal=Goal(5_000, at_least=True)
    )
    yield Figure("served to one subscriber", "events/s", served, goal=Goal(100_000, at_least=True))
    yield Figure("served", "events a CPU second", served_cpu)
    yield Figure(f"a change, until each of {subscribers} subscribers has it", "s", reached, goal=Goal(1))


def _until_all_have_it(command: EmulatorCommand, record: str, subscribers: int, rounds: int) -> list[float]:
    """Seconds from a change until the last of so many clients that listen at once has it. The org has published one
    event so far. Raises `WrongAnswer` where one gets another event."""
    credentials = grpc.ssl_channel_credentials(command.pubsub.ca_file.read_bytes())
    own_connection = [("grpc.use_local_subchannel_pool", 1)]  # channels to one address share one otherwise
    seconds = []
    with ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.secure_channel(command.pubsub.endpoint, credentials, own_connection))
            for _ in range(_CONNECTIONS)
        ]
        calls = []
        for number in range(subscribers):
            requested: SimpleQueue[pb.FetchRequest | None] = SimpleQueue()
            stack.callback(requested.put, None)
            requested.put(pb.FetchRequest(topic_name=CHANNEL, replay_preset=pb.EARLIEST, num_requested=100))
            stub = pb_grpc.PubSubStub(channels[number % _CONNECTIONS])
            calls.append(stub.Subscribe(iter(requested.get, None), metadata=command.credentials.metadata()))
            stack.callback(calls[-1].cancel)
        _same_event([next(call) for call in calls])
        for number in range(rounds):
            begun = time.perf_counter()
            change = {"attributes": {"type": ENTITY}, "Id": record, "Phone": f"change {number}"}
            command.patch(f"{_DATA}/composite/sobjects", json={"allOrNone": True, "records": [change]})
            responses = [next(call) for call in calls]
            seconds.append(time.perf_counter() - begun)
            _same_event(responses)
    return seconds


def _same_event(responses: Sequence[pb.FetchResponse]) -> None:
    found = {tuple(each.event.id for each in response.events) for response in responses}
    if len(found) != 1 or len(next(iter(found))) != 1:
        raise WrongAnswer(f"{len(responses)} subscribers got {len(found)} different answers, or several events")


def _ids(command: EmulatorCommand) -> list[str]:
    page = command.get(f"{_DATA}/query?q=SELECT+Id+FROM+{ENTITY}+ORDER+BY+Id")
    ids = [record["Id"] for record in page["records"]]
    while not page["done"]:
        page = command.get(page["nextRecordsUrl"])
        ids += [record["Id"] for record in page["records"]]
    return ids


def _change_all(command: EmulatorCommand, ids: Sequence[str], number: int) -> None:
    """By several clients, so that the org does not wait for one to write its next request."""

    def change(start: int) -> None:
        records = [
            {"attributes": {"type": ENTITY}, "Id": each, "Phone": f"{number}-{place}", "Title": f"T {number}"}
            for place, each in enumerate(ids[start : start + _A_REQUEST], start)
        ]
        results = command.patch(f"{_DATA}/composite/sobjects", json={"allOrNone": True, "records": records})
        if not all(result["success"] for result in results):
            raise WrongAnswer(f"not all records were changed: {results[0]}")

    with ThreadPoolExecutor(_CLIENTS) as clients:
        list(clients.map(change, range(0, len(ids), _A_REQUEST)))


def _compare_counts(command: EmulatorCommand, records: int) -> None:
    objects = command.get("/emulator/state")["objects"]
    for definition in built_in_definitions():
        standard = 2 if definition.name == "User" else 0
        if objects[definition.name]["all"] != records + standard:
            raise WrongAnswer(f"{objects[definition.name]['all']} records of {definition.name} instead of {records}")


def _compare_events(command: EmulatorCommand, ids: Sequence[str], before: int, rounds: int, published: int) -> None:
    """All events once and in order, and among them each of `rounds` changes of each record."""
    responses = list(bare_responses(command.pubsub, published, command.credentials))
    events = [event for response in responses for event in response.events]
    if len({event.event.id for event in events}) != len(events) or len(events) != published:
        raise WrongAnswer(f"{len(events)} events instead of {published}, or some more than once")
    if any(one.replay_id > other.replay_id for one, other in pairwise(events)):
        raise WrongAnswer("the events are not in the order of their replay ids")
    schema = fastavro.parse_schema(
        command.get(f"{_DATA}/sobjects/{ENTITY}ChangeEvent/eventSchema?payloadFormat=COMPACT")
    )
    of_rest = [event.event.payload for event in events[before : before + rounds * len(ids)]]
    named = [read_header(payload, schema).record_ids for payload in of_rest]
    for start in range(0, len(named), len(ids)):
        if sorted(named[start : start + len(ids)]) != [(each,) for each in ids]:
            raise WrongAnswer("the events of a round do not name each record that was changed in it, once")


@contextmanager
def _open_calls(command: EmulatorCommand) -> Iterator[None]:
    """Streams that wait for events, and long polls that are held."""
    credentials = grpc.ssl_channel_credentials(command.pubsub.ca_file.read_bytes())
    with grpc.secure_channel(command.pubsub.endpoint, credentials) as channel:
        stub = pb_grpc.PubSubStub(channel)
        calls = []
        for _ in range(_STREAMS):
            request = pb.FetchRequest(topic_name=CHANNEL, replay_preset=pb.EARLIEST, num_requested=100)
            requested: SimpleQueue[pb.FetchRequest | None] = SimpleQueue()
            requested.put(request)
            calls.append(stub.Subscribe(iter(requested.get, None), metadata=command.credentials.metadata()))
            next(calls[-1])  # the change that a new org makes
        polls = [threading.Thread(target=_hold, args=(_connected(command),), daemon=True) for _ in range(_CONNECTS)]
        for poll in polls:
            poll.start()
        yield
        for poll in polls:
            poll.join(_SECONDS)


def _connected(command: EmulatorCommand) -> tuple[requests.Session, str, dict[str, Any]]:
    """A CometD client that has subscribed: its session, the address, and what it long-polls with."""
    http, url = requests.Session(), f"{command.url}/cometd/65.0"
    http.trust_env, http.verify = False, command.http.verify
    http.headers["Authorization"] = command.http.headers["Authorization"]
    shake = {"channel": "/meta/handshake", "version": "1.0", "supportedConnectionTypes": ["long-polling"]}
    client = {"clientId": http.post(url, json=[shake], timeout=_SECONDS).json()[0]["clientId"]}
    subscribe = {"channel": "/meta/subscribe", "subscription": CHANNEL, **client}
    if not http.post(url, json=[subscribe], timeout=_SECONDS).json()[0]["successful"]:
        raise WrongAnswer("the CometD client could not subscribe")
    return http, url, {"channel": "/meta/connect", "connectionType": "long-polling", **client}


def _hold(client: tuple[requests.Session, str, dict[str, Any]]) -> None:
    http, url, connect = client
    with suppress(requests.RequestException):  # the org goes
        while True:
            http.post(url, json=[connect], timeout=_SECONDS)


STAGE = Stage(
    "The emulated org",
    measure,
    "The number of records of each object; that the org ends in order and starts again; every event that was read: "
    "once, in order, and naming the records that were changed; every subscriber with the event of the others.",
    "Filling: SQLite's own insertion of 45 columns a row (two thirds), the rest Python's lists of values. Making: "
    "Python, for each record reading, comparing and writing its row, its log and its event; a transaction of its own "
    "traffic has 13 statements and a commit of SQLite. Serving: 100 events may be outstanding, so each hundred takes "
    "one turn between the two processes, and gRPC's threads in Python hand it on five times.",
)
