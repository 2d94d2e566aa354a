"""The day-0 copy of an entity: taken at a watermark of the stream, read page by page, resumable at any page."""
