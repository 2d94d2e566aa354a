"""Reads of the org into `snapshot/<Entity>`: copies and read-backs, each valid up to a watermark, within the org's
allowances."""
