"""How an object is asked for what changed, as values."""
