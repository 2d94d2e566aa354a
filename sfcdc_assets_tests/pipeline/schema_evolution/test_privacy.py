"""Column privacy through the whole pipeline: what is left out or hashed is in no file but those of `raw_events`, in no
event of Dagster's, no log and no output, however it came; and what is hashed is the hash of the org's own value."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from dagster._serdes import serialize_value
from typer.testing import CliRunner, Result

from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import go_on, ledger, story, unhealed

pytestmark = pytest.mark.slow

SEED = 61
KEY = "a key that is nowhere either"
FIELDS: dict[str, dict[str, Any]] = {
    "Note": {"type": "string", "length": 120},
    "Long": {"type": "long_text"},
    "Mail": {"type": "email"},
    "Day": {"type": "date"},
    "At": {"type": "datetime"},
    "Score": {"type": "double", "precision": 18, "scale": 2},
    "Flag": {"type": "boolean"},
}
"""Fields of which there are three each: `Out_Note__c` is left out, `Hash_Note__c` hashed, `Open_Note__c` neither."""
SETTINGS = {
    "SFCDC_EXCLUDE": "Contact.Out_*,*.MailingAddress,Lead.*",
    "SFCDC_HASH": "*.Hash_*,Contact.Name,Contact.Out_Note__c",
    "SFCDC_HASH_KEY": KEY,
    "SFCDC_SAMPLE_ROWS": "10",
}
SENTINELS = ("SENTINEL", "sentinel", "1911-01-", "777123454321", KEY)
"""What is searched for: in the texts, the addresses, the dates (`1911-` alone is in many a UUID), the numbers that are
private; and the key."""


@dataclass
class Reported:
    """The pipeline, and what it said besides tables."""

    pipeline: EmulatedPipeline
    logged: list[str] = field(default_factory=list)
    printed: dict[str, str] = field(default_factory=dict)
    verified: str = ""
    ids: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def values(self, prefix: str, long: str | None = None) -> dict[str, Any]:
        """Fresh private values; the open fields get none of them."""
        self.count += 1
        text = "Open" if prefix == "Open" else "SENTINEL"
        return {
            f"{prefix}_Note__c": f"{text} {self.count} \N{GRINNING FACE}",
            f"{prefix}_Long__c": long or lines(text, self.count),
            f"{prefix}_Mail__c": f"{text.lower()}-{self.count}@example.com",
            f"{prefix}_Day__c": f"{'1999' if prefix == 'Open' else '1911'}-01-{self.count % 28 + 1:02d}",
            f"{prefix}_At__c": f"{'1999' if prefix == 'Open' else '1911'}-01-01T00:00:{self.count % 60:02d}.123Z",
            f"{prefix}_Score__c": (0 if prefix == "Open" else 7_771_234_543_210_000) + self.count,
            f"{prefix}_Flag__c": bool(self.count % 2),
        }

    def all_values(self) -> dict[str, Any]:
        names = {"LastName": f"SENTINEL {self.count}", "FirstName": "SENTINEL", "MailingCity": "SENTINEL"}
        return self.values("Out") | self.values("Hash") | self.values("Open") | names

    def update(self, name: str, **values: Any) -> None:
        with self.pipeline.org.transaction() as one:
            one.update("Contact", self.ids[name], values)

    def sfcdc(self, *arguments: str) -> Result:
        result = CliRunner().invoke(app, list(arguments))
        self.printed[" ".join(arguments)] = result.stdout + result.stderr
        return result


def lines(text: str, count: int) -> str:
    """A text that is long enough for differences."""
    return "\n".join(f"line {number} of {text} {count}" for number in range(60))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reported]:
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("privacy"), ["Contact", "Lead"], records=6, seed=SEED) as pipeline:
        description = Reported(pipeline)
        handler = logging.Handler(logging.DEBUG)
        handler.emit = lambda record: description.logged.append(record.getMessage() + str(record.exc_info or ""))  # type: ignore[method-assign]
        logging.getLogger().addHandler(handler)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in SETTINGS.items():
                patch.setenv(name, value)
            live(description)
        yield description
        logging.getLogger().removeHandler(handler)


def live(description: Reported) -> None:
    """Day zero, then every way that a value can come by."""
    org, faults = description.pipeline.org, description.pipeline.server.faults
    for kind, options in FIELDS.items():
        for prefix in ("Out", "Hash", "Open"):
            org.setup.add_field("Contact", f"{prefix}_{kind}__c", options)
    names = ("updated", "differed", "gone", "gap", "garbled", "drifted")
    description.ids = dict(zip(names, ids(org, "Contact"), strict=True))
    with org.database.transaction():
        for record_id in description.ids.values():
            org.store.update(org.definitions["Contact"], record_id, stored(description.all_values()))
    description.pipeline.sync()

    with org.transaction() as one:
        one.update("Lead", ids(org, "Lead")[0], {"LastName": "SENTINEL"})
        one.delete("Lead", ids(org, "Lead")[1])
        description.ids["created"] = one.create("Contact", description.all_values())
    description.update("updated", **description.all_values())
    description.update("updated", Hash_Mail__c=None, Out_Mail__c=None, Hash_Day__c=None)
    for name in ("Hash_Long__c", "Out_Long__c", "Open_Long__c"):
        before = str((org.record("Contact", description.ids["differed"]) or {})[name])
        description.update("differed", **{name: before + "\nand one line"})
    with org.transaction() as one:
        one.delete("Contact", description.ids["gone"])
    faults.arm(Fault.INTERNAL_ERROR)
    description.update("gap", **description.all_values())
    faults.arm(Fault.GARBLED_BODY)
    description.update("garbled", **description.all_values())
    description.pipeline.sync()

    faults.arm(Fault.GARBLED_HEADER)
    description.update("garbled", **description.all_values())
    description.pipeline.sync()

    with org.database.transaction():
        org.store.update(org.definitions["Contact"], description.ids["drifted"], stored(description.values("Hash")))
        org.store.update(org.definitions["Contact"], description.ids["updated"], stored(description.values("Out")))
    description.verified = description.sfcdc("verify", "--json").stdout
    description.sfcdc("verify", "--repair")
    description.sfcdc("verify")
    description.sfcdc("status", "--json")
    description.sfcdc("status")
    description.sfcdc("explain", "Contact", description.ids["differed"], "--json")
    description.sfcdc("explain", "Contact", description.ids["updated"])
    description.sfcdc("cut", "--json")


def stored(values: dict[str, Any]) -> dict[str, Any]:
    """As the org keeps them, for changes that no event tells of."""
    return {
        name: milliseconds(value) if "_At__c" in name else float(value) if "Score" in name else value
        for name, value in values.items()
    }


def milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return moment.days * 86_400_000 + moment.seconds * 1000 + moment.microseconds // 1000


@pytest.fixture
def description(shared: Reported, monkeypatch: pytest.MonkeyPatch) -> Reported:
    go_on(shared.pipeline, monkeypatch)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    return shared


def texts_of(value: Any) -> Iterator[str]:
    """A value of a table as texts, whatever it is made of."""
    if isinstance(value, dict):
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_of(each)
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif value is not None:
        yield str(value)


def texts_of_file(path: Path) -> Iterable[str]:
    if path.suffix == ".parquet":
        for row in pq.read_table(path, partitioning=None).to_pylist():
            yield from texts_of(row)
    else:
        yield path.read_bytes().decode("latin-1")


def found_in(texts: Iterable[str], searched: Iterable[str] = SENTINELS) -> list[str]:
    return sorted({text[:200] for text in texts for sentinel in searched if sentinel in text})


def private_files(warehouse: Path) -> dict[str, list[str]]:
    """Files below the warehouse that hold a sentinel, old versions too."""
    files = [path for path in sorted(warehouse.rglob("*")) if path.is_file()]
    assert len(files) > 20
    found = {str(path.relative_to(warehouse)): found_in(texts_of_file(path)) for path in files}
    return {path: texts for path, texts in found.items() if texts}


def test_no_file_but_those_of_raw_events_has_a_private_value(description: Reported) -> None:
    found = private_files(description.pipeline.warehouse)
    assert any(path.startswith("raw_events/") for path in found), "the search finds what is there"
    assert {path: texts for path, texts in found.items() if not path.startswith("raw_events/")} == {}


def test_no_event_of_dagsters_no_log_and_no_output_has_a_private_value(description: Reported) -> None:
    instance = description.pipeline.instance
    runs = [record.dagster_run.run_id for record in instance.get_run_records()]
    assert len(runs) >= 5
    entries = [serialize_value(entry) for run in (*runs, "") for entry in instance.all_logs(run)]
    assert any("example.com" in entry for entry in entries), "samples of rows are among them"
    assert found_in(entries) == []
    assert found_in(description.logged) == []
    assert found_in(description.pipeline.said) == []
    assert len(description.printed) >= 8
    assert {command: found_in([text]) for command, text in description.printed.items() if found_in([text])} == {}


def expected(name: str, kind: str, value: Any) -> Any:
    """A value of the org as `current_state` should have it."""
    if value is None:
        return None
    if name.startswith("Hash_") or name in ("LastName", "FirstName", "Salutation"):
        if kind == "datetime":
            seconds, ms = divmod(value, 1000)
            value = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
        elif kind == "double":
            value = f"{value:.2f}".rstrip("0").rstrip(".")
        elif kind == "boolean":
            value = "true" if value else "false"
        return hmac.new(KEY.encode(), str(value).encode(), hashlib.sha256).hexdigest()
    return date.fromisoformat(value) if kind == "date" else value


def test_hashes_are_the_hmac_of_the_orgs_own_values_and_what_is_left_out_has_no_column(description: Reported) -> None:
    org, rows = description.pipeline.org, description.pipeline.rows("Contact")
    kinds = {f.name: f.type for f in org.definitions["Contact"].stored_fields}
    checked = 0
    for record in org.records("Contact", include_deleted=True):
        row = rows[str(record["Id"])]
        for name in (name for name in kinds if name.startswith("Hash_") or name.endswith("Name")):
            if name in row:
                assert row[name] == expected(name, kinds[name], record[name]), (name, record[name])
                checked += row[name] is not None
    assert checked > 50
    assert not [row for row in rows.values() if row["_in_doubt"]]
    for table in ("current_state", "history", "snapshot"):
        names = {f.name for f in description.pipeline.table(f"{table}/Contact").schema().fields}
        assert {name for name in names if name.startswith(("Out_", "Mailing"))} == set()
        assert {f"Hash_{kind}__c" for kind in FIELDS} < names
    texts = description.pipeline.scan("text_fields/Contact")
    assert {row["field"] for row in texts} == {"Open_Long__c", "Description"} & {row["field"] for row in texts}
    assert "Open_Long__c" in {row["field"] for row in texts}


def test_of_an_object_that_is_left_out_as_a_whole_the_ids_and_what_became_of_them_are_kept(
    description: Reported,
) -> None:
    rows = description.pipeline.rows("Lead")
    assert rows.keys() == {
        str(record["Id"]) for record in description.pipeline.org.records("Lead", include_deleted=True)
    }
    (gone,) = (record_id for record_id, row in rows.items() if row["_is_deleted"])
    assert {name for name in rows[gone] if not name.startswith("_")} == {"Id"}
    versions = [row for row in description.pipeline.all_versions("Lead") if row["_valid_to"] is None]
    assert len(versions) == len(rows)
    assert description.sfcdc("verify", "--entity", "Lead").exit_code == 0


def test_only_the_hashed_text_becomes_suspect_by_a_diff(description: Reported) -> None:
    of_record = [
        each for each in ledger(description.pipeline, "Contact") if each["record_id"] == description.ids["differed"]
    ]
    assert [(each["reason"], each["detail"]) for each in of_record] == [
        ("hashed_diff", "Hash_Long__c: a diff cannot be applied to a hash")
    ]
    assert unhealed(description.pipeline) == []


def test_status_tells_what_is_hidden_and_which_rule_hides_nothing(
    description: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_EXCLUDE", SETTINGS["SFCDC_EXCLUDE"] + ",Contact.Emial")
    privacy = json.loads(description.sfcdc("status", "--json").stdout)["privacy"]
    assert {f"Out_{kind}__c" for kind in FIELDS} | {"MailingCity"} <= set(privacy["left_out"]["Contact"])
    assert set(privacy["hashed"]["Contact"]) == {f"Hash_{kind}__c" for kind in FIELDS} | {
        "FirstName",
        "LastName",
        "Salutation",
    }
    assert (privacy["rules_without_column"], privacy["conflicts"]) == (["Contact.Emial"], {})
    monkeypatch.setenv("SFCDC_HASH", "Contact.Title")
    assert "Contact: current_state/Contact, history/Contact, snapshot/Contact were written with other settings" in (
        description.sfcdc("status").stdout
    )


def test_undecodable_events_are_in_quarantine_without_their_payload(description: Reported) -> None:
    kept = description.pipeline.scan("quarantine")
    assert len(kept) == 2
    assert [(row["payload"], bool(row["error"])) for row in kept] == [(None, True), (None, True)]


def test_verify_compares_hashes_and_knows_nothing_of_what_is_left_out(description: Reported) -> None:
    first = json.loads(description.verified)
    assert {report["entity"] for report in first["entities"]} == {"Contact", "Lead"}
    differences = [each for report in first["entities"] for each in report["differences"]]
    assert {each["record_id"] for each in differences} == {description.ids["drifted"]}
    assert {each["field"] for each in differences} >= {f"Hash_{kind}__c" for kind in ("Note", "Long", "Mail", "Score")}
    assert all(len(each["in_org"]) == len(each["in_table"]) == 64 for each in differences)
    assert description.sfcdc("verify").exit_code == 0
