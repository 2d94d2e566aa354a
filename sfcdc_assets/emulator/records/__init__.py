"""What one transaction does to records: created, changed, merged, converted, deleted, and what follows from it."""
