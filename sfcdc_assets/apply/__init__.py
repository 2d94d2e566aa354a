"""From `raw_events` and `snapshot` to an entity's tables: planned on the driver, followed by Spark's tasks,
committed table by table."""
