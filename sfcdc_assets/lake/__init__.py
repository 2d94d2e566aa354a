"""The Delta tables and where they lie: the only room that knows Delta Lake."""
