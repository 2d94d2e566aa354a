"""Transactions that the org makes by itself: seeded traffic, edits of texts."""
