"""The polled objects: which they are, what the patterns leave out and why, and how each is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.polls.known_objects import ALL_FIELDS
from sfcdc_assets.polls.object_files import AS_ALL, ObjectPolling
from sfcdc_assets.polls.object_schema import binary_fields
from sfcdc_assets.polls.polled_objects import PollSelection, reasons
from sfcdc_assets.polls.readability import NotPollable, readability
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.salesforce.object_description import ObjectDescription

SELECTION = "polled objects"


def selection(found: PollSelection, polled: Collection[str]) -> Finding:
    """Check what the settings take of the org's objects. `polled`: those of them that no channel carries."""
    if not found.polled:
        left = f" All that it matches is left out: {reasons(found.left_out)}" if found.left_out else ""
        return failed(
            SELECTION, f"SFCDC_POLL takes no object.{left}", "Correct it; names are API names, as Invoice__c."
        )
    asked, carried = ([each for each in found.polled if (each in polled) is way] for way in (True, False))
    parts = [f"{len(asked)}: {', '.join(asked)}" if asked else "0"]
    if carried:
        parts.append(f"By change events: {', '.join(carried)}")
    if found.left_out:
        parts.append(f"Left out: {reasons(found.left_out)}")
    return ok(SELECTION, ". ".join(parts))


def files_of_none(found: PollSelection, own: Collection[str]) -> Iterator[Finding]:
    """Check the files that say how single objects are polled: `own`, objects in lower case."""
    none = sorted({*own} - {each.lower() for each in found.polled})
    if none:
        what = f"Files in the folder SFCDC_POLL_OBJECTS name objects that are not polled: {', '.join(none)}."
        yield warning(SELECTION, what, "Correct the names of the files, or add the objects to SFCDC_POLL.")


def readable(described: ObjectDescription, own: ObjectPolling = AS_ALL) -> Iterator[Finding]:
    """Check how one object is read, of which a file says what is its `own`; nothing where it is as usual."""
    check = f"polls of {described.name}"
    try:
        how = readability(described)
    except NotPollable as refusal:
        yield of_error(check, refusal)
        return
    known = {each.lower() for each in described.field_names}
    unknown = [each for each in own.fields or () if each.lower() not in known]
    if unknown:
        what = f"Its file names fields that it does not have, or that the user may not read: {', '.join(unknown)}."
        yield warning(check, what, "Correct them in the folder SFCDC_POLL_OBJECTS; names are API names, as Status__c.")
    asked_for = {each.lower() for each in own.fields or ()}
    files = [each for each in binary_fields(described) if each.lower() not in asked_for]
    if files:
        fix = "Fetch them by the records' Ids; their names and sizes are in the table."
        yield warning(check, f"Files are not copied: {', '.join(files)}.", fix)
    if how.parent is not None:
        yield ok(check, f"read whole through {how.parent.parent}, and compared every SFCDC_POLL_REREAD_HOURS")
    elif how.stamp is None:
        yield ok(check, "it has no stamp: its records are compared as a whole every SFCDC_POLL_REREAD_HOURS")
    elif how.unstamped:
        what = "its records change" if how.unstamped == ALL_FIELDS else f"{_fields(how.unstamped)} changes"
        yield ok(check, f"{what} without {how.stamp.field}: all are compared every SFCDC_POLL_REREAD_HOURS")


def _fields(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"each of {counted(len(names), 'field')} ({', '.join(names)})"
