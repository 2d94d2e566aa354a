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

from sfcdc_assets.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.peers.served_org import served_org

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
            f"{url}/services/Soap/u/57.0/", data=body, headers=headers, verify=str(ca_file), timeout=20
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

    def decoded(self, event: pb.ConsumerEvent) -> dict[str, Any]:
        schema = self.stub.GetSchema(pb.SchemaRequest(schema_id=event.event.schema_id), metadata=self.metadata)
        decoder = avro_io.BinaryDecoder(io.BytesIO(event.event.payload))
        return avro_io.DatumReader(avro_schema.parse(schema.schema_json)).read(decoder)


def test_it_logs_in_and_reads_every_change_in_order(tmp_path: Path) -> None:
    with served_org(tmp_path, {"User": 1, "Account": 1}) as served:
        account = str(next(served.org.records("Account"))["Id"])
        served.change_account(account, 7)
        given = served.settings
        sample = Sample(
            given["SALESFORCE_INSTANCE_URL"],
            given["SALESFORCE_USERNAME"],
            given["SALESFORCE_PASSWORD"] + given["SALESFORCE_SECURITY_TOKEN"],
            given["SFCDC_PUBSUB_ENDPOINT"],
            served.server.ca_file,
        )
        try:
            assert sample.stub.GetTopic(pb.TopicRequest(topic_name=TOPIC), metadata=sample.metadata).can_subscribe
            events: list[dict[str, Any]] = []
            stream = sample.stub.Subscribe(sample.requests(2), metadata=sample.metadata, timeout=20)
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
