"""A Dagster code location that keeps a Delta Lake copy of a Salesforce org true, from the org's own change events."""

import os

# Starting the JVM forks this process for the moment before exec. gRPC's fork handlers run in that moment and may break
# the child while a connection is in use ("Java gateway process exited", docs/salesforce-streams.md, "Failures seen in
# the field"). We never go on in Python after a fork, so nothing needs them; they can only be switched off before grpc
# is first imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
