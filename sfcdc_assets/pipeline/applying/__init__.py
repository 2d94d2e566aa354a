"""Applying: from `raw_events` and `snapshot` to an entity's tables, one batch and one commit point at a time."""
