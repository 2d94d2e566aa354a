"""Streams beside change events: PushTopics and generic channels (Streaming API Developer Guide)."""
