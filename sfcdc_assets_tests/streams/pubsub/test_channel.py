"""Unary calls, credentials and certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.pubsub.channel import PubSubConnection, TopicInfo
from sfcdc_assets.streams.pubsub.credentials import Credentials, CredentialsMalformed
from sfcdc_assets.streams.pubsub.errors import (
    AuthenticationRefused,
    ProtocolRefused,
    PubSubUnavailable,
    SchemaNotFound,
    TopicNotFound,
)
from sfcdc_assets_tests.streams.pubsub.conftest import TENANT, Client
from sfcdc_assets_tests.streams.pubsub.scripted_service import Abort

Connect = Callable[..., Client]


def test_a_topic_and_a_schema_are_read(connect: Connect) -> None:
    client = connect()
    topic = client.connection.get_topic("/data/ChangeEvents")
    assert topic == TopicInfo("/data/ChangeEvents", "CORE/prod/x", can_subscribe=True, schema_id="")
    assert client.connection.get_schema("schema") == '{"type":"string"}'


def test_many_schemas_are_asked_for_beside_each_other_and_what_fails_again_alone(connect: Connect) -> None:
    client = connect(accepted={"token-2"})
    client.service.unary_script = [Abort("service.unavailable"), Abort("service.unavailable")]
    names = [f"schema-{number}" for number in range(40)]
    assert client.connection.get_schemas(names) == dict.fromkeys(names, '{"type":"string"}')
    assert client.connection.get_schemas([]) == {}


def test_a_schema_that_there_is_not_is_left_out_of_many(connect: Connect) -> None:
    client = connect()
    client.service.unary_script = [Abort("schema.not.found"), Abort("schema.not.found")]
    assert client.connection.get_schemas(["schema"]) == {}


def test_outages_are_retried_with_growing_pauses(connect: Connect) -> None:
    client = connect()
    client.service.unary_script = [Abort("service.unavailable"), Abort(), Abort("topic.api.unavailable")]
    client.connection.get_topic("/data/ChangeEvents")
    assert client.pauses == [0.5, 1.0, 2.0]


def test_who_waits_for_a_service_that_says_nothing_hears_of_each_attempt(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect()
    client.service.unary_script = [Abort(code=grpc.StatusCode.DEADLINE_EXCEEDED), Abort("service.unavailable")]
    client.connection.get_topic("/data/ChangeEvents")
    (told,) = caplog.messages
    assert told.startswith("The Pub/Sub API did not answer GetTopic of /data/ChangeEvents within ")
    assert told.endswith(" s; attempt 2 follows.")


def test_an_outage_that_stays_is_reported_with_the_settings_to_check(connect: Connect) -> None:
    client = connect(attempts=3)
    client.service.unary_script = [Abort("service.unavailable", details="The service is unavailable.")] * 9
    with pytest.raises(PubSubUnavailable, match=r"service\.unavailable.*rpc-1.*SFCDC_PUBSUB_ENDPOINT") as caught:
        client.connection.get_schema("schema")
    assert len(client.service.unary) == 3
    assert caught.value.refusal.error_code == "service.unavailable"


def test_an_rpc_id_that_is_in_the_text_of_a_refusal_is_named_once(connect: Connect) -> None:
    client = connect()
    client.service.unary_script = [Abort("topic.not.found", details="no topic /data/X__chn. rpcId: rpc-1")]
    with pytest.raises(TopicNotFound) as caught:
        client.connection.get_topic("/data/X__chn")
    assert str(caught.value).count("rpc-1") == 1


def test_an_expired_token_is_refreshed_once(connect: Connect) -> None:
    client = connect(accepted={"token-2"})
    client.connection.get_topic("/data/ChangeEvents")
    assert [metadata["accesstoken"] for _, metadata in client.service.unary] == ["token-1", "token-2"]


def test_a_fresh_token_that_is_refused_ends_the_call(connect: Connect) -> None:
    client = connect(accepted=set())
    with pytest.raises(AuthenticationRefused) as caught:
        client.connection.get_topic("/data/ChangeEvents")
    assert client.tokens == ["token-1", "token-2"]
    assert "token-" not in str(caught.value)


def test_invalid_headers_are_not_mended_by_a_new_token(connect: Connect) -> None:
    client = connect()
    client.service.unary_script = [Abort("service.auth.headers.invalid", grpc.StatusCode.UNAUTHENTICATED)]
    with pytest.raises(AuthenticationRefused):
        client.connection.get_topic("/data/ChangeEvents")
    assert client.tokens == ["token-1"]


@pytest.mark.parametrize(
    ("error_code", "error"),
    [
        ("topic.not.found", TopicNotFound),
        ("schema.validation.failed", SchemaNotFound),
        ("topic.validation.empty", ProtocolRefused),
    ],
)
def test_the_error_code_decides_and_not_the_status(connect: Connect, error_code: str, error: type[Exception]) -> None:
    client = connect()
    client.service.unary_script = [Abort(error_code, grpc.StatusCode.UNAVAILABLE)]
    with pytest.raises(error):
        client.connection.get_topic("/data/ChangeEvents")
    assert client.pauses == []


def test_an_endpoint_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    credentials = Credentials("secret-token", "https://x.my.salesforce.com", TENANT)
    with (
        PubSubConnection(
            "localhost:1", lambda refresh: credentials, backoff=Backoff(2), sleep=lambda _: None
        ) as connection,
        pytest.raises(PubSubUnavailable) as caught,
    ):
        connection.get_topic("/data/ChangeEvents")
    assert "secret-token" not in str(caught.value)


def test_a_server_of_another_authority_is_not_trusted(connect: Connect) -> None:
    client = connect()
    endpoint = client.connection._endpoint
    credentials = Credentials("t", "https://x.my.salesforce.com", TENANT)
    with (
        PubSubConnection(endpoint, lambda refresh: credentials, backoff=Backoff(1), sleep=lambda _: None) as connection,
        pytest.raises(PubSubUnavailable),
    ):
        connection.get_topic("/data/ChangeEvents")
    assert client.service.unary == []


def test_a_connection_that_was_closed_is_rebuilt(connect: Connect) -> None:
    client = connect()
    client.connection.get_topic("/data/ChangeEvents")
    client.connection.close()
    client.connection.get_topic("/data/ChangeEvents")
    assert len(client.service.unary) == 2


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_unusable_ca_file_names_its_setting(tmp_path: Path, content: str | None) -> None:
    ca_file = tmp_path / "ca.pem"
    if content is not None:
        ca_file.write_text(content)
    credentials = Credentials("t", "https://x.my.salesforce.com", TENANT)
    connection = PubSubConnection("localhost:1", lambda refresh: credentials, ca_file)
    with pytest.raises(SettingsError, match="SFCDC_CA_FILE"):
        connection.get_topic("/data/ChangeEvents")


@pytest.mark.parametrize("token", ["", "abc\n", "a b", "ä"])
def test_a_token_that_cannot_be_a_header_is_named_but_not_shown(token: str) -> None:
    with pytest.raises(CredentialsMalformed, match="access token") as caught:
        Credentials(token, "https://x.my.salesforce.com", TENANT)
    assert not token or token not in str(caught.value)


def test_credentials_do_not_show_the_token_and_send_scheme_and_host_only() -> None:
    credentials = Credentials("00D!secret", "https://x.my.salesforce.com/services/", TENANT)
    assert "secret" not in repr(credentials)
    assert dict(credentials.metadata())["instanceurl"] == "https://x.my.salesforce.com"
