"""Objects that are polled, through the whole pipeline."""
