"""The org, opened for work on a warehouse."""
