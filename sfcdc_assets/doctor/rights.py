"""What the user may do: use the API, read each object as a whole, by Bulk, with all of its fields.

For each object one describe and, if it was never copied, one Bulk job of a single row, which is aborted at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from sfcdc_assets.change_events.columns import ID_COLUMN, columns
from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.salesforce.bulk_query import abort_job, create_job
from sfcdc_assets.salesforce.describe import describe, object_names
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.view_all import Sight, ViewAllMissing
from sfcdc_assets.streams.errors import TransportError

API = "API"


def api(org: OrgConnection) -> Finding:
    """The REST resources answer this user."""
    try:
        version = org.session.version
        object_names(org.session)
    except RequestRefused as refusal:
        fix = "Give the user the permission API Enabled (Setup, Permission Sets, System Permissions)."
        return failed(API, f"The org refuses the API with {refusal.error_code}: {refusal.message}.", fix)
    except SfcdcError as error:
        return of_error(API, error)
    return ok(API, f"version {version}")


def rights_of(org: OrgConnection, entity: str, *, try_bulk: bool, streams: bool) -> Iterator[Finding]:
    """What keeps the entity from being copied as a whole; one line if nothing does."""
    check = f"rights on {entity}"
    try:
        described = describe(org.session, entity)
    except SfcdcError as error:
        yield of_error(check, error)
        return
    problems = [
        *_problem(check, lambda: _sight(org, check, entity)),
        *_problem(check, lambda: _bulk(org, check, entity) if try_bulk else None),
        *_problem(check, lambda: _hidden(org, check, entity, described) if streams else None),
    ]
    yield from problems
    if not problems:
        parts = ["all records", *(["Bulk"] if try_bulk else []), *(["every field"] if streams else [])]
        yield ok(check, f"{', '.join(parts)}")


def _problem(check: str, look: Callable[[], Finding | None]) -> list[Finding]:
    try:
        found = look()
    except SfcdcError as error:
        return [of_error(check, error)]
    return [found] if found is not None else []


def _sight(org: OrgConnection, check: str, entity: str) -> Finding | None:
    sight = org.view_all.of(entity)
    if sight is Sight.SHARED:
        return of_error(check, ViewAllMissing(entity, "a snapshot"))
    if sight is Sight.UNKNOWN and entity != "User":
        fix = "Give the user View Setup and Configuration, so that View All can be checked before each snapshot."
        return warning(check, "The org does not say whether the user sees all of its records.", fix)
    return None


def _bulk(org: OrgConnection, check: str, entity: str) -> Finding | None:
    abort_job(org.session, create_job(org.session, entity, f"SELECT Id FROM {entity} LIMIT 1"))
    return None


def _hidden(org: OrgConnection, check: str, entity: str, described: ObjectDescription) -> Finding | None:
    """Events carry fields whatever the field-level security; what describe does not show has no column. What the
    settings leave out is not missed."""
    try:
        schema = json.loads(org.transport.schema(org.transport.newest_schema_id(entity)))
    except TransportError as error:
        return of_error(check, error)
    carried = [column for column in columns(schema) if column.name not in described.field_names]
    wanted = org.privacy.columns(entity, carried, {})
    hidden = sorted(column.name for column in wanted if column.name != ID_COLUMN.name)
    if not hidden:
        return None
    fix = "Make them readable in field-level security, unless they are meant to be left out."
    return warning(check, f"Hidden from the user, and so without a column: {', '.join(hidden)}.", fix)
