"""The org itself: its database, its records, its transactions, and what is true in it at any time."""
