"""The org as the pipeline uses it."""
