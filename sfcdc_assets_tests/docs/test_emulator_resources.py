"""docs/emulator-resources.md against the code: every path, method, call, grant and limit in it is tried, and
what the org serves has a row."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.routing import Route

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, polled_definitions, stock_definitions
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets_tests.documentation import ROOT, table_under
from sfcdc_assets_tests.emulator.soql.examples import EXAMPLES
from sfcdc_assets_tests.emulator.wire import Wire, refused, wire
from sfcdc_assets_tests.eventually import BOUND_SECONDS

PACKAGE = ROOT / "sfcdc_assets"
PAGE = ROOT / "docs" / "emulator-resources.md"
TEXT = PAGE.read_text()
DATA = "/services/data/v{version}"
PREFIXES = ("/services", "/id/", "/cometd", "/emulator")
"""Of paths that are whole; others follow the version."""
OF_PAGES = ("/emulator/pages", "/lightning")
ENVELOPE = (
    '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:p="urn:partner.soap.sforce.com"><e:Header>'
    "<p:SessionHeader><p:sessionId>{token}</p:sessionId></p:SessionHeader></e:Header>"
    "<e:Body><p:{call}/></e:Body></e:Envelope>"
)


def rows(pattern: str) -> list[tuple[str, str]]:
    """The first two cells of rows whose first cell is code of that form."""
    return [(name, cell.strip()) for name, cell in re.findall(rf"^\| `({pattern})` \| ([^|]*)\|", TEXT, re.MULTILINE)]


METHODS = r"[A-Z]+(?:, [A-Z]+)*"
PATHS = {
    **{name: cell for name, cell in rows(r"/[^`]*") if re.fullmatch(METHODS, cell)},
    **{path: methods for methods, path in re.findall(rf"^({METHODS}) +(/\S+)", TEXT, re.MULTILINE)},
}
"""Rows of the tables, and lines of the control resource."""
GRANTS = [row for row in rows(r"[a-z_:0-9-]+") if row[1].startswith(("works", "left out")) and "query" not in row[0]]
SOAP = table_under(PAGE, "Logging in")
CHANNELS = [name for name in re.findall(r"^\| `(/[^`]*)` \|", TEXT, re.MULTILINE) if name not in PATHS]


@pytest.fixture(scope="module")
def org(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with wire(tmp_path_factory.mktemp("org")) as opened:
        opened.org.populate({"Contact": 5, "Task": 3})
        yield opened


def test_every_path_that_is_served_has_a_row_with_its_methods_and_every_row_is_served(org: Wire) -> None:
    served: dict[str, set[str]] = {}
    for route in org.server.routes:
        path = getattr(route, "path", "").rstrip("/")
        if isinstance(route, Route) and not path.startswith(OF_PAGES) and path not in ("", "/{id}"):
            served.setdefault(path, set()).update((route.methods or set()) - {"HEAD"})
    listed = {
        (path if path.startswith(PREFIXES) else DATA + path.removesuffix("/")): set(cell.split(", "))
        for path, cell in PATHS.items()
    }
    assert listed == served


def test_what_is_left_out_of_rest_is_not_found(org: Wire) -> None:
    left_out = re.search(r"^Left out, each answered with 404 NOT_FOUND: (.*?)\.$", TEXT, re.MULTILINE | re.DOTALL)
    assert left_out is not None
    paths = re.findall("`([^`]+)`", left_out[1])
    assert len(paths) > 5
    for path in paths:
        answer = org.rest("GET", path)
        assert (answer.status_code, answer.json()[0]["errorCode"]) == (404, "NOT_FOUND"), path


@pytest.mark.parametrize(("query", "expected"), EXAMPLES)
def test_a_query_is_answered_as_the_examples_say(org: Wire, query: str, expected: str) -> None:
    found = org.query(query).json()
    assert ("works" if isinstance(found, dict) else found[0]["errorCode"]) == expected, found


def test_the_examples_have_each_clause_that_the_page_names() -> None:
    works, left_out = TEXT.partition("\nWorks: ")[2].partition("\n\n")[0].split("Left out")
    for named, expected in ((works, "works"), (left_out, "MALFORMED_QUERY")):
        for clause in re.findall("`([^`]+)`", named):
            answers = {answer for query, answer in EXAMPLES if clause.removesuffix("()") in query}
            assert expected in answers, clause


@pytest.mark.parametrize(("grant", "expected"), GRANTS)
def test_a_grant_is_known_or_refused_as_the_page_says(org: Wire, grant: str, expected: str) -> None:
    answer = org.rest("POST", "/services/oauth2/token", data={"grant_type": grant})
    is_left_out = answer.json()["error"] == "unsupported_grant_type"
    assert is_left_out == expected.startswith("left out")


@pytest.mark.parametrize("call", [name for name in SOAP if re.fullmatch("[a-z]+[A-Z]?[A-Za-z]*", name)])
def test_a_soap_call_is_answered_or_refused_as_the_page_says(org: Wire, call: str) -> None:
    if "_" in call or call in dict(GRANTS):
        return
    token = org.server.sessions.issue(org.org.users.integration)
    body = ENVELOPE.format(token=token, call=call)
    headers = {"Content-Type": "text/xml", "SOAPAction": call}
    answer = org.rest("POST", "/services/Soap/u/60.0", data=body, headers=headers)
    assert ("UNSUPPORTED_API" in answer.text) == SOAP[call].startswith("left out")


def test_every_limit_has_a_row(org: Wire) -> None:
    calls = {method.name for method in pb.DESCRIPTOR.services_by_name["PubSub"].methods}
    listed = [name for name, _ in rows("[A-Z][A-Za-z0-9]*") if name not in calls]
    assert listed == sorted(org.rest("GET", "/limits").json())


def test_every_call_of_the_pubsub_api_has_a_row() -> None:
    service = pb.DESCRIPTOR.services_by_name["PubSub"]
    assert set(table_under(PAGE, "Pub/Sub API")) == {method.name for method in service.methods}


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_channel_is_one_that_cometd_serves_and_the_pubsub_api_as_the_page_says(org: Wire, channel: str) -> None:
    org.rest(
        "POST",
        "/sobjects/PushTopic",
        json={"Name": "Name", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 60.0},
    )
    org.rest("POST", "/sobjects/StreamingChannel", json={"Name": "/u/Name"})
    kind = "data" if channel.startswith("/data/") else "event"
    if channel.endswith("__chn"):
        body = {"FullName": "Name__chn", "Metadata": {"channelType": kind, "label": "Name"}}
        org.rest("POST", "/tooling/sobjects/PlatformEventChannel", json=body)
    assert org.subscribe_cometd(channel).get("error") is None
    if channel.startswith(("/topic/", "/u/")):
        assert refused(org.subscribe(pb.FetchRequest(topic_name=channel, num_requested=1)))
    else:
        topic = org.stub.GetTopic(pb.TopicRequest(topic_name=channel), metadata=org.metadata, timeout=BOUND_SECONDS)
        assert topic.can_subscribe
    if channel.endswith("__chn"):
        (made,) = org.org.channels.all()
        org.org.channels.delete(made.id)


def test_every_object_is_named() -> None:
    objects = TEXT.split("## Objects")[1].split("\n## ")[0]
    chosen, stock, setup, polled = (part for part in objects.split("\n\n") if part.startswith("Those "))
    names = {definition.name for definition in built_in_definitions()}
    assert set(re.findall(r"\b([A-Z]\w+)\b", chosen.split(":", 1)[1])) == names
    assert set(re.findall(r"\b([A-Z]\w+)\b", stock.split(":", 1)[1])) == {each.name for each in stock_definitions()}
    assert set(re.findall(r"\b([A-Z]\w+)\b", polled.split(":", 1)[1])) == {each.name for each in polled_definitions()}
    of_setup = {file.stem for file in (PACKAGE / "emulator" / "definitions" / "objects" / "setup").glob("*.yaml")}
    assert of_setup
    assert of_setup <= set(re.findall(r"\b([A-Z]\w+)\b", setup.split(":", 1)[1]))


def test_a_setup_object_can_be_queried(org: Wire) -> None:
    setup = re.search(r"^Those that describe the org itself[^:]*: (.*?)\.$", TEXT, re.MULTILINE | re.DOTALL)
    assert setup is not None
    for name in re.findall(r"\b([A-Z]\w+)\b", setup[1]):
        field = "QualifiedApiName" if name == "FieldDefinition" else "Id"
        where = " WHERE EntityDefinition.QualifiedApiName = 'Account'" if name == "FieldDefinition" else ""
        assert org.query(f"SELECT {field} FROM {name}{where} LIMIT 1").status_code == 200, name


def test_an_org_on_its_own_has_the_same_objects() -> None:
    assert set(EmulatedOrg().definitions) == {definition.name for definition in built_in_definitions()}
