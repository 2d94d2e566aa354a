"""Delivered events that are no change events -> typed rows of append-only tables: PushTopic notifications, what
applications push to generic channels, platform events.

Pure: an event, and what is known of its fields, give its values. Nothing of an event is lost: the row keeps its bytes
as delivered, `_rescued_data` the values that have no column or do not fit theirs, and `_problem` says why.
"""
