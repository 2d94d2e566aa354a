"""`sfcdc forget` after a whole history of a person: no byte of a value is left, everybody else is as before, and
nothing brings the person back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from sfcdc_assets import ChangesExpired, changes_since, open_cut
from sfcdc_assets.cli.main import app
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.leaks import files_with
from sfcdc_assets_tests.pipeline.commits import Died, before_commit, die
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, assert_same_rows, expected_rows, ids
from sfcdc_assets_tests.pipeline.erasure.person import VALUES, live, others_of
from sfcdc_assets_tests.pipeline.fixtures import copied, keep_clock, only_settings_of_tests

pytestmark = pytest.mark.slow

LAYERS = ("current_state", "history", "text_fields")


@pytest.fixture(scope="module")
def lived(day_zero: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A warehouse with the person in it, kept for copies, and the person's Id."""
    folder = tmp_path_factory.mktemp("lived") / "org"
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        patch.chdir(folder.parent)
        patch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
        with copied(day_zero, folder, patch) as pipeline:
            person = live(pipeline)
            keep_clock(pipeline.org, folder)
    return folder, person


@pytest.fixture
def person(lived: tuple[Path, str]) -> str:
    return lived[1]


@pytest.fixture
def pipeline(lived: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
    with copied(lived[0], tmp_path / "org", monkeypatch) as found:
        yield found


def forget(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["forget", "--json", *arguments])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if code == 0 else done.output


def rows_of(pipeline: EmulatedPipeline, person: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of everybody else in each layer, without the number of the batch that wrote them."""
    found = {}
    for layer in LAYERS:
        rows = [{**row, "_batch": None} for row in pipeline.scan(f"{layer}/Contact")]
        found[layer] = sorted((r for r in rows if person not in (r.get("Id"), r.get("record_id"))), key=str)
    return found


def assert_only_the_others(pipeline: EmulatedPipeline, person: str) -> None:
    assert files_with(VALUES, pipeline.warehouse) == []
    assert_same_rows("Contact", pipeline.rows("Contact"), others_of(expected_rows(pipeline.org, "Contact"), person))
    pipeline.assert_equal_to_the_org(["Account"])


def test_no_byte_of_a_value_is_left_and_nothing_brings_the_person_back(pipeline: EmulatedPipeline, person: str) -> None:
    kept = files_with(VALUES, pipeline.warehouse)
    assert [name for name in VALUES if not any(each.startswith(f"{name} in ") for each in kept)] == []
    _, token = changes_since(str(pipeline.warehouse), "Contact")
    before, positions = rows_of(pipeline, person), sorted(row["position"] for row in pipeline.scan("raw_events"))

    receipt = forget("--entity", "contact", "--id", person[:15])
    assert {"raw_events", "current_state/Contact", "history/Contact", "snapshot/Contact"} <= set(receipt["erased"])

    assert_only_the_others(pipeline, person)
    assert rows_of(pipeline, person) == before
    events = pipeline.scan("raw_events")
    assert sorted(row["position"] for row in events) == positions
    assert not any(person in row["record_ids"] for row in events)
    rows = pipeline.scan("erasure_receipts")
    assert [row["step"] for row in sorted(rows, key=lambda row: row["noted_at"])] == ["begun", "done"]
    assert person not in str(rows)
    done = next(row for row in rows if row["step"] == "done")
    assert done["record_sha256"] == receipt["record_sha256"][0]
    assert dict(done["erased"]) == receipt["erased"]

    pipeline.sync()
    assert_only_the_others(pipeline, person)
    with pytest.raises(ChangesExpired, match="erased"):
        changes_since(str(pipeline.warehouse), "Contact", token)
    rebuilt = CliRunner().invoke(app, ["rebuild", "--entity", "Contact"])
    assert rebuilt.exit_code == 0, rebuilt.output
    assert_only_the_others(pipeline, person)
    assert rows_of(pipeline, person) == before
    assert "Contact" in str(open_cut(str(pipeline.warehouse)).as_of)
    checked = CliRunner().invoke(app, ["verify"])
    assert checked.exit_code == 0, checked.output
    assert_only_the_others(pipeline, person)


def test_samples_in_dagster_go_with_the_record(
    pipeline: EmulatedPipeline, person: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("SFCDC_SAMPLE_ROWS", "10")
    with dg.DagsterInstance.get() as instance:
        pipeline.instance = instance
        with pipeline.org.transaction() as one:
            one.update("Contact", person, {"FirstName": "Ada", "LastName": VALUES["a last name"]})
        pipeline.sync()
        assert files_with(VALUES, home) != []
        monkeypatch.delenv("SFCDC_SAMPLE_ROWS")
        done = forget("--entity", "Contact", "--id", person)
        assert done["samples_deleted"] > 0
        assert files_with(VALUES, home, pipeline.warehouse) == []
        assert instance.get_materialized_partitions(dg.AssetKey(["salesforce", "current_state"])) == {"Contact"}
        pipeline.sync()
    assert files_with(VALUES, home, pipeline.warehouse) == []


def test_a_stream_that_begins_at_its_earliest_event_brings_nothing_back(
    pipeline: EmulatedPipeline, person: str
) -> None:
    forget("--entity", "Contact", "--id", person)
    pipeline.server.bus.expire()
    with pipeline.org.transaction() as one:
        one.update("Contact", ids(pipeline.org, "Contact")[1], {"LastName": "After the break"})
    pipeline.sync()
    pipeline.sync()
    assert_only_the_others(pipeline, person)
    assert "After the break" in {row["LastName"] for row in pipeline.scan("current_state/Contact")}


def test_an_event_that_names_others_too_goes_on_as_theirs(pipeline: EmulatedPipeline, person: str) -> None:
    other = next(each for each in ids(pipeline.org, "Contact") if each != person)
    with pipeline.org.transaction() as one:
        for each in (person, other):
            one.update("Contact", each, {"Department": "The same for both"})
    pipeline.sync()
    (event,) = (row for row in pipeline.scan("raw_events") if len(row["record_ids"]) > 1)
    before = rows_of(pipeline, person)
    forget("--entity", "Contact", "--id", person)
    (kept,) = (row for row in pipeline.scan("raw_events") if row["position"] == event["position"])
    assert kept["record_ids"] == [other]
    assert person.encode() not in kept["payload"]
    assert {**kept, "record_ids": 0, "payload": 0} == {**event, "record_ids": 0, "payload": 0}
    rebuilt = CliRunner().invoke(app, ["rebuild", "--entity", "Contact"])
    assert rebuilt.exit_code == 0, rebuilt.output
    assert rows_of(pipeline, person) == before
    assert_only_the_others(pipeline, person)


@pytest.mark.parametrize("policy", ["refuse", "new-life"])
def test_a_new_event_is_handled_as_the_receipt_says(pipeline: EmulatedPipeline, person: str, policy: str) -> None:
    forget("--entity", "Contact", "--id", person, "--on-new-event", policy)
    clock.sleep(1.0)  # an event of the second in which it was erased is one of before
    with pipeline.org.transaction() as one:
        one.update("Contact", person, {"LastName": "Somebody anew"})
        one.update("Contact", ids(pipeline.org, "Contact")[0], {"LastName": "Another"})
    pipeline.sync()
    if policy == "refuse":
        assert_only_the_others(pipeline, person)
        assert files_with({"a new name": "Somebody anew"}, pipeline.warehouse) == []
    else:
        pipeline.assert_equal_to_the_org()
        assert all(row["_valid_from"] is not None for row in pipeline.all_versions("Contact"))
        old = {name: VALUES[name] for name in ("a last name", "a last name of before", "an e-mail address")}
        assert files_with(old, pipeline.warehouse) == [], "only what the org shows now"
        assert CliRunner().invoke(app, ["rebuild", "--entity", "Contact"]).exit_code == 0
        pipeline.assert_equal_to_the_org()
        assert files_with(old, pipeline.warehouse) == []


def test_who_is_deleted_in_the_org_afterwards_does_not_come_back_from_its_recycle_bin(
    pipeline: EmulatedPipeline, person: str
) -> None:
    forget("--entity", "Contact", "--id", person, "--on-new-event", "new-life")
    with pipeline.org.transaction() as one:
        one.delete("Contact", person)
    pipeline.sync()
    assert CliRunner().invoke(app, ["rebuild", "--from-org", "--entity", "Contact"]).exit_code == 0
    pipeline.sync()
    assert files_with(VALUES, pipeline.warehouse) == []
    assert_only_the_others(pipeline, person)


def test_unknown_and_mistyped_ids_change_nothing(pipeline: EmulatedPipeline, person: str) -> None:
    versions = pipeline.versions()
    unknown = person[:12] + "zzz"
    assert "no table has a record" in forget("--entity", "Contact", "--id", person, "--id", unknown, code=1)
    mistyped = person[:-1] + ("A" if person[-1] != "A" else "B")
    assert "last three characters" in forget("--entity", "Contact", "--id", mistyped, code=1)
    assert "not a Salesforce id" in forget("--entity", "Contact", "--id", "Ada", code=1)
    assert "Did you mean Contact" in forget("--entity", "Contacts", "--id", person, code=1)
    assert "is not given" in forget("--entity", "Contact", code=1)
    assert pipeline.versions() == versions
    assert not (pipeline.warehouse / "erasure_receipts").exists()


def test_a_dry_run_says_where_and_changes_nothing(pipeline: EmulatedPipeline, person: str, tmp_path: Path) -> None:
    versions, listed = pipeline.versions(), tmp_path / "ids.txt"
    listed.write_text(f"{person}\n\n")
    found = forget("--entity", "CONTACT", "--ids-file", str(listed), "--dry-run")
    assert found["rows"]["current_state/Contact"] == 1
    assert found["rows"]["raw_events"] > 5
    assert found["rows"]["quarantine"] == 1
    assert pipeline.versions() == versions
    assert files_with(VALUES, pipeline.warehouse) != []


@pytest.mark.parametrize("commit", [5, *(pytest.param(at, marks=pytest.mark.soak) for at in (2, 8, 14))])
def test_killed_before_any_commit_it_is_completed_by_the_next(
    pipeline: EmulatedPipeline, person: str, commit: int
) -> None:
    with before_commit(commit, die) as commits, suppress(Died):
        CliRunner().invoke(app, ["forget", "--entity", "Contact", "--id", person])
    assert commits.happened_at is not None or commit > commits.begun
    pipeline.sync()
    forget("--entity", "Contact", "--id", person)
    assert_only_the_others(pipeline, person)


@pytest.mark.parametrize("commit", [2, *(pytest.param(at, marks=pytest.mark.soak) for at in (1, 3, 4, 5))])
def test_a_run_that_has_read_the_person_before_does_not_write_it_afterwards(
    pipeline: EmulatedPipeline, person: str, commit: int
) -> None:
    with pipeline.org.transaction() as one:
        one.update("Contact", person, {"LastName": VALUES["a last name"]})
        one.update("Contact", ids(pipeline.org, "Contact")[0], {"LastName": "Another"})

    def erased() -> None:
        forget("--entity", "Contact", "--id", person)

    with before_commit(commit, erased) as commits:
        pipeline.sync()
    assert commits.happened_at is not None
    pipeline.sync()
    assert_only_the_others(pipeline, person)
    assert Warehouse(str(pipeline.warehouse)).entities("current_state") == ("Account", "Contact")
