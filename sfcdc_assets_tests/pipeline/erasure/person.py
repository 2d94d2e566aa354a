"""A person in an org: a contact with values that nobody else has, through everything that a pipeline does with it."""

from __future__ import annotations

from typing import Any

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

TEXT = "Prefers to be called Zambrowitz before noon; gate code 7719-Zx. "
VALUES = {
    "a last name": "Zambrowitzka",
    "a first name": "Quixleya",
    "an e-mail address": "zambrowitzka@quixley.example",
    "a new e-mail address": "quixleya.z@zambrowitz.example",
    "a last name of before": "Brzeczykowa",
    "a long text": TEXT.strip(),
    "its new version": "gate code 8820-Qy",
    "a value of a gap": "Grzegrzolkowa",
    "a title": "Oberzambrowitzmeisterin",
}
"""By their names; each is in some table, at some time."""
ENTITIES = ("Account", "Contact")


def live(pipeline: EmulatedPipeline) -> str:
    """Let the person be copied, change with others and alone, be suspect and read back; returns the Id."""
    org = pipeline.org
    others = ids(org, "Contact")
    with org.transaction() as one:
        person = one.create("Contact", {"LastName": VALUES["a last name of before"], "Description": TEXT * 40})
    pipeline.sync()
    with org.transaction() as one:
        one.update("Contact", person, {"LastName": VALUES["a last name"], "FirstName": VALUES["a first name"]})
        one.update("Contact", others[0], {"LastName": "Neighbour"})
    with org.transaction() as one:
        one.update("Contact", person, {"Email": VALUES["an e-mail address"]})
        one.update("Account", ids(org, "Account")[0], {"Name": "Somebody's employer"})
    pipeline.sync()
    with org.transaction() as one:
        one.update("Contact", person, {"Description": TEXT * 40 + VALUES["its new version"]})
    with org.transaction() as one:
        one.update("Contact", person, {"Email": VALUES["a new e-mail address"]})
    pipeline.sync()
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    with org.transaction() as one:
        one.update("Contact", person, {"LastName": VALUES["a value of a gap"]})
    pipeline.sync()
    pipeline.server.faults.arm(Fault.GARBLED_BODY)
    with org.transaction() as one:
        one.update("Contact", person, {"Title": VALUES["a title"]})
    pipeline.sync()
    return str(person)


def others_of(rows: dict[str, dict[str, Any]], person: str) -> dict[str, dict[str, Any]]:
    """The rows of all other records."""
    return {record_id: row for record_id, row in rows.items() if record_id != person}
