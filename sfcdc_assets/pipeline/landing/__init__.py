"""Landing: from a channel's subscription to `raw_events`, and what keeps that true."""
