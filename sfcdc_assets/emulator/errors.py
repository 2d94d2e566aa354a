"""Errors of the emulated org. Those an API caller may meet carry Salesforce's own error code and message."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path

from sfcdc_assets.runtime.errors import SfcdcError


class ApiError(SfcdcError):
    """A request the org refuses, with the `errorCode` and `message` Salesforce answers (docs/salesforce-streams.md,
    "REST errors")."""

    def __init__(self, error_code: str, message: str, fields: tuple[str, ...] = (), status: int = 400) -> None:
        self.error_code = error_code
        # JSON can spell half a character, which a message may repeat and no answer can hold.
        self.message = message.encode("utf-8", "replace").decode()
        self.fields = tuple(field.encode("utf-8", "replace").decode() for field in fields)
        self.status = status
        super().__init__(f"{error_code}: {self.message}")


class RecordError(ApiError):
    """A record that may not be saved, deleted or restored as asked. Nothing of it has been written."""


class QueryError(ApiError):
    """A SOQL query that the org does not accept: MALFORMED_QUERY, INVALID_FIELD, INVALID_TYPE ..."""


class ObjectDefinitionError(SfcdcError):
    """An object definition is wrong. Names the file or object, the field and what is the matter."""

    def __init__(self, source: Path | str, problem: str) -> None:
        self.source = source
        self.problem = problem
        super().__init__(f"object definition {source}: {problem}; correct it as objects/Account.yaml shows.")


class NestedTransactionError(SfcdcError):
    """A transaction was started inside another one of the same thread."""

    def __init__(self) -> None:
        super().__init__("a transaction is already open in this thread; use its unit of work instead of a second one.")


class OrgUnavailableError(SfcdcError):
    """The org cannot answer now. What was to be written is undone."""


class DatabaseFullError(OrgUnavailableError):
    """The org's file cannot be written, because its disk is full or fails."""

    def __init__(self, path: Path | None, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path or 'the database'} cannot be written: {reason}. Free some space on that disk; the org goes on then."
        )


class OrgStoppingError(OrgUnavailableError):
    """The org ends while a statement runs, or has ended. Start it again."""

    def __init__(self) -> None:
        super().__init__("the emulated org is being stopped. Start it again.")


class OrgInUseError(SfcdcError):
    """The folder's org is open already."""

    def __init__(self, directory: Path, holder: str) -> None:
        self.directory = directory
        super().__init__(
            f"The emulated org in {directory} is in use{f' by process {holder}' if holder else ''}. "
            "Stop that process, or choose another folder with --dir."
        )


class TrafficRefusedError(SfcdcError):
    """The org refused so many generated transactions in a row that none will ever pass."""

    def __init__(self, refused: int, last: str) -> None:
        self.refused = refused
        self.last = last
        super().__init__(
            f"The org refused {refused} generated transactions in a row, the last one with: {last}. "
            "Relax the object definition that this names."
        )


class ReplayIdCorruptedError(SfcdcError):
    """A replay id is not one of this stream: malformed, older than retention, or from before the org was moved.

    The bus does not tell these apart, and neither does Salesforce (docs/salesforce-streams.md, "Replay ids").
    """

    def __init__(self, replay: bytes) -> None:
        self.replay = replay
        super().__init__(
            f"The replay id {replay.hex()} is corrupted or outside the retention window. "
            "Subscribe from EARLIEST or LATEST, or from an id of the last 72 hours."
        )


class ReplayIdMissingError(SfcdcError):
    """A subscription from CUSTOM came without a replay id."""

    def __init__(self) -> None:
        super().__init__("The replay preset CUSTOM needs a replay id. Send the id of the last processed event.")


class UnknownReplayPresetError(SfcdcError):
    """A subscription's replay preset is a number that the protocol has no name for."""

    def __init__(self, preset: int) -> None:
        self.preset = preset
        super().__init__(f"There is no replay preset {preset}. Send LATEST (0), EARLIEST (1) or CUSTOM (2).")


class EventSchemaError(SfcdcError):
    """A field of an object definition has no place in a change event schema."""

    def __init__(self, entity: str, field: str, problem: str) -> None:
        self.entity = entity
        self.field = field
        self.problem = problem
        super().__init__(
            f"{entity}.{field} cannot be part of change events: {problem}. Correct the object's definition file."
        )


class EmulatorDirectoryError(SfcdcError):
    """The emulated org's folder cannot be used."""

    def __init__(self, directory: Path, reason: str) -> None:
        self.directory = directory
        self.reason = reason
        super().__init__(
            f"The folder {directory} cannot hold an emulated org: {reason}. Choose another one with --dir."
        )


class ServerStartError(SfcdcError):
    """A server did not begin to listen in time."""

    def __init__(self, service: str, seconds: float) -> None:
        self.service = service
        self.seconds = seconds
        super().__init__(f"{service} did not start within {seconds:g} seconds. Look at the log above and start again.")


class ScenarioFileError(SfcdcError):
    """A file of a scenario says something that is none. Names the file, the step and what is wrong with it."""

    def __init__(self, file: str, place: str, problem: str) -> None:
        self.file = file
        self.place = place
        super().__init__(f"{file}{f', {place}' if place else ''}: {problem}.")


class UnknownScenarioError(SfcdcError):
    """There is no scenario of that name."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        self.name = name
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Do you mean {near[0]}?" if near else f"There are {', '.join(known)}."
        super().__init__(f"There is no scenario {name}. {hint}")


class ScenarioRefusedError(SfcdcError):
    """The org refuses a step; those before it have happened."""

    def __init__(self, scenario: str, step: str, reason: str) -> None:
        self.scenario = scenario
        self.step = step
        super().__init__(f"The scenario {scenario} stops at the step `{step}`: {reason}.")
