"""The one partition dimension: the entity."""

import dagster as dg

ENTITY = dg.DynamicPartitionsDefinition(name="salesforce_entity")
"""API names of entities. Dagster's list of keys may be lost: the sensor rebuilds it from the tables and the org."""
