"""Playing scenarios from another process."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, text
from sfcdc_assets.emulator.control.feed_control import event_json
from sfcdc_assets.emulator.errors import ScenarioRefusedError, UnknownScenarioError
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.scenarios.played_steps import WatchedStep, watched
from sfcdc_assets.emulator.scenarios.scenario import scenario_of, scenarios
from sfcdc_assets.emulator.serving.running_org import RunningOrg


def scenario_routes(running: RunningOrg) -> list[Route]:
    """`GET /emulator/scenarios` describes them, `POST /emulator/scenarios/{scenario}` plays one and answers its steps:
    what was done, the transactions (key, commit number, and the records with their changes) and the decoded events."""

    def listing(_parameters: Parameters) -> Any:
        return {"scenarios": {each.name: each.described for each in scenarios().values()}}

    def play(parameters: Parameters) -> Any:
        try:
            scenario = scenario_of(text(parameters, "scenario"))
            steps = [step_json(each) for each in watched(running.scenarios.steps(scenario), running.feed, scenario)]
        except (UnknownScenarioError, ScenarioRefusedError) as error:
            raise ControlError(str(error)) from None
        return {"title": scenario.title, "received": scenario.received, "steps": steps}

    return [control_route("/scenarios", "GET", listing), control_route("/scenarios/{scenario}", "POST", play)]


def step_json(step: WatchedStep) -> dict[str, Any]:
    """Return a step with what it did, as JSON."""
    return {
        "step": step.played.said,
        "transactions": [_shown(each) for each in step.played.transactions],
        "events": [{"channel": channel, **event_json(event)} for channel, event in step.events],
    }


def _shown(transaction: Transaction) -> dict[str, Any]:
    changes = [
        {"entity": each.entity, "id": each.record_id, "change_type": each.change_type} for each in transaction.changes
    ]
    return {
        "transaction_key": transaction.transaction_key,
        "commit_number": transaction.commit_number,
        "changes": changes,
    }
