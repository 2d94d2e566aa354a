"""Channels that carry no change events: platform events, PushTopics and generic channels, from an event to typed
rows and to what is known of a record."""
