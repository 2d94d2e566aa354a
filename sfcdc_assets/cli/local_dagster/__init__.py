"""Dagster on this machine, started and ended by a command: its home, its UI, the Spark beside it."""
