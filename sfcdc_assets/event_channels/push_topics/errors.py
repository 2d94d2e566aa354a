"""What is wrong with a PushTopic, in the vendor's words, and what to change."""

from __future__ import annotations

from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.salesforce.errors import RequestRefused


class TopicNotSupported(SfcdcError):
    """A field of a PushTopic that Salesforce would refuse: `code` and `text` are the vendor's."""

    def __init__(self, field: str, code: str, text: str, remedy: str) -> None:
        self.field, self.code, self.text, self.remedy = field, code, text, remedy
        super().__init__(f"{field}: {code}, {text}. {remedy}")

    def in_file(self, file: str) -> TopicFileError:
        """Return the same error, said of the file that the field is in."""
        return TopicFileError(file, self.field, f"{self.code}, {self.text}", self.remedy)


def query_not_supported(text: str, remedy: str) -> TopicNotSupported:
    """Return the error of a topic whose query Salesforce would refuse."""
    return TopicNotSupported("Query", "INVALID_FIELD", text, remedy)


class TopicFileError(SettingsError):
    """A file of the folder SFCDC_PUSH_TOPICS is not a definition. Names file and field."""

    def __init__(self, file: str, field: str | None, problem: str, remedy: str) -> None:
        self.file, self.field = file, field
        super().__init__(f"{file}, {field}" if field else file, problem, remedy)


class TopicsNotReadable(RequestRefused):
    """The user may not read the PushTopics of the org."""

    def __init__(self, refusal: RequestRefused) -> None:
        super().__init__("the list of PushTopics", refusal.status, refusal.error_code, refusal.message)

    def _text(self) -> str:
        return (
            f"{super()._text()} Give the user Read on the object Push Topics (Setup, Permission Sets, Object Settings, "
            "Streaming API; Create and Edit too for `sfcdc topics apply`), and switch on the Streaming API in Setup, "
            "User Interface."
        )


class TopicsRefused(RequestRefused):
    """The org refused a change of a PushTopic. `topic`: which; `applied`: topics that were changed before it, in
    requests that the org had accepted."""

    def __init__(self, topic: str, applied: tuple[str, ...], refusal: RequestRefused) -> None:
        self.topic, self.applied = topic, applied
        super().__init__(f"the PushTopic {topic}", refusal.status, refusal.error_code, refusal.message)

    def _text(self) -> str:
        done = f"Applied before it: {', '.join(self.applied)}." if self.applied else "No topic was created or changed."
        return f"{super()._text()} {_REMEDIES.get(self.error_code, _CORRECT)} {done}"


_CORRECT = "Correct the topic's file and run `sfcdc topics apply` again."
_REMEDIES = {
    "LIMIT_EXCEEDED": "Deactivate a topic that nobody reads (IsActive = false in its file) and apply again.",
    "INSUFFICIENT_ACCESS": "Give the user Create and Edit on the object Push Topics (Setup, Permission Sets).",
    "INSUFFICIENT_ACCESS_OR_READONLY": "Give the user Create and Edit on the object Push Topics (Setup, Permission "
    "Sets).",
}
