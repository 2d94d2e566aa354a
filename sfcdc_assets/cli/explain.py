"""`sfcdc explain`: who set this value."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.explain import explain_record


def explain(
    entity: Annotated[str, typer.Argument(help="API name of the object, such as Account.")],
    record_id: Annotated[str, typer.Argument(help="Id of the record, 15 or 18 characters.")],
    field: Annotated[str | None, typer.Argument(help="API name of the field; all fields when left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")] = False,
) -> None:
    """Show the chain of values of a field, or of a whole record: when, by whom, in which transaction, from where.

    Reads the tables only; asks nothing of the org. Times are UTC.
    """
    chain = explain_record(Warehouse(load_settings().warehouse), entity, record_id, field)
    if as_json:
        typer.echo(chain.write_ndjson(), nl=False)
        return
    shown = Table("since (UTC)", "field", "value", "change", "by", "transaction", "origin", "position")
    for link in chain.iter_rows(named=True):
        shown.add_row(
            link["valid_from"].strftime("%Y-%m-%d %H:%M:%S"),
            link["field"],
            "" if link["value"] is None else link["value"][:200],
            link["change_type"],
            link["commit_user"] or "",
            link["transaction_key"] or "",
            link["change_origin"] or "",
            str(link["position"]),
        )
    # A pipe has no width of its own; 80 columns would cut every value.
    console = Console()
    Console(width=None if console.is_terminal else 200).print(shown)
