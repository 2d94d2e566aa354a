"""What the tests of versions from field history share: the command, the versions, and the org's own log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.oracle import living_at


def before(*entities: str, options: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What the command says of these entities."""
    result = sfcdc("history-before", *(f"--entity={each}" for each in entities), "--json", *options)
    assert result.exit_code == 0, (result.output, result.stderr)
    found: list[dict[str, Any]] = json.loads(result.stdout)["entities"]
    return found


def past_of(pipeline: EmulatedPipeline, entity: str) -> list[dict[str, Any]]:
    return [row for row in pipeline.all_versions(entity) if row["_change_type"] == "FIELD_HISTORY"]


def stamp_of(transaction: Transaction) -> int:
    """When it began, which its rows say, in seconds: it may have been committed in the next one."""
    stamps = [change.after.get("SystemModstamp") for change in transaction.changes if change.after is not None]
    return max((int(each) for each in stamps if isinstance(each, int)), default=transaction.commit_timestamp) // 1000


def states(org: EmulatedOrg, entity: str) -> list[tuple[datetime, dict[str, dict[str, Any]]]]:
    """The seconds whose stamp a change has, with the live records at the end of each, oldest first."""
    last = {stamp_of(each): each.commit_number for each in org.transactions()}
    return [(datetime.fromtimestamp(at, UTC), living_at(org, entity, last[at])) for at in sorted(last)]


def assert_true_to_the_log(org: EmulatedOrg, entity: str, past: Sequence[Mapping[str, Any]]) -> int:
    """Whatever a version is certain of was so at the end of each second of its time; returns how much that was."""
    known, compared = states(org, entity), 0
    for version in past:
        began = [state for at, state in known if at <= version["_valid_from"]][-1:]
        within = [state for at, state in known if version["_valid_from"] < at < version["_valid_to"]]
        for state in began + within:
            truth = state[version["Id"]]
            found = {name: version[name] for name in version["_certain_fields"]}
            assert found == {name: truth[name] for name in found}, version
            compared += len(found)
    return compared


def refused_past(entity: str) -> str:
    result = sfcdc("history-before", "--entity", entity)
    assert result.exit_code == 1
    return result.stderr
