"""Maintenance: what a table costs depends on what is new in it, not on how old it is."""
