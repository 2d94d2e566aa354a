"""What a reader of the tables sees while an encryption key is rotated, or destroyed, is what docs/org-changes.md says
in "When an encryption key is rotated or destroyed"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow

HIDDEN = "?????"


@pytest.fixture
def encrypted(make_pipeline: Callable[..., EmulatedPipeline]) -> EmulatedPipeline:
    """Accounts whose site was Berlin and is Ulm, encrypted with a key that was archived a minute later."""
    pipeline = make_pipeline("Account", records=4)
    pipeline.org.setup.encrypt_field("Account", "Site")
    change(pipeline, Site="Berlin")
    pipeline.sync()
    change(pipeline, Site="Ulm")
    pipeline.sync()
    clock.sleep(60)
    pipeline.org.encryption_keys.rotate()
    clock.sleep(60)
    return pipeline


def change(pipeline: EmulatedPipeline, **values: str) -> None:
    with pipeline.org.transaction() as work:
        for account in ids(pipeline.org, "Account"):
            work.update("Account", account, values)


def sites(pipeline: EmulatedPipeline) -> dict[str, str]:
    return {record_id: row["Site"] for record_id, row in pipeline.rows("Account").items()}


def earlier_sites(pipeline: EmulatedPipeline, account: str) -> list[str]:
    """One after another, without repetitions."""
    of_it = [each for each in pipeline.all_versions("Account") if each["Id"] == account]
    found = [each["Site"] for each in sorted(of_it, key=lambda each: each["_position"])]
    return list(dict.fromkeys(found))


def verify(*arguments: str) -> int:
    return CliRunner().invoke(app, ["verify", *arguments]).exit_code


@pytest.mark.parametrize("moves", [False, True])
def test_rotating_a_key_and_encrypting_again_changes_nothing(encrypted: EmulatedPipeline, moves: bool) -> None:
    encrypted.org.settings = replace(encrypted.org.settings, reencryption_moves_modstamp=moves)
    before = encrypted.rows("Account")
    encrypted.org.encryption_keys.encrypt_again()
    assert verify("--repair") == 0
    encrypted.sync()
    assert encrypted.rows("Account") == before


def test_a_destroyed_key_changes_nothing_until_records_are_read_and_history_keeps_what_was(
    encrypted: EmulatedPipeline,
) -> None:
    first, *others = ids(encrypted.org, "Account")
    encrypted.org.encryption_keys.destroy()
    with encrypted.org.transaction() as work:
        work.update("Account", first, {"Site": "Bonn"})
    encrypted.sync()
    assert sites(encrypted) == {first: "Bonn", **dict.fromkeys(others, "Ulm")}
    verify("--repair")
    encrypted.sync()
    assert sites(encrypted) == {first: "Bonn", **dict.fromkeys(others, HIDDEN)}
    assert all(earlier_sites(encrypted, each)[-3:] == ["Berlin", "Ulm", HIDDEN] for each in others)


def test_after_a_backup_of_the_key_is_imported_a_repair_brings_the_values_back(encrypted: EmulatedPipeline) -> None:
    encrypted.org.encryption_keys.destroy()
    verify("--repair")
    encrypted.sync()
    assert set(sites(encrypted).values()) == {HIDDEN}
    encrypted.org.encryption_keys.restore()
    verify("--repair")
    encrypted.sync()
    assert set(sites(encrypted).values()) == {"Ulm"}
    encrypted.assert_equal_to_the_org()
