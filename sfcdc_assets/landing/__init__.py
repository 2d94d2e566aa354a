"""From a channel's subscription to the table of its events, at once and once."""
