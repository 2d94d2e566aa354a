"""Transactions that the org makes by itself: seeded traffic, a random life, edits of texts."""
