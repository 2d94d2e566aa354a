"""docs/troubleshooting.md has every error that a person can meet: by words that its message really has, or by its name
where the message says all."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import sfcdc_assets
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets_tests.documentation import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
_ROW = re.compile(r"^\| (?P<message>[^|]+) \| `(?P<error>\w+)` \| (?P<remedy>[^|]+) \|$", re.MULTILINE)
ROWS = [found.groupdict() for found in _ROW.finditer(PAGE.read_text())]
SAY_ALL = re.findall(
    r"\w+",
    """
    AnotherRunAtWork AuthenticationRefused BrokenAnswer BulkJobGone ChangeError ChangedWhileRead ChannelUnknown
    CometdError CometdUnavailable ComparisonTooLong ComparisonWaits
    CopiesWait CredentialsMalformed DagsterHomeMissing DatabaseFullError DemoOrgEnded
    DuckDbNotInstalled EmulatorDirectoryError EmulatorNotInstalled EmulatorRefusedError EntityNotReadable
    EventSchemaNotFound EventWithoutReplayId FaultFileError FaultOptionError FilterRefused FirstStartDeclined
    FolderInUse FolderNotUsable GlueRefused HistoryWaits InstanceNotTrusted JavaMissing JsonWithoutScenarioError
    LocalFolderNotPrivate ManagedSubscriptionActive ManagedSubscriptionNotFound ManagedSubscriptionStopped
    ManagedTopicOfOtherKind NoClassArchive NoCut NoFieldHistory NoNotifications NoServedOrgError NoSuchEntity
    NoWatermark NotAQuery NotCaughtUp NotExplained NotHashable NotInMemory NotPollable NothingLanded NothingToAccept
    NothingToCertify NothingToRebuildFrom NoticeNotTaken ObjectDefinitionError ObjectFileError OrgInUseError
    OrgStoppingError OrgUnavailable OrganizationReplaced OtherChannel OtherEventLog PayloadError PayloadSchemaError
    PollsFailed PollsWait PortInUseError PrivacyChanged ProtocolRefused PublicKeyError PushRefused QueryFailed
    QueryRefused ReadingsCutShort ReadsRefused RebuildFailed RebuildOvertaken RefusedBefore RequestTooLarge
    RowsMissing RowsUnreadable RunFailed ScenarioFileError ScenarioRefusedError SchemaMissing SchemaNotPermitted
    ServerBusy ServerStartError SessionExpired SessionLost SeveralFailures SnapshotMissing SparkOutdated StillThere
    TableNameUnusable TablesNotBuilt TextDiffError TokenExpired TooManyClients TopicFileError TopicMissing
    TopicNotSupported TopicsNotReadable TopicsRefused TrafficRefusedError UnexpectedAnswer UnexpectedFailure
    UnguardedUi UnityRefused UnknownChannel UnknownFaultError UnknownInCut UnknownRecord UnknownScenarioError
    UnknownSchema UnknownWantedEntity UserNotEnabled VersionRefused WarehouseNotWritable WarehousePathUnusable
    WarehouseStale
    """,
)
"""Errors whose message has all that the page could say, which has no row of them."""

BASES = {"SfcdcError", "TransientError", "ChangeEventError", "TransportError", "OrgUnavailableError"}
"""Raised by nobody themselves; like all of `streams.errors`, which transports derive theirs from."""
ON_THE_WIRE = {
    "ApiError",
    "RecordError",
    "QueryError",
    "AsyncError",
    "MultipleChoicesError",
    "TokenError",
    "ControlError",
    "RpcRefusal",
    "ReplayIdCorruptedError",
    "ReplayIdMissingError",
    "UnknownReplayPresetError",
}
"""What the emulated org answers its clients with, in Salesforce's form."""
OF_PROGRAMS = {"NestedTransactionError"}
"""What only a program that uses the emulated org as a library can meet."""


@cache
def errors() -> dict[str, list[type[SfcdcError]]]:
    """Name -> the errors of that name that a person can meet."""
    for module in pkgutil.walk_packages(sfcdc_assets.__path__, "sfcdc_assets."):
        if ".proto." not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[str, list[type[SfcdcError]]] = {}
    left: list[type[SfcdcError]] = [SfcdcError]
    while left:
        error = left.pop()
        left += error.__subclasses__()
        of_package = error.__module__.startswith("sfcdc_assets.") and error.__module__ != "sfcdc_assets.streams.errors"
        if of_package and error.__name__ not in BASES | ON_THE_WIRE | OF_PROGRAMS:
            same = found.setdefault(error.__name__, [])
            same += [error] if error not in same else []
    return found


@cache
def texts(source: str) -> frozenset[str]:
    """The strings of a module, `…` where a value is put in."""
    strings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            strings.add("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(re.sub(r"\{\w+\}", "…", node.value))
    return frozenset(re.sub("…+", "…", each) for each in strings)


def sources_of(error: type[SfcdcError]) -> list[str]:
    """The modules that build its message: its own and those of its bases; a setting's is built in many."""
    if error is SettingsError:
        every = (path.read_text() for path in Path(sfcdc_assets.__path__[0]).rglob("*.py"))
        return [source for source in every if "SettingsError" in source]
    modules = {parent.__module__ for parent in error.__mro__ if issubclass(parent, SfcdcError)}
    return [inspect.getsource(sys.modules[module]) for module in sorted(modules)]


def says(error: type[SfcdcError], words: str) -> bool:
    """Whether these words can be in its message."""
    return any(words in text for source in sources_of(error) for text in texts(source))


def test_the_page_has_every_error_that_a_person_can_meet_and_no_other() -> None:
    listed = {row["error"] for row in ROWS} | set(SAY_ALL)
    assert sorted(set(errors()) - listed) == [], "add a row for each to docs/troubleshooting.md, or its name to SAY_ALL"
    assert sorted(listed - set(errors())) == [], "there are no such errors any more"
    assert sorted(set(SAY_ALL) - {row["error"] for row in ROWS}) == SAY_ALL, (
        "a name that has a row needs no other place"
    )


@pytest.mark.parametrize("name", sorted({row["error"] for row in ROWS}))
def test_an_error_is_found_by_words_of_its_message(name: str) -> None:
    cells = [row["message"] for row in ROWS if row["error"] == name]
    words = [each for cell in cells for each in re.findall(r"`([^`]+)`", cell)]
    assert [each for each in words if not any(says(error, each) for error in errors()[name])] == []
    for error in errors()[name]:
        assert not words or any(says(error, each) for each in words), f"no row has words of {error.__module__}"
