"""Records that changed while an audit compared them, or were in doubt, are compared again: by their ids, once the table
has caught up with them.

A record that was compared once is done, so each round has only those that changed again meanwhile.
"""

from __future__ import annotations

import time

from sfcdc_assets import clock
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.audits.compare_ids import compare_ids
from sfcdc_assets.pipeline.audits.verify import Lands, VerifyReport, moving_since
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.schemas.table_columns import columns_of_table
from sfcdc_assets.salesforce.describe import describe


def compare_again(
    warehouse: Warehouse,
    org: OrgConnection,
    lander: Lands,
    report: VerifyReport,
    *,
    visibility_seconds: float,
) -> None:
    """One round over what the report has left; what can be compared now moves from `left` to `compared`.

    Raises the session's errors.
    """
    started, calls, began_ms = time.monotonic(), org.session.calls, clock.now_ms()
    entity, channel, asked = report.entity, report.channel, sorted(report.left)
    table = CurrentState.open(warehouse, entity)
    if table is None or not asked:
        return
    position = table.applied(channel) or 0
    columns = columns_of_table(Schemas(warehouse), entity, table.schema, org.privacy)
    described = describe(org.session, entity).field_names
    compared = [column.name for column in columns if column.name in described and column.name != "Id"]
    found = compare_ids(org.session, table, entity, asked, columns, described, position)
    lander.land(channel)
    moving = moving_since(warehouse, entity, channel, position, began_ms - int(visibility_seconds * 1000))
    report.position = position
    report.leave(moving & set(asked), found.doubted, found.unreadable)
    done = len(asked) - len(report.left)
    report.compared += done
    report.compared_again += done
    report.values_compared += done * len(compared)
    report.add([each for each in found.differences if each.record_id not in report.left])
    report.calls += org.session.calls - calls
    report.seconds += time.monotonic() - started
