"""Errors of the emulated org. Those an API caller may meet carry Salesforce's own error code and message."""

from __future__ import annotations

from pathlib import Path

from sfcdc_assets.errors import SfcdcError


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
