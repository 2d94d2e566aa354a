"""A Dagster code location that keeps a Delta Lake copy of a Salesforce org true, from the org's own change events."""
