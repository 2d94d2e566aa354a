"""The tables against the org and against themselves: audits, comparisons, and tables built again."""
