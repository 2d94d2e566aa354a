"""Names of entities as people type them: any case will do, and a mistyped one is refused with the nearest name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.wanted_entities import NoSuchEntity, entity_named
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.stepwise import connected


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A warehouse in which two entities have folders; nothing is read of them."""
    for layer in ("snapshot", "history"):
        for entity in ("Account", "Invoice_Statement__c"):
            (tmp_path / "warehouse" / layer / entity).mkdir(parents=True)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    return tmp_path / "warehouse"


@pytest.mark.parametrize("given", ["Account", "account", "ACCOUNT"])
def test_an_entity_is_known_in_any_case(given: str) -> None:
    assert entity_named(given, ["Account", "Contact"], "unknown") == "Account"


def test_its_own_case_counts_where_two_names_differ_in_nothing_else() -> None:
    assert entity_named("aB__c", ["AB__c", "aB__c"], "unknown") == "aB__c"
    with pytest.raises(NoSuchEntity, match="Did you mean"):
        entity_named("ab__c", ["AB__c", "aB__c"], "unknown")


@pytest.mark.parametrize(
    "command",
    [
        ("accept", "--entity", "Acount"),
        ("accept", "--entity", "account", "--entity", "acount"),
        ("rebuild", "--entity", "acount"),
        ("explain", "acount", "001000000000001"),
    ],
)
def test_a_mistyped_entity_is_refused_with_the_nearest_name(copied: Path, command: tuple[str, ...]) -> None:
    said = refusal(sfcdc(*command))
    assert "acount: " in said.lower()
    assert said.endswith("Did you mean Account?")


def test_a_name_that_is_like_no_other_is_refused_with_all_that_are_known(copied: Path) -> None:
    said = refusal(sfcdc("accept", "--entity", "Xyzzy"))
    assert said.endswith("Xyzzy: no entity of this name was copied. Known are: Account, Invoice_Statement__c")


def test_a_mistyped_field_is_refused_with_the_nearest_name(make_pipeline: Callable[..., EmulatedPipeline]) -> None:
    with connected(make_pipeline("Account", records=1)) as copy:
        copy.snapshot()
        copy.catch_up()
        (record_id,) = ids(copy.emulated, "Account")
    assert refusal(sfcdc("explain", "account", record_id, "Nam")).endswith(
        "Account has no field Nam. Did you mean Name?"
    )
    shown = sfcdc("explain", "account", record_id, "name", "--json")
    assert [json.loads(line)["field"] for line in shown.stdout.splitlines()] == ["Name"]


def test_verify_compares_an_entity_that_is_written_in_lower_case(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    with connected(make_pipeline("Account", records=2)) as copy:
        copy.snapshot()
        copy.catch_up()
    compared = sfcdc("verify", "--entity", "account")
    assert (compared.exit_code, "Equal: all 2 records" in compared.stdout) == (0, True), compared.output
    assert refusal(sfcdc("verify", "--entity", "Acount")).endswith("carries it. Did you mean Account?")
    assert Warehouse(load_settings().warehouse).entities("snapshot") == ("Account",)
