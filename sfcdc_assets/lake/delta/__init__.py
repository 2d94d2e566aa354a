"""Delta Lake itself: one table, its snapshots, commits, log and files."""
