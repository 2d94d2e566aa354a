"""Erasing a record: every row of it in every table, the old files that have it, and what keeps it from coming back."""
