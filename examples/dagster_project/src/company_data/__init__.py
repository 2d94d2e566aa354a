"""A company's data, in Dagster."""
