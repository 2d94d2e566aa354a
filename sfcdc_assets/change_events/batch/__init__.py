"""Avro payloads read many at a time: arrays over all events of a batch in place of objects for each.

What costs time in an event is not its bytes but the Python objects made of them, most of which are nulls. Here a step
(the next field of the header, the next value that is not null) is taken for all events of a batch at once, and only
values that are there are ever looked at. So an event costs what it carries, however many fields its schema has.

`EventDecoder`, which reads one event with fastavro, stays the reference. Whatever is not plain (an event that is
damaged, a list of checkboxes, the name of a person's account) is left to it, event by event; so an error is found and
worded in one place, and a batch never fails for one of its events.
"""
