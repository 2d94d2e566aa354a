"""A Dagster code location that keeps a Delta Lake copy of a Salesforce org true, from the org's own change events."""

import os
from importlib import import_module

# Starting the JVM forks this process for the moment before exec. gRPC's fork handlers run in that moment and may break
# the child while a connection is in use ("Java gateway process exited", docs/salesforce-streams.md, "Failures seen in
# the field"). We never go on in Python after a fork, so nothing needs them; they can only be switched off before grpc
# is first imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

__all__ = ["open_cut", "open_history"]

_PUBLIC = {"open_cut": "sfcdc_assets.consistent_cut", "open_history": "sfcdc_assets.lake.tables.all_versions"}


def __getattr__(name: str) -> object:
    """Import what other programs use when it is first asked for: most of what imports this package needs no tables."""
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
