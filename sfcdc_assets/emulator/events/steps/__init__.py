"""What makes the events of a transaction other than plain ones: differences, gaps, overflow, losses, enrichment."""
