"""Settings of privacy that change while tables exist: nothing is hidden by half, the way out leaves nothing behind."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.cli.main import app
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.schema_evolution.test_privacy import KEY, texts_of_file


def hashed(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def layers_with(pipeline: EmulatedPipeline, searched: set[str]) -> set[str]:
    """Folders of the warehouse with a row, of whatever version, that has one of the texts as a value. Accounts have
    dates too, and times of a day begin as the day does."""
    files = [path for path in pipeline.warehouse.rglob("*.parquet") if "Account" not in path.parts]
    found = [path.relative_to(pipeline.warehouse) for path in files if searched & set(texts_of_file(path))]
    return {path.parts[0] for path in found}


def test_settings_that_tables_do_not_keep_stop_the_entity_until_it_is_copied_again(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_id = ids(synced.org, "Contact")[0]
    phones = {str(record["Phone"]) for record in synced.org.records("Contact") if record["Phone"]}
    days = {str(record["Birthdate"]) for record in synced.org.records("Contact") if record["Birthdate"]}
    with synced.org.transaction() as one:
        for each in ids(synced.org, "Contact"):
            one.update("Contact", each, {"Title": "supersedes what was read"})
    synced.sync()
    assert layers_with(synced, phones) >= {"current_state", "history", "snapshot"}
    assert layers_with(synced, days) >= {"current_state", "history", "snapshot"}

    monkeypatch.setenv("SFCDC_EXCLUDE", "Contact.Phone")
    monkeypatch.setenv("SFCDC_HASH", "Contact.Birthdate")
    monkeypatch.setenv("SFCDC_HASH_KEY", KEY)
    with pytest.raises(RunFailed) as failed:
        synced.sync()
    for part in (
        "in history/Contact Phone is to be left out, Birthdate is to be hashed",
        "in snapshot/Contact",
        "`sfcdc rebuild --from-org --entity Contact`",
    ):
        assert part in str(failed.value)
    description = CliRunner().invoke(app, ["verify", "--entity", "Contact"])
    assert (description.exit_code, "in its table Phone is to be left out" in description.stderr) == (1, True)

    description = CliRunner().invoke(app, ["rebuild", "--from-org", "--entity", "Contact"])
    assert description.exit_code == 0, description.stderr
    assert layers_with(synced, phones | days) == set()
    rows = synced.rows("Contact")
    assert all("Phone" not in row for row in rows.values())
    assert {row["Birthdate"] for row in rows.values()} - {None} == {hashed(day) for day in days}

    monkeypatch.delenv("SFCDC_EXCLUDE")
    monkeypatch.setenv("SFCDC_HASH", "Contact.Birthdate,Contact.Phone")
    with synced.org.transaction() as one:
        one.update("Contact", record_id, {"Title": "1"})
    synced.sync()
    found = {row["Phone"] for row in synced.rows("Contact").values()} - {None}
    assert found == {hashed(phone) for phone in phones}, "a column that comes is new, and filled from the org"
    synced.sync()

    monkeypatch.setenv("SFCDC_HASH_KEY", "another key")
    with pytest.raises(RunFailed, match="Birthdate is to be hashed with another key"):
        synced.sync()
