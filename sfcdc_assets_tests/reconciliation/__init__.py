"""Comparing tables with the org, as values."""
