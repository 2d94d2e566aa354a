"""The pattern of the vendor's own Python sample (python/InventoryAppExample in forcedotcom/pub-sub-api): a SOAP login
read by position, `avro` for the payloads, one request at a time from a generator that waits for a semaphore.

Its known faults: it releases the semaphore only for responses with events, and repeats the replay arguments in each
request, which does no harm; its decoder of bitmaps takes a nested one only if it stands last.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from xml.etree import ElementTree

import grpc
import pytest
import requests

from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.peers.served_org import ServedOrg, served_org

avro_io = pytest.importorskip("avro.io", reason="avro is not installed: pip install 'sfcdc_assets[peers]'")
avro_schema = pytest.importorskip("avro.schema")

TOPIC = "/data/AccountChangeEvent"


class Sample:
    """A client of that kind; `url` is where it logs in."""

    def __init__(self, url: str, username: str, password: str, endpoint: str, ca_file: Path) -> None:
        credentials = grpc.ssl_channel_credentials(ca_file.read_bytes())
        self.channel = grpc.secure_channel(endpoint, credentials)
        self.stub = pb_grpc.PubSubStub(self.channel)
        self.semaphore = threading.Semaphore(1)
        body = (
            "<soapenv:Envelope xmlns:soapenv='http://schemas.xmlsoap.org/soap/envelope/' "
            "xmlns:urn='urn:partner.soap.sforce.com'><soapenv:Body><urn:login>"
            f"<urn:username><![CDATA[{username}]]></urn:username><urn:password><![CDATA[{password}]]></urn:password>"
            "</urn:login></soapenv:Body></soapenv:Envelope>"
        )
        headers = {"content-type": "text/xml", "SOAPAction": "Login"}
        answer = requests.post(
            f"{url}/services/Soap/u/57.0/", data=body, headers=headers, verify=str(ca_file), timeout=BOUND_SECONDS
        )
        result = ElementTree.fromstring(answer.content.decode())[0][0][0]
        server = urlparse(str(result[3].text))
        self.metadata = (
            ("accesstoken", str(result[4].text)),
            ("instanceurl", f"{server.scheme}://{server.netloc}"),
            ("tenantid", str(result[6][8].text)),
        )

    def requests(self, count: int) -> Iterator[pb.FetchRequest]:
        while True:
            self.semaphore.acquire()
            yield pb.FetchRequest(topic_name=TOPIC, replay_preset=pb.ReplayPreset.EARLIEST, num_requested=count)

    def encoded(self, schema_json: str, payload: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        avro_io.DatumWriter(avro_schema.parse(schema_json)).write(payload, avro_io.BinaryEncoder(buffer))
        return buffer.getvalue()

    def publish(self, topic: str, payload: dict[str, Any]) -> pb.PublishResponse:
        """As the sample does: the schema of the topic, and an event without an id."""
        schema_id = self.stub.GetTopic(pb.TopicRequest(topic_name=topic), metadata=self.metadata).schema_id
        schema = self.stub.GetSchema(pb.SchemaRequest(schema_id=schema_id), metadata=self.metadata).schema_json
        events = [{"schema_id": schema_id, "payload": self.encoded(schema, payload)}]
        return self.stub.Publish(pb.PublishRequest(topic_name=topic, events=events), metadata=self.metadata)

    def decoded(self, event: pb.ConsumerEvent) -> dict[str, Any]:
        schema = self.stub.GetSchema(pb.SchemaRequest(schema_id=event.event.schema_id), metadata=self.metadata)
        decoder = avro_io.BinaryDecoder(io.BytesIO(event.event.payload))
        return avro_io.DatumReader(avro_schema.parse(schema.schema_json)).read(decoder)


def logged_in(served: ServedOrg) -> Sample:
    given = served.settings
    return Sample(
        given["SALESFORCE_INSTANCE_URL"],
        given["SALESFORCE_USERNAME"],
        given["SALESFORCE_PASSWORD"] + given["SALESFORCE_SECURITY_TOKEN"],
        given["SFCDC_PUBSUB_ENDPOINT"],
        served.server.ca_file,
    )


def test_it_logs_in_and_reads_every_change_in_order(tmp_path: Path) -> None:
    with served_org(tmp_path, {"User": 1, "Account": 1}) as served:
        account = str(next(served.org.records("Account"))["Id"])
        served.change_account(account, 7)
        sample = logged_in(served)
        try:
            assert sample.stub.GetTopic(pb.TopicRequest(topic_name=TOPIC), metadata=sample.metadata).can_subscribe
            events: list[dict[str, Any]] = []
            stream = sample.stub.Subscribe(sample.requests(2), metadata=sample.metadata, timeout=BOUND_SECONDS)
            while len(events) < 7:
                response = next(stream)
                if response.events:
                    events += [sample.decoded(event) for event in response.events]
                    if response.pending_num_requested == 0:
                        sample.semaphore.release()
            stream.cancel()
            sample.semaphore.release()
        finally:
            sample.channel.close()
        oracle = [
            (transaction.transaction_key, change.record_id, change.after["Phone"])
            for transaction in served.org.transactions()
            for change in transaction.changes
            if change.after is not None
        ]
        assert [
            (event["ChangeEventHeader"]["transactionKey"], event["ChangeEventHeader"]["recordIds"][0], event["Phone"])
            for event in events
        ] == oracle


def test_it_publishes_a_platform_event(tmp_path: Path) -> None:
    with served_org(tmp_path, {"User": 1}) as served:
        sample = logged_in(served)
        payload = {
            "CreatedDate": 1_700_000_000,
            "CreatedById": "005R0000000cw06IAA",
            "Order_Number__c": "17",
            "City__c": None,
            "Amount__c": 1.5,
            "Has_Shipped__c": False,
            "Shipped_On__c": None,
            "Ordered_At__c": None,
            "Remarks__c": "as the sample writes it",
        }
        try:
            response = sample.publish("/event/Order_Event__e", payload)
        finally:
            sample.channel.close()
        (result,) = response.results
        (published,) = served.server.publisher.published()
        assert published.values == payload
        assert not result.HasField("error")
        assert (result.replay_id, result.correlation_key) == (published.replay_id, published.event_id)
        assert response.schema_id == published.schema_id
