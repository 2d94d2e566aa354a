"""Deleted records by their ids, as far as the recycle bin still has them: queries in addresses of bounded length.

There is no POST for SOQL that sees the bin, and proxies end what comes before a body at 8 KB (Salesforce at 16 KB). An
id takes 28 bytes in the address and a field up to 44, so few ids go into one query and, of a wide object, few fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.bisecting_read import BisectedRead, bisecting_read
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.retrieve import TRIES_BEFORE_SPLITTING
from sfcdc_assets.salesforce.session import OrgSession

MOST_URL_BYTES = 6_000
"""The headers beside it, the access token among them, take up to 2 KB of what a proxy allows."""
IDS_BESIDE_FIELDS = 100
"""How many ids a query has room for where the fields do not go into one."""
MODIFIED = "SystemModstamp"
TELLING = ("Id", "IsDeleted", MODIFIED, "MasterRecordId")
"""Fields that say what became of a record."""


class ChangedWhileRead(SfcdcError):
    """A record's fields were read by several queries, and it was changed between them."""

    def __init__(self, entity: str, record_id: str) -> None:
        self.entity = entity
        self.record_id = record_id
        super().__init__(
            f"{entity} {record_id} was changed while its fields were read; the next attempt reads it again."
        )


def deleted_records(session: OrgSession, entity: str, ids: Sequence[str], fields: Sequence[str]) -> BisectedRead:
    """Return the records of these ids that a query sees, by id, the deleted ones among them; the others are None.

    `fields` has the Id. Of an object that is too wide for one address the few `TELLING` fields are asked for first, and
    the others, in parts, of the records that are there. Raises the session's errors.
    """
    if not ids:
        return BisectedRead()
    room = _ids_beside(session, entity, fields)
    if room >= min(len(set(ids)), IDS_BESIDE_FIELDS):
        return _read(session, entity, ids, fields, room)
    telling = [name for name in TELLING if name in fields]
    found = _read(session, entity, ids, telling, _ids_beside(session, entity, telling))
    there = [record_id for record_id, row in found.rows.items() if row is not None]
    if not there:
        return found
    batch = min(len(there), IDS_BESIDE_FIELDS)
    for part in _parts(session, entity, telling, [name for name in fields if name not in telling], batch):
        _add(found, _read(session, entity, there, part, batch), entity, there)
        there = [record_id for record_id in there if record_id in found.rows]
    return found


def _read(session: OrgSession, entity: str, ids: Sequence[str], fields: Sequence[str], batch: int) -> BisectedRead:
    def read(some: list[str]) -> dict[str, dict[str, Any] | None]:
        rows = query_rows(session, _soql(entity, fields, some), include_deleted=True, tries=TRIES_BEFORE_SPLITTING)
        return {**dict.fromkeys(some), **{str(row["Id"]): row for row in rows}}

    return bisecting_read(ids, read, batch)


def _add(found: BisectedRead, part: BisectedRead, entity: str, there: Sequence[str]) -> None:
    """Put more fields of the records that are `there` to those found before; a record that lacks them is taken out."""
    for record_id in there:
        before, more = found.rows[record_id], part.rows.get(record_id)
        if before is not None and more is not None and before.get(MODIFIED) == more.get(MODIFIED):
            found.rows[record_id] = {**before, **more}
            continue
        del found.rows[record_id]
        if record_id in part.left:
            found.left += (record_id,)
        else:
            found.refused[record_id] = part.refused.get(record_id) or ChangedWhileRead(entity, record_id)


def _parts(
    session: OrgSession, entity: str, telling: Sequence[str], fields: Sequence[str], ids: int
) -> Iterator[list[str]]:
    """Yield the fields in parts that go into an address beside so many ids; each has what distinguishes a record's
    states."""
    always = [name for name in telling if name in ("Id", MODIFIED)]
    part = list(always)
    for name in fields:
        if len(part) > len(always) and _ids_beside(session, entity, [*part, name]) < ids:
            yield part
            part = list(always)
        part.append(name)
    if len(part) > len(always):
        yield part


def _ids_beside(session: OrgSession, entity: str, fields: Sequence[str]) -> int:
    """Return how many ids there is room for in a query of these fields; may be less than none."""
    one, two = (_url_bytes(session, _soql(entity, fields, ["0" * 18] * number)) for number in (1, 2))
    return 1 + (MOST_URL_BYTES - one) // (two - one)


def _soql(entity: str, fields: Sequence[str], ids: Sequence[str]) -> str:
    listed = ", ".join(f"'{record_id}'" for record_id in ids)
    return f"SELECT {', '.join(fields)} FROM {entity} WHERE Id IN ({listed})"


def _url_bytes(session: OrgSession, soql: str) -> int:
    return len(f"{session.url_of('queryAll/')}?{urlencode({'q': soql})}")
