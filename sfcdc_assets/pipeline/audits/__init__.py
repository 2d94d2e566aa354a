"""Audits: the tables against the org, and against themselves."""
