"""Reads of the org: snapshots and read-backs, each valid up to a watermark."""
