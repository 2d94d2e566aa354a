"""What the user may do, and what the org still allows today against what a first start would take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sfcdc_assets.change_events.checkboxes import checkboxes_of, is_list
from sfcdc_assets.change_events.columns import ID_COLUMN, columns
from sfcdc_assets.change_events.event_schema import schema_fields
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.formulas.dependencies import formula_fields
from sfcdc_assets.formulas.wanted_formulas import wanted_formulas
from sfcdc_assets.lake.store.formula_notes import FormulaNote
from sfcdc_assets.landing.stream_start import LEAST_ALLOWANCE
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_reads.first_start import FirstStart
from sfcdc_assets.runtime.errors import SfcdcError, counted, enumerated
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.bulk_query import abort_job, create_job
from sfcdc_assets.salesforce.describe import describe, object_names
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.view_all import Sight, ViewAllMissing
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.errors import TransportError

API = "API"


def api(org: OrgConnection) -> Finding:
    """Check that the REST resources answer this user."""
    try:
        version = org.session.version
        object_names(org.session)
    except RequestRefused as refusal:
        fix = "Give the user the permission API Enabled (Setup, Permission Sets, System Permissions)."
        return failed(API, f"The org refuses the API with {refusal.error_code}: {refusal.message}.", fix)
    except SfcdcError as error:
        return of_error(API, error)
    return ok(API, f"version {version}")


def rights_of(
    org: OrgConnection, entity: str, seen: list[ObjectDescription], *, try_bulk: bool, streams: bool
) -> Iterator[Finding]:
    """Yield what keeps the entity from being copied as a whole; one line if nothing does. `seen` gets its
    description."""
    check = f"rights on {entity}"
    try:
        described = describe(org.session, entity)
    except SfcdcError as error:
        yield of_error(check, error)
        return
    seen.append(described)
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


def _bulk(org: OrgConnection, _check: str, entity: str) -> Finding | None:
    abort_job(org.session, create_job(org.session, entity, f"SELECT Id FROM {entity} LIMIT 1"))
    return None


def _hidden(org: OrgConnection, check: str, entity: str, described: ObjectDescription) -> Finding | None:
    """Events carry fields whatever the field-level security; what describe does not show has no column. What the
    settings leave out is not missed."""
    try:
        schema = json.loads(org.transport.schema(org.transport.newest_schema_id(entity)))
    except TransportError as error:
        return of_error(check, error)
    carried = [column for column in columns(schema) if column.name in hidden_columns(schema, described)]
    hidden = sorted(column.name for column in org.privacy.columns(entity, carried, {}))
    if not hidden:
        return None
    fix = "Make them readable in field-level security, unless they are meant to be left out."
    return warning(check, f"Hidden from the user, and so without a column: {', '.join(hidden)}.", fix)


def hidden_columns(schema: Mapping[str, Any], described: ObjectDescription) -> list[str]:
    """Return what events carry and describe does not show. A list of checkboxes is no field of the object: the
    checkboxes are."""
    shown = described.field_names
    spelt = by_any_case(shown)
    lists = {field.name for field in schema_fields(schema)[1:] if is_list(field) and checkboxes_of(field.name, shown)}
    names = (column.name for column in columns(schema) if column.name != ID_COLUMN.name)
    return [name for name in names if name.lower() not in spelt and name not in lists]


FORMULAS = "formula fields"
NAMED = 10
"""Formula fields that are not read are named up to so many."""


def formulas(
    settings: Settings, described: Sequence[ObjectDescription], noted: Mapping[str, FormulaNote]
) -> Iterator[Finding]:
    """Say how many formula fields the objects have, and which of them are not read; nothing where they have none.
    `noted`: what is known of the reading of each object's."""
    every, known = list[str](), {each.name: each for each in described}
    read, withheld, privacy = set[str](), dict[str, str](), Privacy.of(settings)
    for each in described:
        every += [f"{each.name}.{field.name}" for field in formula_fields(each)]
        refused = noted.get(each.name, FormulaNote()).refused
        wanted = wanted_formulas(each, known.get, settings.formulas, privacy, refused)
        read |= {f"{each.name}.{name}" for name in wanted.names}
        withheld |= {f"{each.name}.{name}": why for name, why in wanted.withheld.items()}
    if not every:
        return
    how_many = counted(len(every), "formula field")
    found = f"{how_many} of these objects, which no change event carries: {len(read)} are read"
    if left := [each for each in every if each not in read and each not in withheld]:
        found += f", and not {enumerated(left, NAMED)}"
    if not settings.formulas:
        found += ". SFCDC_FORMULAS says which should be"
    yield ok(FORMULAS, f"{found}.")
    if withheld:
        listed = "; ".join(f"{name} ({why})" for name, why in sorted(withheld.items()))
        fix = "Leave them out of SFCDC_FORMULAS, or what they show out of SFCDC_EXCLUDE and SFCDC_HASH."
        yield warning(FORMULAS, f"Withheld: {listed}.", fix)


REQUESTS, JOBS, DELIVERIES = "DailyApiRequests", "DailyBulkV2QueryJobs", "DailyDeliveredPlatformEvents"
ALLOWANCES = "allowances"
"""The check where the org does not show them; each has the name that the org gives it."""
_WAIT = "Wait: allowances are counted over 24 hours. Or have it raised, or stop other clients that use it up."


def allowances(limits: Mapping[str, Limit], start: FirstStart, reserve_percent: float) -> Iterator[Finding]:
    """Yield the API requests, Bulk jobs, delivered events. `start`: what the entities that were never copied will take;
    `reserve_percent`: of requests and jobs, what copies leave to others."""
    needs = {REQUESTS: start.requests, JOBS: start.jobs, DELIVERIES: start.events}
    for name, need in needs.items():
        limit = limits.get(name)
        if limit is not None:
            yield allowance(name, limit, need, 0 if name == DELIVERIES else reserve_percent)


def allowance(name: str, limit: Limit, need: int, reserve_percent: float = 0) -> Finding:
    """One of them. Too few deliveries stop no first start: it begins with what happens from then on."""
    takes = f"; the first start takes {'at least' if name == DELIVERIES else 'about'} {need:,}" if need else ""
    found = f"{limit.remaining:,} of {limit.maximum:,} are left{takes}"
    if limit.remaining <= 0 or (need > limit.remaining and name != DELIVERIES):
        return failed(name, f"{found}.", _WAIT)
    if need and limit.remaining - need < limit.maximum * reserve_percent / 100:
        fix = f"{_WAIT} Copies pause so that SFCDC_SNAPSHOT_RESERVE_PERCENT ({reserve_percent:g} %) is left to others."
        return warning(name, f"{found}.", fix)
    if need > limit.remaining or limit.remaining < limit.maximum * LEAST_ALLOWANCE:
        fix = f"{_WAIT} A first start skips the retained events while fewer than {LEAST_ALLOWANCE:.0%} are left."
        return warning(name, f"{found}.", fix if name == DELIVERIES else _WAIT)
    return ok(name, found)
