"""The org's REST side as a client: session, describe, query, bulk query, retrieve, limits, channel members."""
