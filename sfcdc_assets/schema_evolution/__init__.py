"""The columns of an entity's tables, and how they follow the org."""
