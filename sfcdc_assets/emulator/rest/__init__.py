"""The emulated org's REST side: OAuth, describe, query, records, composite, Bulk API 2.0 queries, limits, control."""
