"""`sfcdc explain`: who set this value."""

from __future__ import annotations

from typing import Annotated

import typer

from sfcdc_assets.cli.fitting_table import Column, print_table
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.explain import explain_record

_COLUMNS = (
    Column("since (UTC)"),
    Column("field"),
    Column("value", folds=True),
    Column("change"),
    Column("by", 1),
    Column("transaction", 4),
    Column("origin", 3),
    Column("position", 2),
)


def explain(
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Name the object as its API does, such as Account.")],
    record_id: Annotated[str, typer.Argument(metavar="ID", help="Name the record by its Id, 15 or 18 characters.")],
    field: Annotated[
        str | None, typer.Argument(metavar="[FIELD]", help="Show this field only; left out, all fields are shown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")] = False,
) -> None:
    """Show the chain of values of a field, or of a whole record: when, by whom, in which transaction, from where.

    Reads the tables only; asks nothing of the org. Times are UTC.
    """
    chain = explain_record(Warehouse(load_settings().warehouse), entity, record_id, field)
    if as_json:
        typer.echo(chain.write_ndjson(), nl=False)
        return
    shown = [
        (
            link["valid_from"].strftime("%Y-%m-%d %H:%M:%S"),
            link["field"],
            "" if link["value"] is None else link["value"][:200],
            link["change_type"],
            link["commit_user"] or "",
            link["transaction_key"] or "",
            link["change_origin"] or "",
            str(link["position"]),
        )
        for link in chain.iter_rows(named=True)
    ]
    print_table(None, _COLUMNS, shown, left_out="--json has all.")
