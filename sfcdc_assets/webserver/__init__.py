"""Dagster's webserver behind a guard against other sites, and `/metrics`; the emulated org's pages use it too."""
