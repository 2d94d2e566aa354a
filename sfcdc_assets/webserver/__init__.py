"""Dagster's UI behind a guard: pages of other sites reach nothing of it, whatever a browser on this machine opens."""
