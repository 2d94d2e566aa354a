"""Every kind of event, its parts, and the ways in which each part can be malformed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sfcdc_assets_tests.pipeline.failures.malformed_events import (
    Spoil,
    avro,
    avro_header,
    data,
    envelope,
    json_header,
    message,
    payload,
    without,
)
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream

NOTES, TOPIC, LOAD = "/event/Note__e", "/topic/Names", "/u/Load"
GARBAGE = bytes(range(255, 128, -1)) * 9
HALF_A_PAIR = b"\xed\xa0\xbd\xff\xfe\xfd456"
FAR = 2**62
Malformed = Mapping[str, Callable[[Stream], Spoil]]


def always(spoil: Spoil) -> Callable[[Stream], Spoil]:
    return lambda _: spoil


def of_id(entity: str, number: int) -> Callable[[Stream], str]:
    return lambda org: str(list(org.org.records(entity))[number]["Id"])


ENVELOPES: dict[str, Malformed] = {
    "replay id": {
        "none": always(envelope(replay_id=b"")),
        "endless": always(envelope(replay_id=b"9" * 70_000)),
        "one byte": always(envelope(replay_id=b"\0")),
    },
    "event id": {
        "none": always(envelope(id="")),
        "a path": always(envelope(id="../../\x1b]0;x\x07'--")),
        "endless": always(envelope(id="9" * 70_000)),
    },
    "schema id": {
        "none": always(envelope(schema_id="")),
        "unknown": always(envelope(schema_id="AAAAAAAAAAAAAAAAAAAAAA")),
        "a path": always(envelope(schema_id="../x?y=%00#\x1b")),
        "another's": lambda org: envelope(schema_id=org.server.bus.newest_schema_id("Contact")),
    },
    "payload": {
        "empty": always(payload(lambda _: b"")),
        "a byte": always(payload(lambda _: b"\x80")),
        "cut early": always(payload(lambda whole: whole[: len(whole) // 3])),
        "cut late": always(payload(lambda whole: whole[:-3])),
        "longer": always(payload(lambda whole: whole + b"\0\2a")),
        "garbage": always(payload(lambda _: GARBAGE)),
        "JSON": always(payload(lambda _: b'{"ChangeEventHeader":{}}')),
        "no JSON": always(payload(lambda _: b"{" * 3_000)),
    },
}
CHANGES_IN_AVRO: dict[str, Malformed] = {
    **ENVELOPES,
    "header": {
        "no object": lambda org: avro_header(org, entityName=""),
        "a path as object": lambda org: avro_header(org, entityName="../../x"),
        "another object": lambda org: avro_header(org, entityName="Contact"),
        "an object that is not there": lambda org: avro_header(org, entityName="No_Such__c"),
        "change type beyond": lambda org: avro_header(org, changeType=77),
        "change type before": lambda org: avro_header(org, changeType=-1),
        "no transaction": lambda org: avro_header(org, transactionKey=""),
        "number before": lambda org: avro_header(org, sequenceNumber=-(2**31)),
        "time before": lambda org: avro_header(org, commitTimestamp=-1),
        "time of 1970": lambda org: avro_header(org, commitTimestamp=0),
        "time to come": lambda org: avro_header(org, commitTimestamp=org.clock() + 10**10),
        "time beyond": lambda org: avro_header(org, commitTimestamp=FAR),
        "commit before": lambda org: avro_header(org, commitNumber=-FAR),
        "no user": lambda org: avro_header(org, commitUser="", changeOrigin="\x1b]0;x\x07" * 99),
    },
    "record ids": {
        "none": lambda org: avro_header(org, recordIds=[]),
        "empty": lambda org: avro_header(org, recordIds=[""]),
        "no id": lambda org: avro_header(org, recordIds=["'; --"]),
        "a wildcard": lambda org: avro_header(org, recordIds=["001*"]),
        "15 characters": lambda org: avro(org, lambda body: _ids(body, lambda each: each[:15])),
        "another's prefix": lambda org: avro_header(org, recordIds=[of_id("Contact", 0)(org)]),
        "twice": lambda org: avro(
            org, lambda body: body["ChangeEventHeader"].update(recordIds=body["ChangeEventHeader"]["recordIds"] * 2)
        ),
        "one that is not there": lambda org: avro_header(org, recordIds=["001000000000999AAA"]),
    },
    "bitmaps": {
        "no bitmap": lambda org: avro_header(org, changedFields=["zz"]),
        "no bits": lambda org: avro_header(org, changedFields=["0x0"]),
        "none": lambda org: avro_header(org, changedFields=[]),
        "beyond the schema": lambda org: avro_header(org, changedFields=["0x" + "F" * 60]),
        "endless": lambda org: avro_header(org, changedFields=["0x" + "F" * 50_000]),
        "a child of none": lambda org: avro_header(org, changedFields=["99999-0x1"]),
        "a child of a text": lambda org: avro_header(org, changedFields=["2-0x3"]),
        "of diffs": lambda org: avro_header(org, diffFields=["0xFF"]),
        "of nulls": lambda org: avro_header(org, nulledFields=["x"]),
    },
    "types": {
        "not a number": lambda org: avro(org, lambda body: _value(body, "AnnualRevenue", float("nan"))),
        "endless number": lambda org: avro(org, lambda body: _value(body, "AnnualRevenue", float("inf"))),
        "a time beyond": lambda org: avro(org, lambda body: _value(body, "LastModifiedDate", FAR)),
        "a text of half a pair": always(
            payload(lambda whole: whole.replace(b"malformed", b"\xed\xa0\xbd\xff\xfe\xfd456"))
        ),
    },
}
HEADERS_IN_JSON = [
    *("entityName", "changeType", "changeOrigin", "transactionKey", "commitUser", "sequenceNumber", "commitTimestamp"),
    *("commitNumber", "recordIds", "changedFields"),
]
ABOUT: dict[str, Malformed] = {
    "replay id": {
        "none": always(without("event", "replayId")),
        "null": always(data({"replayId": None}, "event")),
        "empty": always(data({"replayId": ""}, "event")),
        "a fraction": always(data({"replayId": 1.5}, "event")),
        "a truth": always(data({"replayId": True}, "event")),
        "a list": always(data({"replayId": []}, "event")),
        "that of all new ones": always(data({"replayId": -1}, "event")),
        "that of all old ones": always(data({"replayId": -2}, "event")),
        "endless": always(data({"replayId": 10**400}, "event")),
    },
    "event": {
        "none": always(without("event")),
        "null": always(data({"event": None})),
        "a list": always(data({"event": []})),
    },
    "message": {
        "no data": always(lambda sent: sent.pop("data")),
        "a text": always(message(data="x")),
        "a list": always(message(data=[{}])),
        "another's": always(message(channel="/data/SomethingElse")),
        "no channel": always(lambda sent: sent.pop("channel")),
        "channel null": always(message(channel=None)),
    },
}
WITH_PAYLOAD: dict[str, Malformed] = {
    **ABOUT,
    "event id": {
        "none": always(without("event", "EventUuid")),
        "null": always(data({"EventUuid": None}, "event")),
        "a number": always(data({"EventUuid": 7}, "event")),
        "half a pair": always(data({"EventUuid": "\ud83d"}, "event")),
    },
    "schema id": {
        "none": always(without("schema")),
        "null": always(data({"schema": None})),
        "a number": always(data({"schema": 7})),
        "a list": always(data({"schema": ["x"]})),
        "unknown": always(data({"schema": "AAAAAAAAAAAAAAAAAAAAAA"})),
        "a path": always(data({"schema": "../x?y=%00#\x1b\ud83d"})),
        "another's": lambda org: data({"schema": org.server.bus.newest_schema_id("Contact")}),
    },
    "payload": {
        "none": always(without("payload")),
        "null": always(data({"payload": None})),
        "a text": always(data({"payload": "x"})),
        "a list": always(data({"payload": []})),
        "empty": always(data({"payload": {}})),
        "deep": always(data({"payload": json.loads("[" * 400 + "]" * 400)})),
        "unreadable": always(data({"payload": {"unreadable": "00"}})),
    },
}
CHANGES_IN_JSON: dict[str, Malformed] = {
    **WITH_PAYLOAD,
    "header": {
        "null": always(data({"ChangeEventHeader": None}, "payload")),
        "a list": always(data({"ChangeEventHeader": []}, "payload")),
        **{f"no {name}": always(without("payload", "ChangeEventHeader", name)) for name in HEADERS_IN_JSON},
        **{f"{name} null": always(json_header(**{name: None})) for name in HEADERS_IN_JSON[3:8]},
        "a path as object": always(json_header(entityName="../../x")),
        "another object": always(json_header(entityName="Contact")),
        "change type unknown": always(json_header(changeType="MELT")),
        "number beyond": always(json_header(sequenceNumber=FAR)),
        "time before": always(json_header(commitTimestamp=-1)),
        "commit beyond": always(json_header(commitNumber=10**30)),
        "half a pair": always(json_header(transactionKey="\ud83d", commitUser="\udfff")),
    },
    "record ids": {
        "none": always(json_header(recordIds=[])),
        "no texts": always(json_header(recordIds=[7, None])),
        "a wildcard": always(json_header(recordIds=["001*"])),
        "another's prefix": lambda org: json_header(recordIds=[of_id("Contact", 0)(org)]),
        "half a pair": always(json_header(recordIds=["\ud83d"])),
        "15 characters": always(lambda sent: _ids(sent["data"]["payload"], lambda each: each[:15])),
    },
    "bitmaps": {
        "unknown": always(json_header(changedFields=["No_Such__c", "Name.No"])),
        "not carried": always(json_header(changedFields=["Name", "Site", "BillingAddress.City"])),
        "no texts": always(json_header(changedFields=[1, None])),
        "none": always(json_header(changedFields=[])),
        "a bitmap": always(json_header(changedFields=["0x02"], nulledFields=["zz"], diffFields=["0xFF"])),
    },
    "types": {
        "a number in a text": always(data({"Name": 7}, "payload")),
        "a list in a text": always(data({"Name": ["x"]}, "payload")),
        "a diff that is none": always(data({"Name": {"diff": 7}}, "payload")),
        "a text in a number": always(data({"AnnualRevenue": "many"}, "payload")),
        "a number beyond": always(data({"AnnualRevenue": 10**400}, "payload")),
        "a day of 13 months": always(data({"LastModifiedDate": "2024-13-01T00:00:00.000Z"}, "payload")),
        "a field more": always(data({"No_Such__c": 1}, "payload")),
    },
}
NOTES_IN_AVRO: dict[str, Malformed] = {
    **ENVELOPES,
    "types": {
        "not a number": lambda org: avro(org, lambda body: body.update(Size__c=float("nan"))),
        "a time beyond": lambda org: avro(org, lambda body: body.update(At__c=FAR, CreatedDate=-FAR)),
        "no date": lambda org: avro(org, lambda body: body.update(Due__c=1)),
    },
}
NOTES_IN_JSON: dict[str, Malformed] = {
    **WITH_PAYLOAD,
    "types": {
        "a number in a text": always(data({"Text__c": 7}, "payload")),
        "a text in a number": always(data({"Size__c": "many", "Done__c": "yes"}, "payload")),
        "no moments": always(data({"At__c": "tomorrow", "Due__c": 7, "CreatedDate": "2024"}, "payload")),
        "a field more": always(data({"No_Such__c": {"a": [1]}}, "payload")),
    },
}
NOTIFICATIONS: dict[str, Malformed] = {
    **ABOUT,
    "header": {
        "no date": always(without("event", "createdDate")),
        "a date of 13 months": always(data({"createdDate": "2024-13-01T00:00:00Z"}, "event")),
        "a type that is none": always(data({"type": ["melted"]}, "event")),
    },
    "record": {
        "none": always(without("sobject")),
        "null": always(data({"sobject": None})),
        "a list": always(data({"sobject": ["x"]})),
        "no id": always(without("sobject", "Id")),
        "id of another type": always(data({"Id": {"a": 1}}, "sobject")),
    },
    "types": {
        "a number in a text": always(data({"Name": 7}, "sobject")),
        "a list in a text": always(data({"Name": [{}]}, "sobject")),
        "a text in a number": always(data({"AnnualRevenue": "many"}, "sobject")),
        "half a pair": always(data({"Name": "\ud83d"}, "sobject")),
        "a field more": always(data({"No_Such__c": {"a": 1}, "no name": 1}, "sobject")),
    },
}
TEXTS: dict[str, Malformed] = {
    **ABOUT,
    "header": {
        "no date": always(without("event", "createdDate")),
        "a date of 13 months": always(data({"createdDate": "2024-13-01T00:00:00Z"}, "event")),
    },
    "payload": {
        "none": always(without("payload")),
        "null": always(data({"payload": None})),
        "a number": always(data({"payload": 10**400})),
        "a list": always(data({"payload": [1]})),
        "an object": always(data({"payload": {"a": "\ud83d"}})),
        "half a pair": always(data({"payload": "\ud83d\0"})),
    },
}
KINDS = {
    "changes over Pub/Sub": ("pubsub", CHANNEL, CHANGES_IN_AVRO),
    "changes over CometD": ("cometd", CHANNEL, CHANGES_IN_JSON),
    "platform events over Pub/Sub": ("pubsub", NOTES, NOTES_IN_AVRO),
    "platform events over CometD": ("cometd", NOTES, NOTES_IN_JSON),
    "a PushTopic": ("cometd", TOPIC, NOTIFICATIONS),
    "a generic channel": ("cometd", LOAD, TEXTS),
}
CHANGES = [kind for kind in KINDS if kind.startswith("changes")]
OF_EVERY_KIND = {"replay id", "event", "message", "event id"}
"""Parts that are read by one function for every kind of a protocol: in `make test` for one of them."""


def _ids(body: dict[str, Any], change: Callable[[str], str]) -> None:
    body["ChangeEventHeader"]["recordIds"] = [change(each) for each in body["ChangeEventHeader"]["recordIds"]]


def _value(body: dict[str, Any], name: str, value: Any) -> None:
    body[name] = value
