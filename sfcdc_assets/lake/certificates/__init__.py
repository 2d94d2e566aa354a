"""Certificates: what the tables of a cut hold, as hashes that a stranger can compute again."""
