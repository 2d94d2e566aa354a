"""A Dagster code location that keeps a Delta Lake copy of a Salesforce org true, from the org's own change events."""

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfcdc_assets.component import SalesforceCdcComponent
    from sfcdc_assets.consistent_cut import open_cut
    from sfcdc_assets.lake.tables.all_versions import open_history
    from sfcdc_assets.notices.notice import Notice
    from sfcdc_assets.orchestration.build_defs import build_defs

# Starting the JVM forks this process for the moment before exec. gRPC's fork handlers run in that moment and may break
# the child while a connection is in use ("Java gateway process exited", docs/salesforce-streams.md, "Failures seen in
# the field"). We never go on in Python after a fork, so nothing needs them; they can only be switched off before grpc
# is first imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

__all__ = [
    "ChangesExpired",
    "Notice",
    "SalesforceCdcComponent",
    "build_defs",
    "changes_since",
    "open_cut",
    "open_history",
]

_PUBLIC = {
    "ChangesExpired": "sfcdc_assets.changes.token",
    "Notice": "sfcdc_assets.notices.notice",
    "SalesforceCdcComponent": "sfcdc_assets.component",
    "build_defs": "sfcdc_assets.orchestration.build_defs",
    "changes_since": "sfcdc_assets.consistent_cut",
    "open_cut": "sfcdc_assets.consistent_cut",
    "open_history": "sfcdc_assets.lake.tables.all_versions",
}


def __getattr__(name: str) -> object:
    """Import what other programs use when it is first asked for: most of what imports this package needs no tables."""
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names: `dg list components` finds the component among them."""
    return sorted({*globals(), *__all__})
