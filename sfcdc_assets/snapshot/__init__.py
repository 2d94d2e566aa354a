"""The day-0 copy of an entity: pinned to the stream, read page by page, resumable at any page."""
