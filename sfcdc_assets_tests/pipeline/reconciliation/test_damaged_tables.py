"""Commands over a damaged warehouse: each names what is damaged and what mends it, and goes on with the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.lake.test_damage import cut_off, garble
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow


@pytest.fixture
def org(synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
    return synced


def files(org: EmulatedPipeline, table: str) -> list[Path]:
    return sorted((org.warehouse / table).rglob("*.parquet"))


def live_files(org: EmulatedPipeline, table: str) -> list[Path]:
    """Those of the newest version."""
    return [Path(uri.removeprefix("file://")) for uri in org.table(table).file_uris()]


@pytest.mark.parametrize("layer", ["current_state", "history", "snapshot"])
@pytest.mark.parametrize("harm", [Path.unlink, cut_off])
def test_status_and_verify_name_a_damaged_table_and_go_on_with_the_others(
    org: EmulatedPipeline, layer: str, harm: Callable[[Path], None]
) -> None:
    with org.org.transaction() as one:
        one.update("Account", ids(org.org, "Account")[0], {"Name": "supersedes a version"})
    org.sync()
    path = live_files(org, f"{layer}/Account")[0]
    harm(path)
    description = sfcdc("status", "--json")
    assert description.exit_code == 1
    status = json.loads(description.stdout)
    (damage,) = status["damaged"]
    assert (damage["table"], damage["entity"]) == (f"{layer}/Account", "Account")
    assert path.name in damage["message"]
    command = "rebuild --from-org --entity Account" if layer == "snapshot" else "rebuild --entity Account"
    assert f"`sfcdc {command}`" in damage["message"]
    account, contact = status["entities"]
    assert account["damaged"] == [damage["message"]]
    assert (contact["entity"], contact["rows"], contact["up_to_date"]) == ("Contact", 30, True)
    shown = sfcdc("status")
    assert shown.exit_code == 1
    assert damage["message"] in shown.stdout
    assert "damaged" in shown.stdout

    compared = sfcdc("verify", "--json")
    assert compared.exit_code == 1, compared.output
    assert damage["message"] in compared.stderr
    result = json.loads(compared.stdout)
    assert result["equal"] is False
    assert [each["entity"] for each in result["entities"]] == ["Contact"]

    assert sfcdc(*command.split()).exit_code == 0
    assert sfcdc("status").exit_code == 0
    assert sfcdc("verify").exit_code == 0


def test_the_command_that_is_named_for_a_damaged_log_mends_it(org: EmulatedPipeline) -> None:
    for path in (org.warehouse / "current_state/Account/_delta_log").glob("*.json"):
        path.write_text("{")
    description = sfcdc("status", "--json")
    assert description.exit_code == 1
    (damage,) = json.loads(description.stdout)["damaged"]
    assert "current_state/Account is damaged: its log cannot be read" in damage["message"]
    assert sfcdc("rebuild", "--entity", "Account").exit_code == 0
    assert sfcdc("verify").exit_code == 0


@pytest.mark.parametrize("harm", [Path.unlink, cut_off, garble])
def test_a_damaged_file_of_events_fails_its_entity_by_name_and_a_rebuild_before_anything_changes(
    org: EmulatedPipeline, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with org.org.transaction() as both:
        both.update("Account", ids(org.org, "Account")[0], {"Name": "in a damaged file", "Description": "x" * 5000})
        both.update("Contact", ids(org.org, "Contact")[0], {"Title": "in another"})
    org.sync()
    before = {layer: org.scan(f"{layer}/Account") for layer in ("text_fields", "history", "current_state")}
    (path,) = files(org, "raw_events/entity_name=Account")
    harm(path)
    said = refusal(sfcdc("rebuild", "--entity", "Account"))
    assert f"Table raw_events (Account) is damaged: file entity_name=Account/{path.name}" in said
    assert "`sfcdc rebuild --from-org --entity Account`" in said
    assert {layer: org.scan(f"{layer}/Account") for layer in before} == before

    with org.org.transaction() as both:
        both.update("Contact", ids(org.org, "Contact")[0], {"Title": "goes on"})
    org.sync()
    org.assert_equal_to_the_org(["Contact"])
    mended = sfcdc("rebuild", "--from-org", "--entity", "Account")
    assert mended.exit_code == 0, mended.stderr
    org.assert_equal_to_the_org()


def test_events_that_wait_in_a_damaged_file_fail_their_entity_with_the_command(org: EmulatedPipeline) -> None:
    with org.org.transaction() as both:
        both.update("Account", ids(org.org, "Account")[0], {"Name": "in a damaged file"})
        both.update("Contact", ids(org.org, "Contact")[0], {"Title": "in another"})
    org.sensor_tick()
    (path,) = files(org, "raw_events/entity_name=Account")
    cut_off(path)
    with pytest.raises(RunFailed, match=r"Failed: Account: Table raw_events \(Account\) is damaged: .*--from-org"):
        org.sync()
    org.assert_equal_to_the_org(["Contact"])


@pytest.fixture
def small_disk(org: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The warehouse on a file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        org.warehouse = Path(shutil.copytree(org.warehouse, folder / "warehouse"))
        monkeypatch.setenv("SFCDC_WAREHOUSE", str(org.warehouse))
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def test_a_full_disk_ends_a_sync_in_one_sentence_and_the_next_one_goes_on(
    org: EmulatedPipeline, small_disk: Path
) -> None:
    dice = Random(5)
    with org.org.transaction() as many:
        for record_id in ids(org.org, "Account"):
            many.update("Account", record_id, {"Description": dice.randbytes(9_000).hex()})
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - 100_000))
    ended = sfcdc("sync", "--until-caught-up")
    assert (ended.exit_code, ended.stdout) == (1, "")
    # What a sync waits for, and how far it is, has lines of its own before.
    *progress, said = ended.stderr.strip().splitlines()
    assert not [line for line in progress if line.startswith("sfcdc: ") or "up to date" in line or "Traceback" in line]
    assert said.startswith("sfcdc: Table raw_events could not be written (/data/ChangeEvents at position ")
    assert "no space left on device" in said
    assert "Make room below " in said
    filler.unlink()
    org.sync()
    org.assert_equal_to_the_org()
