"""Playing scenarios from another process."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, text
from sfcdc_assets.emulator.scenarios import SCENARIOS, ScenarioStage, UnknownScenarioError
from sfcdc_assets.emulator.traffic_errors import TrafficRefusedError
from sfcdc_assets.emulator.transaction import Transaction


def scenario_routes(stage: ScenarioStage) -> list[Route]:
    """`GET /emulator/scenarios` describes them, `POST /emulator/scenarios/{scenario}` plays one and answers its
    transactions: key, commit number, and the records with their changes."""

    def listing(parameters: Parameters) -> Any:
        return {"scenarios": {each.name: {"title": each.title, "what": each.what} for each in SCENARIOS.values()}}

    def play(parameters: Parameters) -> Any:
        try:
            return {"transactions": [_shown(each) for each in stage.play(text(parameters, "scenario"))]}
        except (UnknownScenarioError, TrafficRefusedError) as error:
            raise ControlError(str(error)) from None

    return [control_route("/scenarios", "GET", listing), control_route("/scenarios/{scenario}", "POST", play)]


def _shown(transaction: Transaction) -> dict[str, Any]:
    changes = [
        {"entity": each.entity, "id": each.record_id, "change_type": each.change_type} for each in transaction.changes
    ]
    return {
        "transaction_key": transaction.transaction_key,
        "commit_number": transaction.commit_number,
        "changes": changes,
    }
