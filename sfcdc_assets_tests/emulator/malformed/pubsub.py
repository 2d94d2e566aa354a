"""Malformed calls of the Pub/Sub API, and connections to its port that speak no gRPC."""

from __future__ import annotations

import random
from dataclasses import dataclass

from google.protobuf.message import Message

from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb

UNARY = ("GetTopic", "GetSchema", "Publish")
STREAMS = ("Subscribe", "PublishStream", "ManagedSubscribe")
TOPICS = (
    "/data/ChangeEvents", "/data/AccountChangeEvent", "/event/Fuzz__e", "/event/Nope__e", "/data/", "/", "", " ", "x",
    "/data/AccountChangeEvent/", "/topic/P", "é\u2028", "a" * 5_000,
)  # fmt: skip
BYTES = (b"", b"\x00", b"\xff" * 8, b"\x00" * 8, b"\x00\x00\x00\x00\x00\x00\x00\x01", b"x" * 200)
WRONG_HEADERS = (
    ("accesstoken", ""), ("accesstoken", "x"), ("accesstoken", " "), ("instanceurl", "http://["), ("instanceurl", ""),
    ("instanceurl", "ftp://localhost"), ("instanceurl", "https://localhost:99999999"), ("instanceurl", "https://a b"),
    ("instanceurl", "https://localhost/path"), ("instanceurl", "https://login.salesforce.com"), ("tenantid", "x"),
    ("instanceurl", "//"), ("tenantid", ""), ("tenantid", "00D" + "!" * 15), ("tenantid", "core/x/00D"),
    ("tenantid", "a/" * 500),
)  # fmt: skip
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclass(frozen=True)
class PubSubCall:
    """A call with raw messages, after which the client closes its side. `header` takes the place of a good one, or
    with None the good one is left out."""

    method: str
    messages: tuple[bytes, ...]
    header: tuple[str, str | None] | None


def pubsub_call(dice: random.Random) -> PubSubCall:
    """One call."""
    method = dice.choice((*UNARY, *STREAMS, *STREAMS, "Nope") if dice.random() < 0.1 else (*UNARY, *STREAMS, *STREAMS))
    header: tuple[str, str | None] | None = None
    if dice.random() < 0.1:
        header = dice.choice(WRONG_HEADERS)
    elif dice.random() < 0.03:
        header = (dice.choice(("accesstoken", "instanceurl", "tenantid")), None)
    several = method in STREAMS
    count = dice.choice((0, 1, 1, 2, 3)) if several else 1
    return PubSubCall(method, tuple(_message(dice, method) for _ in range(count)), header)


def _message(dice: random.Random, method: str) -> bytes:
    kind = dice.random()
    if kind < 0.1:
        return dice.randbytes(dice.randrange(60))
    if kind < 0.13:
        return b"\x0a\xff\xff\xff\xff\x0f" + dice.randbytes(10)  # a text of 4 GiB, of which there are ten bytes
    if kind < 0.14:
        return b"\x0b" * 5_000  # groups in groups
    if kind < 0.141:
        return b"\x0a" + b"\x80\x80\x80\x08" + b"x" * (16 * 1024 * 1024)  # as large as a message may be
    meant = method if kind < 0.9 else dice.choice((*UNARY, *STREAMS))
    content = _request(dice, meant).SerializeToString()
    if kind > 0.97:
        return content[: dice.randrange(len(content) + 1)]
    return content


def _request(dice: random.Random, method: str) -> Message:
    topic = dice.choice(TOPICS[:3] if dice.random() < 0.6 else TOPICS)
    count = dice.choice((0, 1, 5, -1, 2**31 - 1, -(2**31)))
    if method == "GetTopic":
        return pb.TopicRequest(topic_name=topic)
    if method == "GetSchema":
        return pb.SchemaRequest(schema_id=dice.choice(TOPICS))
    preset = dice.choice((0, 1, 2, 3, 7, -1, 2**31 - 1))
    if method == "Subscribe":
        return pb.FetchRequest(
            topic_name=topic, num_requested=count, replay_preset=preset, replay_id=dice.choice(BYTES),
            auth_refresh=dice.choice(("", "", "x")),
        )  # fmt: skip
    if method == "ManagedSubscribe":
        commit = pb.CommitReplayRequest(commit_request_id=topic, replay_id=dice.choice(BYTES))
        return pb.ManagedFetchRequest(
            subscription_id=dice.choice(("", "18x000000000001", topic)),
            developer_name=dice.choice(("", "Fuzz", topic)),
            num_requested=count,
            commit_replay_id_request=commit if dice.random() < 0.4 else None,
        )
    events = [
        pb.ProducerEvent(id=dice.choice(("", "e", topic)), schema_id=dice.choice(TOPICS), payload=dice.choice(BYTES))
        for _ in range(dice.randrange(4))
    ]
    return pb.PublishRequest(topic_name=topic, events=events, auth_refresh=dice.choice(("", "", "x")))


def frames(dice: random.Random) -> bytes:
    """What a connection says that speaks no gRPC: noise, HTTP/1, or HTTP/2 with frames that make no sense."""
    kind = dice.randrange(4)
    if kind == 0:
        return dice.randbytes(dice.randrange(1, 400))
    if kind == 1:
        return b"POST /eventbus.v1.PubSub/GetTopic HTTP/1.1\r\nContent-Length: -1\r\n\r\n" + dice.randbytes(50)
    said = _PREFACE if kind == 2 else _PREFACE[: dice.randrange(len(_PREFACE))]
    for _ in range(dice.randrange(1, 6)):
        payload = dice.randbytes(dice.randrange(40))
        length = dice.choice((len(payload), len(payload), 0, 2**24 - 1))
        head = length.to_bytes(3, "big") + bytes((dice.randrange(12), dice.randrange(256)))
        said += head + dice.randrange(2**32).to_bytes(4, "big") + payload
    return said
