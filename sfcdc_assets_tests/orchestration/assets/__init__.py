"""Tests of what Dagster shows."""
